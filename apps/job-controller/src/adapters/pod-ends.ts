import type { V1Pod } from "@kubernetes/client-node";
import { KINDS } from "../domain/kinds.ts";
import { findController } from "../domain/ownership.ts";

/** The limit allows for all pods that may end between two passes over their jobs. */
const MAX_ENDS = 50_000;

/** The last state of a pod that ended before its deletion was requested. */
type PodEnd = { readonly pod: V1Pod; readonly isGone: boolean };

type Change = { readonly before: V1Pod | undefined; readonly after: V1Pod | undefined };

/** Ends of pods that no status records yet, so that a deletion of the pod loses no end. */
export type PodEnds = {
  /** Starts to record ends, with the pods that exist; a replica that does not lead records none. Disposal drops all records. */
  begin(there: readonly V1Pod[]): Disposable;
  /** Records a change; the caller passes every change of a pod. */
  seen(change: Change): void;
  of(jobUid: string): readonly PodEnd[];
  forget(jobUid: string, pods: readonly string[]): void;
  /** Drops the recorded pod ends of a deleted job. */
  forgetJob(jobUid: string): void;
};

/** Calls `onFull` once per lead, when the oldest ends are dropped because they exceed `maxEnds`. */
export function makePodEnds(onFull: (maxEnds: number) => void, most: number = MAX_ENDS): PodEnds {
  const jobs = new Map<string, Map<string, PodEnd>>();
  /** Maps each pod to its job, the oldest end first. */
  const pods = new Map<string, string>();
  let isLeading = false;
  let isFullReported = false;

  function forget(jobUid: string, uids: readonly string[]): void {
    const ends = jobs.get(jobUid);
    for (const uid of uids) if (ends?.delete(uid) === true) pods.delete(uid);
    if (ends?.size === 0) jobs.delete(jobUid);
  }

  function remember(jobUid: string, uid: string, pod: V1Pod): void {
    jobs.set(jobUid, (jobs.get(jobUid) ?? new Map<string, PodEnd>()).set(uid, { pod, isGone: false }));
    pods.set(uid, jobUid);
    const [oldest] = pods;
    if (pods.size <= most || oldest === undefined) return;
    forget(oldest[1], [oldest[0]]);
    if (!isFullReported) onFull(most);
    isFullReported = true;
  }

  function seen({ before, after }: Change): void {
    if (!isLeading) return;
    if (after === undefined) {
      const uid = before?.metadata?.uid ?? "";
      const ends = jobs.get(pods.get(uid) ?? "");
      const end = ends?.get(uid);
      if (end !== undefined) ends?.set(uid, { ...end, isGone: true });
      return;
    }
    if (!isOver(after) || (before !== undefined && isOver(before))) return;
    const { uid, deletionTimestamp } = after.metadata ?? {};
    const jobUid = findJobUid(after);
    if (uid !== undefined && jobUid !== undefined && deletionTimestamp === undefined) remember(jobUid, uid, after);
  }

  const clear = (): void => {
    isLeading = false;
    isFullReported = false;
    jobs.clear();
    pods.clear();
  };
  return {
    begin: (there) => {
      clear();
      isLeading = true;
      for (const pod of there) seen({ before: undefined, after: pod });
      return { [Symbol.dispose]: clear };
    },
    seen,
    of: (jobUid) => [...(jobs.get(jobUid)?.values() ?? [])],
    forget,
    forgetJob: (jobUid) => forget(jobUid, [...(jobs.get(jobUid)?.keys() ?? [])]),
  };
}

function isOver({ status }: V1Pod): boolean {
  return status?.phase === "Succeeded" || status?.phase === "Failed";
}

/** Returns the uid of the controlling job; other controllers handle the ends of their own pods. */
function findJobUid(pod: V1Pod): string | undefined {
  const owner = findController(pod);
  const isJob = KINDS.some(
    ({ kind, group, version }) => owner?.kind === kind && owner.apiVersion === `${group}/${version}`,
  );
  return isJob ? owner?.uid : undefined;
}
