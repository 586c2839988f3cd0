import { decideForce, type ForcePolicy, type NodeSeen } from "@muster/health";
import type { OwnedObject, Standing } from "@muster/ledger-client/plan-sweep";

/** A pod that says that it is some set's. */
export type OwnedPod = OwnedObject & {
  readonly pod: string;
  readonly set: string;
  readonly setUid: string;
  /** Empty until it is placed. */
  readonly node: string;
  readonly deleting: boolean;
  /** Its node, once its time to end is over; undefined: it may still end, or nothing is known of the node. */
  readonly overdueOn: NodeSeen | undefined;
  /** Somebody wants it to stay, whatever became of its set. */
  readonly kept: boolean;
};

/**
 * Whether a pod is left over: its set does not exist, or is another one of that name by now. A pod whose set is stored here with the uid that it names is ours, whatever installation it names.
 * `setUids`: uid of each set that is stored, read after the pods; undefined for an unreadable one, whose pods are left alone.
 */
export function podStanding(
  { set, setUid, kept, deleting, overdueOn }: OwnedPod,
  setUids: ReadonlyMap<string, string | undefined>,
  nowMs: number,
  policy: ForcePolicy,
): Standing {
  if (kept) return { kind: "owned", because: "a user wants it to stay" };
  if (setUids.has(set) && (setUids.get(set) ?? setUid) === setUid) return { kind: "owned", because: "its set exists" };
  if (!deleting) return { kind: "left", because: "orphan" };
  const isForced = decideForce(overdueOn, nowMs, policy) !== undefined;
  return isForced
    ? { kind: "left", because: "orphan-on-lost-node" }
    : { kind: "blocked", because: "it is being deleted" };
}
