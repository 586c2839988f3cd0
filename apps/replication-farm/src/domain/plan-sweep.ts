import { decideForce, type ForcePolicy, type NodeSeen } from "@muster/health";
import type { OwnedObject, OwnerStanding } from "@muster/ledger-client/plan-sweep";

/** A pod with the labels of a set. */
export type OwnedPod = OwnedObject & {
  readonly pod: string;
  readonly set: string;
  readonly setUid: string;
  /** Empty until the pod is scheduled. */
  readonly node: string;
  readonly deleting: boolean;
  /** The state of its node after the pod's grace period; undefined: the pod may still end, or the node is unknown. */
  readonly overdueOn: NodeSeen | undefined;
  /** A user has marked the pod to stay, whatever happens to its set. */
  readonly kept: boolean;
};

/**
 * Returns whether a pod is left over: its set does not exist, or a later set has its name. A pod whose labels have the uid of a stored set is ours, whatever
 * installation it names. `setUids`: the uid of each stored set, read after the pods; undefined for an unreadable set, whose pods are kept.
 */
export function decidePodStanding(
  { set, setUid, kept, deleting, overdueOn }: OwnedPod,
  setUids: ReadonlyMap<string, string | undefined>,
  nowMs: number,
  policy: ForcePolicy,
): OwnerStanding {
  if (kept) return { kind: "owned", because: "a user has marked it to stay" };
  if (setUids.has(set) && (setUids.get(set) ?? setUid) === setUid) return { kind: "owned", because: "its set exists" };
  if (!deleting) return { kind: "left", because: "orphan" };
  const isForced = decideForce(overdueOn, nowMs, policy) !== undefined;
  return isForced
    ? { kind: "left", because: "orphan-on-lost-node" }
    : { kind: "blocked", because: "it is being deleted" };
}
