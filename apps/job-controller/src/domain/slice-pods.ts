import type { KindLabels } from "./kind.ts";
import { isDeleting, getLabels, type MemberObject, type PodObject } from "./ownership.ts";

/** The pods of one replica type: kept, surplus or ignored. Each is in exactly one list. */
export type Slices<M> = {
  /** One slot for each index below `replicas`; undefined if the pod of that index is missing. No other index may be created. */
  readonly slots: readonly (M | undefined)[];
  /** Pods to delete, unless they are being deleted already. */
  readonly surplus: readonly { readonly member: M; readonly index: number; readonly because: SurplusReason }[];
  /** Pods whose labels do not state their replica; an event reports them to their author. */
  readonly ignored: readonly { readonly member: M; readonly because: IgnoredReason }[];
};

type SurplusReason = "duplicate" | "out-of-range";
type IgnoredReason = "index-missing" | "index-not-a-number" | "index-negative";

/** Returns the pods with exactly this type label; labels contain types in lower case. Keeps the order. */
export function filterPods<M extends MemberObject>(
  pods: readonly M[],
  type: string,
  { replicaTypeLabelKey }: Pick<KindLabels, "replicaTypeLabelKey">,
): M[] {
  return pods.filter((pod) => getLabels(pod)[replicaTypeLabelKey] === type);
}

/**
 * Assigns the pods of one replica type to slots by their index label. Of several pods with one index the best stays: a succeeded one, because its work would be
 * repeated; then the oldest ready one; then the oldest living one. A failed or deleted pod is the last choice.
 */
export function slicePods<M extends PodObject>(
  pods: readonly M[],
  replicas: number,
  { replicaIndexLabelKey }: Pick<KindLabels, "replicaIndexLabelKey">,
): Slices<M> {
  const slots = Array.from({ length: replicas }, (): M | undefined => undefined);
  const surplus: Slices<M>["surplus"][number][] = [];
  const ignored: Slices<M>["ignored"][number][] = [];
  for (const member of bestFirst(pods)) {
    const index = readIndex(getLabels(member)[replicaIndexLabelKey]);
    if (typeof index === "string") ignored.push({ member, because: index });
    else if (index >= replicas) surplus.push({ member, index, because: "out-of-range" });
    else if (slots[index] === undefined) slots[index] = member;
    else surplus.push({ member, index, because: "duplicate" });
  }
  return { slots, surplus, ignored };
}

function readIndex(label: string | undefined): number | IgnoredReason {
  if (label === undefined) return "index-missing";
  if (!/^-?\d+$/.test(label)) return "index-not-a-number";
  return label.startsWith("-") ? "index-negative" : Number(label);
}

/** Sorts by a total order, so that the same members give the same slices in any order of the cache. */
function bestFirst<M extends PodObject>(pods: readonly M[]): M[] {
  return pods
    .map((member) => ({ member, rank: computeRank(member), createdMs: createdMs(member), id: getMemberId(member) }))
    .sort((a, b) => a.rank - b.rank || compare(a.createdMs, b.createdMs) || compare(a.id, b.id))
    .map(({ member }) => member);
}

function computeRank(pod: PodObject): number {
  const { phase, conditions } = pod.status ?? {};
  if (phase === "Succeeded") return 0;
  if (isDeleting(pod)) return 4;
  if (phase === "Failed") return 3;
  return conditions?.some(({ type, status }) => type === "Ready" && status === "True") === true ? 1 : 2;
}

function createdMs(member: MemberObject): number {
  const created = member.metadata?.creationTimestamp;
  return created === undefined ? Infinity : new Date(created).getTime();
}

function getMemberId(member: MemberObject): string {
  return `${member.metadata?.name ?? ""} ${member.metadata?.uid ?? ""}`;
}

function compare<Value extends number | string>(a: Value, b: Value): number {
  if (a === b) return 0;
  return a < b ? -1 : 1;
}
