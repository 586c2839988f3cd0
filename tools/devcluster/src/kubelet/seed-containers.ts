import type { V1ContainerStateTerminated, V1ContainerStatus, V1Pod } from "@kubernetes/client-node";
import { type ContainerRecord, type EndedRun, makeContainer } from "./transition-container.ts";

/**
 * Builds the container records of a newly started kubelet from the pod's status. The kubelet has ended leftover processes at its start, so a container that
 * was running counts as killed, and the restart policy applies.
 */
export function seedContainers(pod: V1Pod, nowMs: number): ContainerRecord[] {
  const inits = pod.spec?.initContainers ?? [];
  const mains = pod.spec?.containers ?? [];
  const known = [...(pod.status?.initContainerStatuses ?? []), ...(pod.status?.containerStatuses ?? [])];
  return [
    ...inits.map(({ name, restartPolicy }) =>
      makeContainer(name, restartPolicy === "Always" ? "sidecar" : "init", true),
    ),
    ...mains.map(({ name }) => makeContainer(name, "main", inits.length > 0)),
  ].map((fresh) => {
    const status = known.find((each) => each.name === fresh.name);
    return status === undefined ? fresh : seed(fresh, status, nowMs);
  });
}

function seed(fresh: ContainerRecord, status: V1ContainerStatus, nowMs: number): ContainerRecord {
  const { state, lastState } = status;
  const last = lastState?.terminated === undefined ? undefined : endedRun(lastState.terminated);
  const runs = state?.waiting !== undefined && last === undefined ? 0 : status.restartCount + 1;
  if (state?.terminated !== undefined) {
    return { ...fresh, runs, last, state: { is: "ended", run: endedRun(state.terminated) } };
  }
  if (state?.running !== undefined) {
    const run: EndedRun = {
      exitCode: 137,
      reason: "ContainerStatusUnknown",
      message: "The kubelet was started again; processes of its earlier life were ended",
      startedAtMs: timeMs(state.running.startedAt),
      finishedAtMs: nowMs,
      containerId: status.containerID ?? "",
    };
    return { ...fresh, runs, last, state: { is: "ended", run } };
  }
  return last === undefined ? fresh : { ...fresh, runs, state: { is: "ended", run: last } };
}

const REASONS: readonly EndedRun["reason"][] = ["Completed", "Error", "StartError", "ContainerStatusUnknown"];

function endedRun(terminated: V1ContainerStateTerminated): EndedRun {
  const startedAtMs = timeMs(terminated.startedAt);
  return {
    exitCode: terminated.exitCode,
    reason: REASONS.find((reason) => reason === terminated.reason) ?? "Error",
    message: terminated.message,
    startedAtMs: startedAtMs === 0 ? undefined : startedAtMs,
    finishedAtMs: timeMs(terminated.finishedAt) ?? 0,
    containerId: terminated.containerID ?? "",
  };
}

/** Watch events contain times as text, although their type is Date. */
function timeMs(time: Date | undefined): number | undefined {
  return time === undefined ? undefined : new Date(time).getTime();
}
