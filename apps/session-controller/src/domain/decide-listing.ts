import { isTimeOver } from "./decide-verdict.ts";
import { needsPodsOfLost } from "./replace-machines.ts";
import { isFinished, type SessionRecord } from "./session.ts";
import type { LivePod, Snapshot } from "./snapshot.ts";
import { hasEnded, hasPodEnded, type PodSeen } from "./summarise-components.ts";

/** What one pass knows of a session's pods before it decides anything. */
export type PodNews = {
  readonly nowMs: number;
  readonly record: SessionRecord;
  /** What the watchers published. */
  readonly pods: readonly PodSeen[];
  /** A watcher confirmed lately that it sees the cluster, and what it published arrives here. */
  readonly podsFresh: boolean;
  /** As in the snapshot of the pass. */
  readonly nodesLost: Snapshot["nodesLost"];
  /** The last list is old enough for another one. */
  readonly isListDue: boolean;
  /** The last list, with what was deleted since; undefined: there is none that is young enough to go on from. */
  readonly listed: readonly LivePod[] | undefined;
  readonly isReading: boolean;
};

/** True when the next decision needs a list of the pods from the API server: a clean-up, a time limit that has passed, a lost machine, or news that no watcher brings. */
export function needsListing(news: PodNews): boolean {
  const { nowMs, record, isListDue } = news;
  if (record.podsDeleted || isFinished(record)) return false;
  if (record.verdict !== undefined) return !isListEnough(news);
  if (isTimeOver(record, nowMs) || needsPodsOfLost(news)) return true;
  return isListDue && isNewsMissing(news);
}

/** Whether the clean-up can go on from the last list: while logs are read or pods are still to be deleted, and then until a watcher publishes that the last pod is gone. Only a new list says so. */
function isListEnough({ listed, isReading, podsFresh, pods, record }: PodNews): boolean {
  if (listed === undefined || isReading) return listed !== undefined;
  if (listed.some(({ deleting }) => !deleting)) return true;
  const own = new Set(record.components.map(({ podUid }) => podUid));
  return listed.length > 0 && podsFresh && pods.some(({ uid, deleted }) => !deleted && own.has(uid));
}

/** True when a pod has not ended as far as is known here, and the watchers either published nothing of it or are silent. */
export function isNewsMissing({ record, pods, podsFresh }: Pick<PodNews, "record" | "pods" | "podsFresh">): boolean {
  const published = new Set(podsFresh ? pods.map(({ uid }) => uid) : []);
  return record.components.some(
    (component) => component.podUid !== "" && !hasEnded(component) && !published.has(component.podUid),
  );
}

/** What silent watchers published, without the pods that had not ended then and that the API server does not list any more. */
export function withoutUnlisted(pods: readonly PodSeen[], livePods: Snapshot["livePods"]): readonly PodSeen[] {
  if (livePods === undefined) return pods;
  const listed = new Set(livePods.map(({ uid }) => uid));
  return pods.filter((pod) => hasPodEnded(pod) || listed.has(pod.uid));
}
