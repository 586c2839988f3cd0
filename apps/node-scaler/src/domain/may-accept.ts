import { describeNodeSelection, matchesAll, findUntolerated, type NodeSelection } from "@muster/resources";
import type { PoolPolicy } from "./pool.ts";
import { describeTaint } from "./tolerate-taints.ts";

/** The label of a node's zone. */
export const ZONE = "topology.kubernetes.io/zone";

export type KnownPool = Pick<PoolPolicy, "labels" | "taints" | "zones">;

/**
 * Whether a pod of the selection may accept a new node of the pool. Only the labels and zones of the pool are known; other labels may have any value. The
 * taints of the node are the declared ones, and its name is new.
 */
export function mayAccept(selection: NodeSelection | undefined, pool: KnownPool): boolean {
  const { labels, taints, zones } = pool;
  if (findUntolerated(taints, selection?.tolerations ?? []) !== undefined) return false;
  if (selection === undefined || zones === undefined || !needsZone(selection)) return mayMatch(selection, labels);
  return listAcceptedZones(selection, pool)?.length !== 0;
}

/** Describes why a pod of the selection does not accept new nodes of the pool, if `mayAccept` is false: a declared taint or label. */
export function describeRefusal(
  selection: NodeSelection = { terms: [], tolerations: [] },
  { name, labels, taints }: KnownPool & Pick<PoolPolicy, "name">,
): string {
  const taint = findUntolerated(taints, selection.tolerations);
  if (taint !== undefined) return `pool ${name} declares the taint ${describeTaint(taint)}, which is not tolerated`;
  const refused = selection.terms
    .flatMap(({ matchExpressions = [] }) => matchExpressions)
    .find((requirement) => Object.hasOwn(labels, requirement.key) && !matchesAll([requirement], labels));
  if (refused === undefined) return `new nodes of pool ${name} do not match ${describeNodeSelection(selection)}`;
  const selected = describeNodeSelection({ terms: [{ matchExpressions: [refused] }], tolerations: [] });
  const declared = `${refused.key}=${labels[refused.key] ?? ""}`;
  return `pool ${name} declares the label ${declared}, which does not match ${selected}`;
}

/** Returns the zones in which a new node of the pool may be accepted, in order of preference. Undefined if the selection does not restrict zones. */
export function listAcceptedZones(
  selection: NodeSelection | undefined,
  { labels, zones }: KnownPool,
): readonly string[] | undefined {
  if (selection === undefined || !needsZone(selection)) return undefined;
  const accepted = (zones ?? namedZones(selection)).filter((zone) => mayMatch(selection, { [ZONE]: zone, ...labels }));
  return accepted.length === 0 && zones === undefined ? undefined : accepted;
}

function mayMatch(selection: NodeSelection | undefined, labels: KnownPool["labels"]): boolean {
  if (selection === undefined || selection.terms.length === 0) return true;
  return selection.terms.some(({ matchExpressions = [], matchFields = [] }) => {
    const known = matchExpressions.filter(({ key }) => Object.hasOwn(labels, key));
    const isEmpty = matchExpressions.length + matchFields.length === 0;
    return !isEmpty && matchFields.every(({ operator }) => operator === "NotIn") && matchesAll(known, labels);
  });
}

function needsZone({ terms }: NodeSelection): boolean {
  return terms.some(({ matchExpressions = [] }) => matchExpressions.some(({ key }) => key === ZONE));
}

/** Returns every acceptable zone if each term names its zones. Otherwise returns an empty list, because any zone may be accepted. */
function namedZones({ terms }: NodeSelection): readonly string[] {
  const named = terms.map(({ matchExpressions = [] }) =>
    matchExpressions.find(({ key, operator }) => key === ZONE && operator === "In"),
  );
  if (named.includes(undefined)) return [];
  return [...new Set(named.flatMap((requirement) => requirement?.values ?? []))];
}
