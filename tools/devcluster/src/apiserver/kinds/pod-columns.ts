import { at, type JsonValue, type JsonObject, listAt, numberAt, textAt } from "../json.ts";
import { isDeleting } from "../metadata.ts";
import { AGE, ageOf, type Column, column, NAME, orNone } from "../table.ts";

/** The columns of `kubectl get pods`. */
export const podColumns: readonly Column[] = [
  NAME,
  column("Ready", (pod) => `${describePod(pod).ready}/${describePod(pod).total}`),
  column("Status", (pod) => describePod(pod).status),
  column("Restarts", (pod, nowMs) => {
    const { restarts, lastRestart } = describePod(pod);
    return restarts === 0 || lastRestart === "" ? `${restarts}` : `${restarts} (${ageOf(lastRestart, nowMs)} ago)`;
  }),
  AGE,
  column(
    "IP",
    (pod) => orNone(textAt(listAt(pod, "status", "podIPs")[0], "ip") || textAt(pod, "status", "podIP")),
    "wide",
  ),
  column("Node", (pod) => orNone(textAt(pod, "spec", "nodeName")), "wide"),
  column("Nominated Node", (pod) => orNone(textAt(pod, "status", "nominatedNodeName")), "wide"),
  column("Readiness Gates", readinessGates, "wide"),
];

export type PodSummary = {
  readonly ready: number;
  readonly total: number;
  readonly status: string;
  readonly restarts: number;
  /** "" if no container has ended before. */
  readonly lastRestart: string;
};

/** Summarises the state of a pod in one word, with its numbers, as kubectl does. */
export function describePod(pod: JsonObject): PodSummary {
  const total = listAt(pod, "spec", "containers").length + sidecarNames(pod).length;
  const init = describeInit(pod);
  const base = { total, lastRestart: lastRestart(pod) };
  if (init.status !== undefined && conditionOf(pod, "Initialized") !== "True") {
    return { ...base, ready: init.ready, restarts: init.restarts, status: withDeletion(pod, init.status) };
  }
  const statuses = listAt(pod, "status", "containerStatuses");
  const restarts = init.sidecarRestarts + sum(statuses, (status) => numberAt(status, "restartCount") ?? 0);
  const running = statuses.filter(
    (status) => at(status, "ready") === true && at(status, "state", "running") !== undefined,
  );
  const worded = statuses.map((status) => wordFor(status, "")).find((word) => word !== undefined);
  const status = worded ?? init.status ?? phaseWord(pod);
  const corrected = status === "Completed" && running.length > 0 ? runningWord(pod) : status;
  return { ...base, ready: init.ready + running.length, restarts, status: withDeletion(pod, corrected) };
}

function phaseWord(pod: JsonObject): string {
  const gated = listAt(pod, "status", "conditions").some(
    (condition) => textAt(condition, "type") === "PodScheduled" && textAt(condition, "reason") === "SchedulingGated",
  );
  if (gated) return "SchedulingGated";
  return textAt(pod, "status", "reason") || textAt(pod, "status", "phase");
}

function runningWord(pod: JsonObject): string {
  return conditionOf(pod, "Ready") === "True" ? "Running" : "NotReady";
}

function withDeletion(pod: JsonObject, status: string): string {
  if (!isDeleting(pod)) return status;
  if (textAt(pod, "status", "reason") === "NodeLost") return "Unknown";
  return ["Succeeded", "Failed"].includes(textAt(pod, "status", "phase")) ? status : "Terminating";
}

type InitSummary = {
  readonly ready: number;
  readonly restarts: number;
  readonly sidecarRestarts: number;
  /** Undefined once initialization is over. */
  readonly status: string | undefined;
};

function describeInit(pod: JsonObject): InitSummary {
  const sidecars = sidecarNames(pod);
  const statuses = listAt(pod, "status", "initContainerStatuses");
  const restartsOf = (status: JsonValue): number => numberAt(status, "restartCount") ?? 0;
  const isSidecar = (status: JsonValue): boolean => sidecars.includes(textAt(status, "name"));
  const isStarted = (status: JsonValue): boolean => isSidecar(status) && at(status, "started") === true;
  const isOver = (status: JsonValue): boolean => numberAt(status, "state", "terminated", "exitCode") === 0;
  const current = statuses.findIndex((status) => !isOver(status) && !isStarted(status));
  const passed = current < 0 ? statuses : statuses.slice(0, current + 1);
  const blocked = statuses[current];
  return {
    ready: passed.filter((status) => isStarted(status) && at(status, "ready") === true).length,
    restarts: sum(passed, restartsOf),
    sidecarRestarts: sum(passed.filter(isSidecar), restartsOf),
    status:
      blocked === undefined ? undefined : initWord(blocked, current, listAt(pod, "spec", "initContainers").length),
  };
}

function initWord(status: JsonValue, index: number, total: number): string {
  const word = wordFor(status, "Init:");
  return word === undefined || word === "Init:PodInitializing" ? `Init:${index}/${total}` : word;
}

/** Returns the reason why a container does not run; undefined if it runs or its state is unknown. */
function wordFor(status: JsonValue, prefix: string): string | undefined {
  const waiting = textAt(status, "state", "waiting", "reason");
  if (waiting !== "") return prefix + waiting;
  const terminated = at(status, "state", "terminated");
  if (terminated === undefined) return undefined;
  const reason = textAt(terminated, "reason");
  if (reason !== "") return prefix + reason;
  const signal = numberAt(terminated, "signal") ?? 0;
  return signal === 0 ? `${prefix}ExitCode:${numberAt(terminated, "exitCode") ?? 0}` : `${prefix}Signal:${signal}`;
}

function sidecarNames(pod: JsonObject): string[] {
  return listAt(pod, "spec", "initContainers")
    .filter((container) => textAt(container, "restartPolicy") === "Always")
    .map((container) => textAt(container, "name"));
}

function lastRestart(pod: JsonObject): string {
  const statuses = [...listAt(pod, "status", "initContainerStatuses"), ...listAt(pod, "status", "containerStatuses")];
  const ends = statuses.map((status) => textAt(status, "lastState", "terminated", "finishedAt"));
  return ends.sort().at(-1) ?? "";
}

/** "" if the pod has no such condition. */
function conditionOf(pod: JsonObject, type: string): string {
  return textAt(
    listAt(pod, "status", "conditions").find((condition) => textAt(condition, "type") === type),
    "status",
  );
}

function readinessGates(pod: JsonObject): string {
  const gates = listAt(pod, "spec", "readinessGates");
  if (gates.length === 0) return "<none>";
  const open = gates.filter((gate) => conditionOf(pod, textAt(gate, "conditionType")) === "True");
  return `${open.length}/${gates.length}`;
}

function sum(items: readonly JsonValue[], value: (item: JsonValue) => number): number {
  return items.reduce<number>((total, item) => total + value(item), 0);
}
