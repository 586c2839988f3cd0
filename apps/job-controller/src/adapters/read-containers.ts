import type { V1ContainerState, V1ContainerStateTerminated, V1ContainerStatus } from "@kubernetes/client-node";
import type { ContainerEnd, PodTrouble } from "../domain/snapshot.ts";

/** Kubelets forward messages of container runtimes, which have no limit, and caches keep many pods. */
const MAX_WORDS = 512;
/** Reasons for waiting of a container that starts normally. */
const STARTING: ReadonlySet<string> = new Set(["", "ContainerCreating", "PodInitializing"]);
/** The kubelet has lost the container and has already counted its restart. Otherwise the kubelet counts a restart when the container starts. */
const STATUS_LOST = "ContainerStatusUnknown";
/** Reasons that add nothing to the exit code. */
const PLAIN_ENDS: ReadonlySet<string> = new Set(["", "Completed", "Error"]);

/** The part of a container status that the cache keeps: its runs, its ends, and its trouble. */
export function keepContainer({ name, restartCount, ready, state, lastState }: V1ContainerStatus): V1ContainerStatus {
  const now = keepState(state);
  const before = keepState(lastState);
  return {
    name,
    restartCount,
    ready,
    image: "",
    imageID: "",
    ...(now !== undefined && { state: now }),
    ...(before !== undefined && { lastState: before }),
  };
}

/** Returns the end of a container; empty while it runs. */
export function readContainerEnd({ name, state }: V1ContainerStatus): ContainerEnd[] {
  return readEnd(name, state?.terminated);
}

/** Returns the end of the container before its last restart; empty if it never restarted. */
export function readLastEnd({ name, lastState }: V1ContainerStatus): ContainerEnd[] {
  return readEnd(name, lastState?.terminated);
}

/** Returns the end of a stopped container after a failure that `restartCount` does not include yet; empty for any other container. */
export function readUncountedEnd({ name, state, lastState }: V1ContainerStatus): ContainerEnd[] {
  if (state?.running !== undefined) return [];
  const end = state?.terminated ?? lastState?.terminated;
  return end === undefined || end.exitCode === 0 || end.reason === STATUS_LOST ? [] : readEnd(name, end);
}

/** Describes why a container does not start or restart; undefined without a trouble. */
export function findPodTrouble({ name, state, lastState }: V1ContainerStatus): PodTrouble | undefined {
  const { reason = "", message = "" } = state?.waiting ?? {};
  if (STARTING.has(reason)) return undefined;
  const [last] = readEnd(name, lastState?.terminated);
  const ended =
    last === undefined ? "" : `it ended with exit code ${last.code}${last.why === undefined ? "" : `: ${last.why}`}`;
  const words = [ended, message].filter((part) => part !== "").join("; ");
  return { reason, message: truncateText(`container ${name}${words && `: ${words}`}`) };
}

/** Truncates text to `MAX_WORDS` characters. */
export function truncateText(words: string): string {
  return words.length <= MAX_WORDS ? words : `${words.slice(0, MAX_WORDS - 1)}…`;
}

function readEnd(container: string, end: V1ContainerStateTerminated | undefined): ContainerEnd[] {
  if (end === undefined) return [];
  const { exitCode, reason = "", message = "" } = end;
  if (exitCode === 0) return [{ container, code: exitCode }];
  const why = [PLAIN_ENDS.has(reason) ? "" : reason, truncateText(message.trim())].filter((part) => part !== "");
  return [{ container, code: exitCode, ...(why.length > 0 && { why: why.join(": ") }) }];
}

function keepState(state: V1ContainerState | undefined): V1ContainerState | undefined {
  const { waiting, running, terminated } = state ?? {};
  if (running !== undefined)
    return { running: running.startedAt === undefined ? {} : { startedAt: running.startedAt } };
  if (terminated !== undefined) return { terminated: keepEnd(terminated) };
  const { reason, message } = waiting ?? {};
  if (reason === undefined || STARTING.has(reason)) return undefined;
  return { waiting: { reason, ...(message !== undefined && { message: truncateText(message) }) } };
}

/** Drops the reason and message of a success, which no rule needs. */
function keepEnd(end: V1ContainerStateTerminated): V1ContainerStateTerminated {
  const { exitCode, startedAt, finishedAt, reason, message } = end;
  return {
    exitCode,
    ...(startedAt !== undefined && { startedAt }),
    ...(finishedAt !== undefined && { finishedAt }),
    ...(exitCode !== 0 && reason !== undefined && { reason }),
    ...(exitCode !== 0 && message !== undefined && { message: truncateText(message) }),
  };
}
