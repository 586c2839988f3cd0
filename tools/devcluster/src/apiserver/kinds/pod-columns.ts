import { at, type JsonValue, type JsonObject, getList, findNumber, getText } from "../json.ts";
import { isDeleting } from "../metadata.ts";
import { AGE, formatAge, type Column, defineColumn, NAME, formatOrNone } from "../table.ts";

/** The columns of `kubectl get pods`. */
export const podColumns: readonly Column[] = [
  NAME,
  defineColumn("Ready", (pod) => `${describePod(pod).ready}/${describePod(pod).total}`),
  defineColumn("Status", (pod) => describePod(pod).status),
  defineColumn("Restarts", (pod, nowMs) => {
    const { restarts, lastRestart } = describePod(pod);
    return restarts === 0 || lastRestart === "" ? `${restarts}` : `${restarts} (${formatAge(lastRestart, nowMs)} ago)`;
  }),
  AGE,
  defineColumn(
    "IP",
    (pod) => formatOrNone(getText(getList(pod, "status", "podIPs")[0], "ip") || getText(pod, "status", "podIP")),
    "wide",
  ),
  defineColumn("Node", (pod) => formatOrNone(getText(pod, "spec", "nodeName")), "wide"),
  defineColumn("Nominated Node", (pod) => formatOrNone(getText(pod, "status", "nominatedNodeName")), "wide"),
  defineColumn("Readiness Gates", readinessGates, "wide"),
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
  const total = getList(pod, "spec", "containers").length + sidecarNames(pod).length;
  const init = describeInit(pod);
  const base = { total, lastRestart: lastRestart(pod) };
  if (init.status !== undefined && getConditionStatus(pod, "Initialized") !== "True") {
    return { ...base, ready: init.ready, restarts: init.restarts, status: withDeletion(pod, init.status) };
  }
  const statuses = getList(pod, "status", "containerStatuses");
  const restarts = init.sidecarRestarts + sum(statuses, (status) => findNumber(status, "restartCount") ?? 0);
  const running = statuses.filter(
    (status) => at(status, "ready") === true && at(status, "state", "running") !== undefined,
  );
  const worded = statuses.map((status) => wordFor(status, "")).find((word) => word !== undefined);
  const status = worded ?? init.status ?? phaseWord(pod);
  const corrected = status === "Completed" && running.length > 0 ? runningWord(pod) : status;
  return { ...base, ready: init.ready + running.length, restarts, status: withDeletion(pod, corrected) };
}

function phaseWord(pod: JsonObject): string {
  const gated = getList(pod, "status", "conditions").some(
    (condition) => getText(condition, "type") === "PodScheduled" && getText(condition, "reason") === "SchedulingGated",
  );
  if (gated) return "SchedulingGated";
  return getText(pod, "status", "reason") || getText(pod, "status", "phase");
}

function runningWord(pod: JsonObject): string {
  return getConditionStatus(pod, "Ready") === "True" ? "Running" : "NotReady";
}

function withDeletion(pod: JsonObject, status: string): string {
  if (!isDeleting(pod)) return status;
  if (getText(pod, "status", "reason") === "NodeLost") return "Unknown";
  return ["Succeeded", "Failed"].includes(getText(pod, "status", "phase")) ? status : "Terminating";
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
  const statuses = getList(pod, "status", "initContainerStatuses");
  const restartsOf = (status: JsonValue): number => findNumber(status, "restartCount") ?? 0;
  const isSidecar = (status: JsonValue): boolean => sidecars.includes(getText(status, "name"));
  const isStarted = (status: JsonValue): boolean => isSidecar(status) && at(status, "started") === true;
  const isOver = (status: JsonValue): boolean => findNumber(status, "state", "terminated", "exitCode") === 0;
  const current = statuses.findIndex((status) => !isOver(status) && !isStarted(status));
  const passed = current < 0 ? statuses : statuses.slice(0, current + 1);
  const blocked = statuses[current];
  return {
    ready: passed.filter((status) => isStarted(status) && at(status, "ready") === true).length,
    restarts: sum(passed, restartsOf),
    sidecarRestarts: sum(passed.filter(isSidecar), restartsOf),
    status:
      blocked === undefined ? undefined : initWord(blocked, current, getList(pod, "spec", "initContainers").length),
  };
}

function initWord(status: JsonValue, index: number, total: number): string {
  const word = wordFor(status, "Init:");
  return word === undefined || word === "Init:PodInitializing" ? `Init:${index}/${total}` : word;
}

/** Returns the reason why a container does not run; undefined if it runs or its state is unknown. */
function wordFor(status: JsonValue, prefix: string): string | undefined {
  const waiting = getText(status, "state", "waiting", "reason");
  if (waiting !== "") return prefix + waiting;
  const terminated = at(status, "state", "terminated");
  if (terminated === undefined) return undefined;
  const reason = getText(terminated, "reason");
  if (reason !== "") return prefix + reason;
  const signal = findNumber(terminated, "signal") ?? 0;
  return signal === 0 ? `${prefix}ExitCode:${findNumber(terminated, "exitCode") ?? 0}` : `${prefix}Signal:${signal}`;
}

function sidecarNames(pod: JsonObject): string[] {
  return getList(pod, "spec", "initContainers")
    .filter((container) => getText(container, "restartPolicy") === "Always")
    .map((container) => getText(container, "name"));
}

function lastRestart(pod: JsonObject): string {
  const statuses = [...getList(pod, "status", "initContainerStatuses"), ...getList(pod, "status", "containerStatuses")];
  const ends = statuses.map((status) => getText(status, "lastState", "terminated", "finishedAt"));
  return ends.sort().at(-1) ?? "";
}

/** "" if the pod has no such condition. */
function getConditionStatus(pod: JsonObject, type: string): string {
  return getText(
    getList(pod, "status", "conditions").find((condition) => getText(condition, "type") === type),
    "status",
  );
}

function readinessGates(pod: JsonObject): string {
  const gates = getList(pod, "spec", "readinessGates");
  if (gates.length === 0) return "<none>";
  const open = gates.filter((gate) => getConditionStatus(pod, getText(gate, "conditionType")) === "True");
  return `${open.length}/${gates.length}`;
}

function sum(items: readonly JsonValue[], value: (item: JsonValue) => number): number {
  return items.reduce<number>((total, item) => total + value(item), 0);
}
