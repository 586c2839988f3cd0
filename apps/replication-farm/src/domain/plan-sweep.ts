import { decideForce, type ForcePolicy, type NodeSeen } from "@muster/health";

/** A pod that says that it is some set's. */
export type OwnedPod = {
  readonly pod: string;
  readonly uid: string;
  readonly set: string;
  readonly setUid: string;
  /** The installation that says that it has made it, where that is another one than ours. */
  readonly otherInstallation: string | undefined;
  /** Empty until it is placed. */
  readonly node: string;
  readonly deleting: boolean;
  /** Its node, once its time to end is over; undefined: it may still end, or nothing is known of the node. */
  readonly overdueOn: NodeSeen | undefined;
  /** Somebody wants it to stay, whatever became of its set. */
  readonly kept: boolean;
};

export type SweepPlan = {
  /** `force`: without the word of the node. */
  readonly delete: readonly { readonly pod: OwnedPod; readonly force: boolean }[];
  /** Uids of those that are deleted if they are orphans at the next look, too. */
  readonly suspects: ReadonlySet<string>;
  /** Pods of other installations, one for each: their sets are stored elsewhere, so that nobody here knows whether they are wanted. */
  readonly leftAlone: readonly string[];
};

/**
 * Which pods go because their set does not exist, or is another one of that name by now. One that is met for the first time is only suspected: its set may just have been made, or be on its way
 * out with its pods. A pod whose set is stored here with the uid that it names is ours, whatever installation it names. `setUids`: uid of each set that is stored, read after the pods; undefined for one that cannot be read, whose pods are left alone.
 */
export function planSweep(
  pods: readonly OwnedPod[],
  setUids: ReadonlyMap<string, string | undefined>,
  suspectsBefore: ReadonlySet<string>,
  nowMs: number,
  policy: ForcePolicy,
): SweepPlan {
  const isOrphan = ({ set, setUid, kept }: OwnedPod): boolean => {
    if (kept) return false;
    return !setUids.has(set) || (setUids.get(set) ?? setUid) !== setUid;
  };
  const strangers = pods.filter(isOrphan);
  const leftAlone = strangers.flatMap(({ otherInstallation }) => otherInstallation ?? []);
  const orphans = strangers.filter(({ otherInstallation }) => otherInstallation === undefined);
  const due = orphans.filter(({ uid }) => suspectsBefore.has(uid));
  return {
    delete: due.flatMap((pod): SweepPlan["delete"] => {
      if (!pod.deleting) return [{ pod, force: false }];
      return decideForce(pod.overdueOn, nowMs, policy) === undefined ? [] : [{ pod, force: true }];
    }),
    suspects: new Set(orphans.map(({ uid }) => uid)),
    leftAlone,
  };
}
