import type { V1Pod } from "@kubernetes/client-node";
import { KINDS } from "../domain/kinds.ts";
import { controllerOf } from "../domain/ownership.ts";

/** How many ends are remembered: as many as pods may end between two passes over their jobs. */
export const ENDS_MOST = 50_000;

/** A pod that ended before anybody asked for its deletion, as it was then. */
export type PodEnd = { readonly pod: V1Pod; readonly isGone: boolean };

type Change = { readonly before: V1Pod | undefined; readonly after: V1Pod | undefined };

/** What no pass has written down yet of pods that ended: whoever deletes one of them takes nothing away. */
export type PodEnds = {
  /** Begins to remember, with the pods that are there; whoever does not lead has nobody who writes them down. Disposed of, it forgets everything. */
  begin(there: readonly V1Pod[]): Disposable;
  /** To be told of every change of a pod. */
  seen(change: Change): void;
  of(jobUid: string): readonly PodEnd[];
  forget(jobUid: string, pods: readonly string[]): void;
  /** To be called when there is no such job any more. */
  forgetJob(jobUid: string): void;
};

/** `onFull` is told, once in each lead, that the oldest ends are forgotten because there are more than `most`. */
export function podEnds(onFull: (most: number) => void, most: number = ENDS_MOST): PodEnds {
  const jobs = new Map<string, Map<string, PodEnd>>();
  /** The job of each pod, the oldest end first. */
  const pods = new Map<string, string>();
  let isLeading = false;
  let isFullTold = false;

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
    if (!isFullTold) onFull(most);
    isFullTold = true;
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
    const jobUid = jobUidOf(after);
    if (uid !== undefined && jobUid !== undefined && deletionTimestamp === undefined) remember(jobUid, uid, after);
  }

  const clear = (): void => {
    isLeading = false;
    isFullTold = false;
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

/** Of pods that a job controls; whoever else controls pods looks after them. */
function jobUidOf(pod: V1Pod): string | undefined {
  const owner = controllerOf(pod);
  const isJob = KINDS.some(
    ({ kind, group, version }) => owner?.kind === kind && owner.apiVersion === `${group}/${version}`,
  );
  return isJob ? owner?.uid : undefined;
}
