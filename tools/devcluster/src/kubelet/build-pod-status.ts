import type { V1ContainerState, V1ContainerStatus, V1Pod, V1PodCondition, V1PodStatus } from "@kubernetes/client-node";
import { type Ending, isInitialized, isPassed, type Phase, computePodPhase } from "./pod-phase.ts";
import { type ContainerRecord, type EndedRun, hasSucceeded, findLastRun } from "./transition-container.ts";

export type PodObservation = {
  /** The pod as stored; foreign conditions are kept. */
  readonly pod: V1Pod;
  readonly containers: readonly ContainerRecord[];
  readonly podIp: string | undefined;
  readonly hostIp: string;
  readonly startedAtMs: number;
  readonly ending: Ending | undefined;
  readonly nowMs: number;
};

/** Builds the status that the kubelet reports: phase, conditions and containers as Kubernetes' own kubelet derives them. */
export function buildPodStatus(observation: PodObservation): V1PodStatus {
  const { pod, containers, podIp, hostIp, startedAtMs, ending } = observation;
  const old = pod.status ?? {};
  const phase = computePodPhase(pod, containers, ending);
  const status: V1PodStatus = {
    ...old,
    phase,
    conditions: buildConditions(observation, phase),
    hostIP: hostIp,
    hostIPs: [{ ip: hostIp }],
    startTime: new Date(startedAtMs),
    containerStatuses: buildContainers("main", observation, phase),
  };
  if (podIp !== undefined) Object.assign(status, { podIP: podIp, podIPs: [{ ip: podIp }] });
  if (containers.some((each) => each.kind !== "main")) {
    status.initContainerStatuses = buildContainers("init", observation, phase);
  }
  if (ending?.because === "deadline") {
    status.reason = "DeadlineExceeded";
    status.message = "Pod was active on the node longer than the specified deadline";
  }
  return status;
}

function buildContainers(list: "init" | "main", observation: PodObservation, phase: Phase): V1ContainerStatus[] {
  const images = new Map(
    [...(observation.pod.spec?.initContainers ?? []), ...(observation.pod.spec?.containers ?? [])].map(
      ({ name, image = "" }) => [name, image],
    ),
  );
  return observation.containers
    .filter((each) => (each.kind === "main") === (list === "main"))
    .map((record) => {
      const { state, last } = record;
      const image = images.get(record.name) ?? "";
      const containerId = state.is === "running" ? state.containerId : findLastRun(record)?.containerId;
      return {
        name: record.name,
        image,
        imageID: "",
        ready: isReady(record, phase),
        started: state.is === "running",
        restartCount: Math.max(0, record.runs - 1),
        state: buildState(record),
        lastState: last === undefined ? {} : { terminated: buildTerminated(last) },
        ...(containerId === undefined ? {} : { containerID: containerId }),
      };
    });
}

function isReady(record: ContainerRecord, phase: Phase): boolean {
  if (record.kind === "init") return hasSucceeded(record);
  if (record.kind === "sidecar") return record.state.is === "running" && record.ready;
  return phase === "Running" && record.state.is === "running" && record.ready;
}

function buildState({ state }: ContainerRecord): V1ContainerState {
  switch (state.is) {
    case "waiting": {
      const { reason, message } = state;
      return { waiting: { reason, ...(message === undefined ? {} : { message }) } };
    }
    case "running":
      return { running: { startedAt: new Date(state.startedAtMs) } };
    case "ended":
      return { terminated: buildTerminated(state.run) };
  }
}

function buildTerminated(run: EndedRun): NonNullable<V1ContainerState["terminated"]> {
  return {
    exitCode: run.exitCode,
    reason: run.reason,
    // A run that never began gets the epoch as its start, as in containerd.
    startedAt: new Date(run.startedAtMs ?? 0),
    finishedAt: new Date(run.finishedAtMs),
    containerID: run.containerId,
    ...(run.message === undefined ? {} : { message: run.message }),
  };
}

type Judgement = Pick<V1PodCondition, "type" | "status" | "reason" | "message">;

function buildConditions(observation: PodObservation, phase: Phase): V1PodCondition[] {
  const old = observation.pod.status?.conditions ?? [];
  const judged = judge(observation, phase);
  const own = judged.map((condition): V1PodCondition => {
    const before = old.find((each) => each.type === condition.type);
    const isSame = before?.status === condition.status;
    const since = isSame ? before.lastTransitionTime : undefined;
    return { ...condition, lastTransitionTime: since ?? new Date(observation.nowMs) };
  });
  return [...own, ...old.filter((each) => !judged.some(({ type }) => type === each.type))];
}

function judge(observation: PodObservation, phase: Phase): Judgement[] {
  const { pod, containers, podIp } = observation;
  const over = phase === "Succeeded" ? "PodCompleted" : phase === "Failed" ? "PodFailed" : undefined;
  const inits = containers.filter((each) => each.kind !== "main");
  const serving = containers.filter((each) => each.kind !== "init");
  const isOver = over !== undefined || isInitialized(containers);
  const unfinished = isOver
    ? inits.filter((each) => each.kind === "init" && !hasSucceeded(each)).map((each) => each.name)
    : inits.filter((each) => !isPassed(each)).map((each) => each.name);
  const unready = serving.filter((each) => !isReady(each, phase)).map((each) => each.name);

  const initialized: Judgement =
    unfinished.length === 0
      ? { type: "Initialized", status: "True", ...(phase === "Succeeded" ? { reason: "PodCompleted" } : {}) }
      : refused(
          "Initialized",
          "ContainersNotInitialized",
          `containers with incomplete status: [${unfinished.join(" ")}]`,
        );
  const containersReady: Judgement =
    over !== undefined
      ? { type: "ContainersReady", status: "False", reason: over }
      : unready.length === 0
        ? { type: "ContainersReady", status: "True" }
        : refused("ContainersReady", "ContainersNotReady", `containers with unready status: [${unready.join(" ")}]`);
  return [
    { type: "PodScheduled", status: "True" },
    { type: "PodReadyToStartContainers", status: podIp !== undefined && over === undefined ? "True" : "False" },
    initialized,
    containersReady,
    { ...(containersReady.status === "True" ? gateCondition(pod) : containersReady), type: "Ready" },
  ];
}

/** The pod's own readiness gates, which other controllers open through conditions. */
function gateCondition(pod: V1Pod): Judgement {
  const conditions = pod.status?.conditions ?? [];
  const closed = (pod.spec?.readinessGates ?? [])
    .map((gate) => gate.conditionType)
    .filter((type) => conditions.find((each) => each.type === type)?.status !== "True");
  if (closed.length === 0) return { type: "Ready", status: "True" };
  return refused(
    "Ready",
    "ReadinessGatesNotReady",
    `the status of pod readiness gates is not "True": [${closed.join(" ")}]`,
  );
}

function refused(type: string, reason: string, message: string): Judgement {
  return { type, status: "False", reason, message };
}
