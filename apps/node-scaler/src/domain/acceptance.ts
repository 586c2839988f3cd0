import { acceptsNode, buildNodeSelectionKey, withoutMinimum } from "@muster/resources";
import type { Demand } from "./demand.ts";
import type { ComputedNode, FreeMachine, Pool } from "./fit.ts";
import { mayAccept } from "./may-accept.ts";
import type { NewNode } from "./node.ts";
import { mayHoldMinimum } from "./node-sizes.ts";
import { isInDomain } from "./topology.ts";

type AnyNode = ComputedNode | FreeMachine | NewNode;

/** The demands of a round that accept a node. Nodes of one kind are accepted by the same demands. */
export type Acceptance = {
  /** Returns false if the demand does not accept the known labels and taints of the node. */
  accepts(demand: Demand, node: AnyNode): boolean;
  kindOf(node: AnyNode): string;
  /** Returns the classes of demands that do not accept the node. */
  refusedBy(node: AnyNode): readonly string[];
  /** Returns kinds of the nodes that the demand accepts, first the kinds that no demand of the `later` classes accepts. */
  kindsFor(demand: Demand, later: ReadonlySet<string>): readonly ReadonlySet<string>[];
};

/** Returns equal classes for demands that accept the same nodes. */
export function getDemandClass({ selection, topology }: Pick<Demand, "selection" | "topology">): string {
  const key = selection === undefined ? "" : buildNodeSelectionKey(selection);
  return topology?.value === undefined ? key : `${key}\n${topology.key}=${topology.value}`;
}

/** Indexes acceptance as the ledger's views of a pool (`viewOf`) do, with the same rule for each node. */
export function indexAcceptance(demands: Iterable<Demand>, pools: ReadonlyMap<string, Pool>): Acceptance {
  const examples = new Map<string, Selecting>([["", {}]]);
  for (const demand of demands) examples.set(getDemandClass(demand), demand);
  const classes = [...examples.keys()];
  const kinds = new Map<string, ReadonlySet<string>>();
  const kindOfNode = new WeakMap<AnyNode, string>();
  const kindOf = (node: AnyNode): string => {
    const known = kindOfNode.get(node);
    if (known !== undefined) return known;
    const accepting = [...examples].flatMap(([name, example], index) =>
      mayUse(example, node, pools) ? [{ name, index }] : [],
    );
    const kind = accepting.map(({ index }) => index).join();
    kindOfNode.set(node, kind);
    if (!kinds.has(kind)) kinds.set(kind, new Set(accepting.map(({ name }) => name)));
    return kind;
  };
  const accepting = (node: AnyNode): ReadonlySet<string> => kinds.get(kindOf(node)) ?? new Set();
  return {
    accepts: (demand, node) => accepting(node).has(getDemandClass(demand)),
    kindOf,
    refusedBy: (node) => classes.filter((name) => !accepting(node).has(name)),
    kindsFor: (demand, later) => {
      const own = getDemandClass(demand);
      const accepted = [...kinds].filter(([, names]) => names.has(own));
      const isContended = ([, names]: (typeof accepted)[number]): boolean => [...later].some((name) => names.has(name));
      const lists =
        later.size === 0 ? [accepted] : [accepted.filter((kind) => !isContended(kind)), accepted.filter(isContended)];
      return lists.flatMap((list) => (list.length === 0 ? [] : [new Set(list.map(([kind]) => kind))]));
    },
  };
}

type Selecting = Pick<Demand, "selection" | "topology">;

/**
 * Whether the demand may use the node. Of a node that has not joined, only its zone, the labels and taints of its pool, and perhaps its size are known. Every
 * demand may accept a machine without known labels and taints, except in a domain of a topology.
 */
function mayUse({ selection, topology }: Selecting, node: AnyNode, pools: ReadonlyMap<string, Pool>): boolean {
  if (!("spec" in node)) return "joined" in node ? acceptsNode(selection, node.joined) : topology?.value === undefined;
  const { pool, zone, instanceType } = node.spec;
  const known = pools.get(pool);
  if ("joined" in node && node.joined.allocatable !== undefined) return acceptsNode(selection, node.joined);
  if (known !== undefined && !mayHoldMinimum(selection, known.sizes.get(instanceType))) return false;
  if ("joined" in node) return acceptsNode(withoutMinimum(selection), node.joined);
  if (known === undefined) return true;
  const { policy } = known;
  if (!isInDomain(topology, { ...policy, zones: zone === undefined ? [] : [zone] })) return false;
  return mayAccept(selection, { ...policy, zones: zone === undefined ? policy.zones : [zone] });
}
