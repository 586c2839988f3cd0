import type { V1ContainerState, V1ContainerStateTerminated, V1ContainerStatus } from "@kubernetes/client-node";
import type { ContainerEnd, PodTrouble } from "../domain/snapshot.ts";

/** Kubelets hand on what container runtimes say, and that has no limit of its own; caches hold many pods. */
const WORDS_MOST = 512;
/** What a container waits for while everything goes well. */
const STARTING: ReadonlySet<string> = new Set(["", "ContainerCreating", "PodInitializing"]);
/** The kubelet has lost the container, and counts its restart at once instead of when it starts again. */
const STATUS_LOST = "ContainerStatusUnknown";
/** Words for an end that say no more than its exit code. */
const PLAIN_ENDS: ReadonlySet<string> = new Set(["", "Completed", "Error"]);

/** What the cache keeps of a container: how often it ran and since when, how it ended, and what is wrong with it. */
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

/** How it has ended; empty while it has not. */
export function endOf({ name, state }: V1ContainerStatus): ContainerEnd[] {
  return readEnd(name, state?.terminated);
}

/** How it ended before it was started again; empty when it never was. */
export function lastEndOf({ name, lastState }: V1ContainerStatus): ContainerEnd[] {
  return readEnd(name, lastState?.terminated);
}

/** How it ended, of one that is down after an end that was not good, and that `restartCount` has not in it yet; empty of any other. */
export function downOf({ name, state, lastState }: V1ContainerStatus): ContainerEnd[] {
  if (state?.running !== undefined) return [];
  const end = state?.terminated ?? lastState?.terminated;
  return end === undefined || end.exitCode === 0 || end.reason === STATUS_LOST ? [] : readEnd(name, end);
}

/** Why it does not start, or not again; undefined when nothing is wrong with it. */
export function troubleOf({ name, state, lastState }: V1ContainerStatus): PodTrouble | undefined {
  const { reason = "", message = "" } = state?.waiting ?? {};
  if (STARTING.has(reason)) return undefined;
  const [last] = readEnd(name, lastState?.terminated);
  const ended =
    last === undefined ? "" : `it ended with exit code ${last.code}${last.why === undefined ? "" : `: ${last.why}`}`;
  const words = [ended, message].filter((part) => part !== "").join("; ");
  return { reason, message: shortened(`container ${name}${words && `: ${words}`}`) };
}

/** At most `WORDS_MOST` characters of it. */
export function shortened(words: string): string {
  return words.length <= WORDS_MOST ? words : `${words.slice(0, WORDS_MOST - 1)}…`;
}

function readEnd(container: string, end: V1ContainerStateTerminated | undefined): ContainerEnd[] {
  if (end === undefined) return [];
  const { exitCode, reason = "", message = "" } = end;
  if (exitCode === 0) return [{ container, code: exitCode }];
  const why = [PLAIN_ENDS.has(reason) ? "" : reason, shortened(message.trim())].filter((part) => part !== "");
  return [{ container, code: exitCode, ...(why.length > 0 && { why: why.join(": ") }) }];
}

function keepState(state: V1ContainerState | undefined): V1ContainerState | undefined {
  const { waiting, running, terminated } = state ?? {};
  if (running !== undefined)
    return { running: running.startedAt === undefined ? {} : { startedAt: running.startedAt } };
  if (terminated !== undefined) return { terminated: keepEnd(terminated) };
  const { reason, message } = waiting ?? {};
  if (reason === undefined || STARTING.has(reason)) return undefined;
  return { waiting: { reason, ...(message !== undefined && { message: shortened(message) }) } };
}

/** Of one that went well nobody asks why. */
function keepEnd(end: V1ContainerStateTerminated): V1ContainerStateTerminated {
  const { exitCode, startedAt, finishedAt, reason, message } = end;
  return {
    exitCode,
    ...(startedAt !== undefined && { startedAt }),
    ...(finishedAt !== undefined && { finishedAt }),
    ...(exitCode !== 0 && reason !== undefined && { reason }),
    ...(exitCode !== 0 && message !== undefined && { message: shortened(message) }),
  };
}
