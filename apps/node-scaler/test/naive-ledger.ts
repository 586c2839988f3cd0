import { computeAllocatedFraction, canFit, subtractAmounts, sumUse, type Amounts } from "@muster/resources";

/** A node as the ledger reports it. */
export type LedgerNode = {
  readonly name: string;
  readonly allocatable: Amounts;
  readonly free: Amounts;
  readonly use: "unused" | "in-parts" | "whole";
};

/** Undefined for a whole node. */
export type LedgerNeed = { readonly component: string; readonly shared?: Amounts };

type Grant = { readonly places: ReadonlyMap<string, string>; readonly nodes: readonly LedgerNode[] };

/**
 * Implements the ledger's rule for granting a reservation in few lines. Parts come first, the largest first, each on the most allocated node in parts, or else
 * on an unused one; ties go to the smallest. Nodes with unrequested extended resources come last. Whole nodes follow. Undefined if the reservation waits.
 */
export function grantNaively(nodes: readonly LedgerNode[], needs: readonly LedgerNeed[]): Grant | undefined {
  const left = new Map(nodes.map((node) => [node.name, node]));
  const places = new Map<string, string>();
  const parts = needs.flatMap(({ component, shared }) => (shared === undefined ? [] : [{ component, shared }]));
  for (const { component, shared } of parts.sort(compareParts)) {
    const able = [...left.values()].filter(({ use, free }) => use !== "whole" && canFit(shared, free));
    const [node] = able.sort((one, other) => compareFor(shared, one, other));
    if (node === undefined) return undefined;
    places.set(component, node.name);
    left.set(node.name, { ...node, free: subtractAmounts(node.free, sumUse(shared)), use: "in-parts" });
  }
  for (const { component, shared } of needs) {
    if (shared !== undefined) continue;
    const unused = [...left.values()].filter(({ use }) => use === "unused");
    const [node] = unused.sort((one, other) => compareFor(NOTHING, one, other));
    if (node === undefined) return undefined;
    places.set(component, node.name);
    left.set(node.name, { ...node, free: new Map(), use: "whole" });
  }
  return { places, nodes: [...left.values()] };
}

type Part = { readonly component: string; readonly shared: Amounts };

function compareParts(one: Part, other: Part): number {
  return compareLargestFirst(one.shared, other.shared) || compareText(one.component, other.component);
}

function compareLargestFirst(one: Amounts, other: Amounts): number {
  const textOf = (amounts: Amounts): string =>
    `{${[...amounts]
      .filter(([, amount]) => amount > 0)
      .map(([resource, amount]) => `${resource}=${amount}`)
      .sort()
      .join()}}`;
  return (
    (other.get("cpu") ?? 0) - (one.get("cpu") ?? 0) ||
    (other.get("memory") ?? 0) - (one.get("memory") ?? 0) ||
    compareText(textOf(one), textOf(other))
  );
}

function compareFor(requests: Amounts, one: LedgerNode, other: LedgerNode): number {
  const isSpecial = ({ allocatable }: LedgerNode): number =>
    Number(
      [...allocatable].some(
        ([resource, amount]) => resource.includes("/") && amount > 0 && (requests.get(resource) ?? 0) === 0,
      ),
    );
  const isUnused = ({ use }: LedgerNode): number => Number(use === "unused");
  const fractionOf = ({ free, allocatable }: LedgerNode): number => computeAllocatedFraction(free, allocatable);
  return (
    isSpecial(one) - isSpecial(other) ||
    isUnused(one) - isUnused(other) ||
    fractionOf(other) - fractionOf(one) ||
    compareLargestFirst(other.allocatable, one.allocatable) ||
    compareText(one.name, other.name)
  );
}

const NOTHING: Amounts = new Map();

function compareText(one: string, other: string): number {
  return one < other ? -1 : Number(one > other);
}
