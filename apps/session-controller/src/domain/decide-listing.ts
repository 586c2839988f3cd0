import { isTimeOver } from "./decide-verdict.ts";
import type { MachineFacts } from "./describe-loss.ts";
import { needsListForLostMachine } from "./replace-machines.ts";
import { isFinished, type SessionRecord } from "./session.ts";
import type { LivePod, Snapshot } from "./snapshot.ts";
import { hasEnded, hasPodEnded, type PodSeen } from "./summarise-components.ts";

/** The known pods of a session at the beginning of a pass. */
export type KnownPods = MachineFacts & {
  readonly nowMs: number;
  readonly record: SessionRecord;
  /** Pod states of the watchers. */
  readonly pods: readonly PodSeen[];
  /** True if a watcher has recently confirmed that it observes the cluster and that its publications arrive here. */
  readonly podsFresh: boolean;
  /** Whether the last list is old enough for another list. */
  readonly isListDue: boolean;
  /** The last list, without pods that were deleted since; undefined: no list is recent enough. */
  readonly listed: readonly LivePod[] | undefined;
  readonly isReading: boolean;
};

/**
 * Returns whether the next decision requires a list of the pods from the API server: for a clean-up, an expired time limit, a lost machine, or facts that
 * watchers do not publish.
 */
export function needsListing(known: KnownPods): boolean {
  const { nowMs, record, isListDue } = known;
  if (record.podsDeleted || isFinished(record)) return false;
  if (record.verdict !== undefined) return !isListEnough(known);
  if (isTimeOver(record, nowMs) || needsListForLostMachine(known)) return true;
  return isListDue && isPublicationMissing(known);
}

/**
 * Returns whether the clean-up can continue with the last list: while logs are read or pods remain to be deleted. After that it waits until a watcher publishes
 * that the last pod no longer exists; a new list must confirm this.
 */
function isListEnough({ listed, isReading, podsFresh, pods, record }: KnownPods): boolean {
  if (listed === undefined || isReading) return listed !== undefined;
  if (listed.some(({ deleting }) => !deleting)) return true;
  const own = new Set(record.components.map(({ podUid }) => podUid));
  return listed.length > 0 && podsFresh && pods.some(({ uid, deleted }) => !deleted && own.has(uid));
}

/**
 * Returns whether an event reports the next progress of the clean-up: a pod that ends or is removed, or a finished log read. Only a new list shows whether the
 * last container has ended, and whether pods of lost or silent nodes are overdue.
 */
export function isProgressReported(known: Omit<KnownPods, "isListDue" | "isReading">): boolean {
  const { record, pods, podsFresh, nodesLost, listed = [] } = known;
  if (!podsFresh || nodesLost.size > 0 || listed.some(({ overdueOn }) => overdueOn !== undefined)) return false;
  if (listed.some(({ deleting }) => !deleting)) return true;
  const uids = new Set(listed.map(({ uid }) => uid));
  const present = pods.filter(({ uid, deleted }) => !deleted && uids.has(uid));
  return present.length > 0 && (record.released || present.some((pod) => !hasPodEnded(pod)));
}

/** Returns whether a pod may still run, and the watchers are silent or have published no state of it. */
export function isPublicationMissing({
  record,
  pods,
  podsFresh,
}: Pick<KnownPods, "record" | "pods" | "podsFresh">): boolean {
  const published = new Set(podsFresh ? pods.map(({ uid }) => uid) : []);
  return record.components.some(
    (component) => component.podUid !== "" && !hasEnded(component) && !published.has(component.podUid),
  );
}

/** Returns the last states that silent watchers published, without unfinished pods that the API server no longer lists. */
export function withoutUnlisted(pods: readonly PodSeen[], livePods: Snapshot["livePods"]): readonly PodSeen[] {
  if (livePods === undefined) return pods;
  const listed = new Set(livePods.map(({ uid }) => uid));
  return pods.filter((pod) => hasPodEnded(pod) || listed.has(pod.uid));
}
