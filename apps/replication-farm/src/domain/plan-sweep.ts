/** A pod that says that it is some set's. */
export type OwnedPod = {
  readonly pod: string;
  readonly uid: string;
  readonly set: string;
  readonly setUid: string;
  readonly deleting: boolean;
  /** Somebody wants it to stay, whatever became of its set. */
  readonly kept: boolean;
};

export type SweepPlan = {
  readonly delete: readonly OwnedPod[];
  /** Uids of those that are deleted if they are still orphans at the next look. */
  readonly suspects: ReadonlySet<string>;
};

/**
 * Which pods go because their set does not exist, or is another one of that name by now. One that is met for the first time is only suspected: its set may just have been made, or be on its way
 * out with its pods. `setUids`: uid of each set that is stored, read after the pods; undefined for one that cannot be read, whose pods are left alone.
 */
export function planSweep(
  pods: readonly OwnedPod[],
  setUids: ReadonlyMap<string, string | undefined>,
  suspectsBefore: ReadonlySet<string>,
): SweepPlan {
  const isOrphan = ({ set, setUid, deleting, kept }: OwnedPod): boolean => {
    if (deleting || kept) return false;
    return !setUids.has(set) || (setUids.get(set) ?? setUid) !== setUid;
  };
  const orphans = pods.filter(isOrphan);
  return {
    delete: orphans.filter(({ uid }) => suspectsBefore.has(uid)),
    suspects: new Set(orphans.filter(({ uid }) => !suspectsBefore.has(uid)).map(({ uid }) => uid)),
  };
}
