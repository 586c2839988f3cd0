import { allocatedFraction, fitsInto, subtract, useOf, type Amounts } from "@muster/resources";

/** A node in the eyes of the ledger. */
export type LedgerNode = {
  readonly name: string;
  readonly allocatable: Amounts;
  readonly free: Amounts;
  readonly use: "unused" | "in-parts" | "whole";
};

/** Undefined: a whole node. */
export type LedgerNeed = { readonly component: string; readonly shared?: Amounts };

/** The node of each need of one reservation. */
type Grant = { readonly places: ReadonlyMap<string, string>; readonly nodes: readonly LedgerNode[] };

/**
 * The rule by which the ledger grants a reservation, in few lines: parts first, the largest first, each on the most allocated node in parts, else on the
 * smallest unused one, nodes with extended resources that are not requested last; then whole nodes by name. Undefined: it waits.
 */
export function grantNaively(nodes: readonly LedgerNode[], needs: readonly LedgerNeed[]): Grant | undefined {
  const left = new Map(nodes.map((node) => [node.name, node]));
  const places = new Map<string, string>();
  const parts = needs.flatMap(({ component, shared }) => (shared === undefined ? [] : [{ component, shared }]));
  for (const { component, shared } of parts.sort(compareParts)) {
    const able = [...left.values()].filter(({ use, free }) => use !== "whole" && fitsInto(shared, free));
    const [node] = able.sort((one, other) => compareFor(shared, one, other));
    if (node === undefined) return undefined;
    places.set(component, node.name);
    left.set(node.name, { ...node, free: subtract(node.free, useOf(shared)), use: "in-parts" });
  }
  for (const { component, shared } of needs) {
    if (shared !== undefined) continue;
    const unused = [...left.values()].filter(({ use }) => use === "unused");
    const [node] = unused.sort((one, other) => compareText(one.name, other.name));
    if (node === undefined) return undefined;
    places.set(component, node.name);
    left.set(node.name, { ...node, free: new Map(), use: "whole" });
  }
  return { places, nodes: [...left.values()] };
}

type Part = { readonly component: string; readonly shared: Amounts };

function compareParts(one: Part, other: Part): number {
  const keyOf = ({ shared }: Part): string => JSON.stringify([...shared].filter(([, amount]) => amount > 0).sort());
  return (
    (other.shared.get("cpu") ?? 0) - (one.shared.get("cpu") ?? 0) ||
    (other.shared.get("memory") ?? 0) - (one.shared.get("memory") ?? 0) ||
    compareText(keyOf(one), keyOf(other)) ||
    compareText(one.component, other.component)
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
  const rest =
    one.use === "unused"
      ? (one.allocatable.get("cpu") ?? 0) - (other.allocatable.get("cpu") ?? 0) ||
        (one.allocatable.get("memory") ?? 0) - (other.allocatable.get("memory") ?? 0)
      : allocatedFraction(other.free, other.allocatable) - allocatedFraction(one.free, one.allocatable);
  return (
    isSpecial(one) - isSpecial(other) || isUnused(one) - isUnused(other) || rest || compareText(one.name, other.name)
  );
}

function compareText(one: string, other: string): number {
  return one < other ? -1 : Number(one > other);
}
