import { isDeleting, labelsOf, type Member, type PodMember } from "./member.ts";

/** The members of one replica type, by what is to become of them. Each is in exactly one of the lists. */
export type Slices<M> = {
  /** One slot for each index below `replicas`: whoever holds it, or undefined, and then a member of that index is missing. No other index is ever to be created. */
  readonly slots: readonly (M | undefined)[];
  /** To be deleted, unless they are on their way out already. */
  readonly surplus: readonly { readonly member: M; readonly index: number; readonly because: SurplusReason }[];
  /** Nobody knows which replica they are: whoever labelled them should be told. */
  readonly ignored: readonly { readonly member: M; readonly because: IgnoredReason }[];
};

export type SurplusReason = "duplicate" | "out-of-range";
export type IgnoredReason = "index-missing" | "index-not-a-number" | "index-negative";

/** The pods whose type label is exactly this; types are in lower case on labels. The order stays. */
export function filterPodsForReplicaType<M extends Member>(
  pods: readonly M[],
  replicaType: string,
  replicaTypeLabelKey: string,
): M[] {
  return filterByType(pods, replicaType, replicaTypeLabelKey);
}

/** As `filterPodsForReplicaType`. */
export function filterServicesForReplicaType<M extends Member>(
  services: readonly M[],
  replicaType: string,
  replicaTypeLabelKey: string,
): M[] {
  return filterByType(services, replicaType, replicaTypeLabelKey);
}

/**
 * Sorts the pods of one replica type into slots by their index label. Of several pods with one index the best stays: one that has succeeded, because its work would be
 * done again; then the oldest that is ready; then the oldest that lives; one that has failed or is being deleted only if there is nothing else.
 */
export function getPodSlices<M extends PodMember>(
  pods: readonly M[],
  replicas: number,
  replicaIndexLabelKey: string,
): Slices<M> {
  return slice(pods, replicas, replicaIndexLabelKey, podRank);
}

/** The same for services, of which the oldest that is not being deleted stays. */
export function getServiceSlices<M extends Member>(
  services: readonly M[],
  replicas: number,
  replicaIndexLabelKey: string,
): Slices<M> {
  return slice(services, replicas, replicaIndexLabelKey, (service) => (isDeleting(service) ? 1 : 0));
}

function filterByType<M extends Member>(members: readonly M[], type: string, key: string): M[] {
  return members.filter((member) => labelsOf(member)[key] === type);
}

function slice<M extends Member>(
  members: readonly M[],
  replicas: number,
  indexKey: string,
  rank: (member: M) => number,
): Slices<M> {
  const slots = Array.from({ length: replicas }, (): M | undefined => undefined);
  const surplus: Slices<M>["surplus"][number][] = [];
  const ignored: Slices<M>["ignored"][number][] = [];
  for (const member of bestFirst(members, rank)) {
    const index = readIndex(labelsOf(member)[indexKey]);
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

/** A total order, so that the same members give the same slices in whatever order a cache lists them. */
function bestFirst<M extends Member>(members: readonly M[], rank: (member: M) => number): M[] {
  return members
    .map((member) => ({ member, rank: rank(member), createdMs: createdMs(member), id: idOf(member) }))
    .sort((a, b) => a.rank - b.rank || compare(a.createdMs, b.createdMs) || compare(a.id, b.id))
    .map(({ member }) => member);
}

function podRank(pod: PodMember): number {
  const { phase, conditions } = pod.status ?? {};
  if (phase === "Succeeded") return 0;
  if (isDeleting(pod)) return 4;
  if (phase === "Failed") return 3;
  return conditions?.some(({ type, status }) => type === "Ready" && status === "True") === true ? 1 : 2;
}

function createdMs(member: Member): number {
  const created = member.metadata?.creationTimestamp;
  return created === undefined ? Infinity : new Date(created).getTime();
}

function idOf(member: Member): string {
  return `${member.metadata?.name ?? ""} ${member.metadata?.uid ?? ""}`;
}

function compare<Value extends number | string>(a: Value, b: Value): number {
  if (a === b) return 0;
  return a < b ? -1 : 1;
}
