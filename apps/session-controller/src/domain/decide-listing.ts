import { isTimeOver } from "./decide-verdict.ts";
import { needsPodsOfLost } from "./replace-machines.ts";
import { isFinished, type SessionRecord } from "./session.ts";
import type { Snapshot } from "./snapshot.ts";
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
};

/** True when the next decision needs a list of the pods from the API server: a clean-up, a time limit that has passed, a lost machine, or news that no watcher brings. */
export function needsListing(news: PodNews): boolean {
  const { nowMs, record, isListDue } = news;
  if (record.podsDeleted || isFinished(record)) return false;
  if (record.verdict !== undefined || isTimeOver(record, nowMs) || needsPodsOfLost(news)) return true;
  return isListDue && isNewsMissing(news);
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
