import type { Amounts, NodeSelection } from "@muster/resources";

/** Always: spot or nothing. Preferred: on-demand once spot has been short for the spot request pause. Never: on-demand. */
export type SpotPolicy = "Always" | "Never" | "Preferred";

/** Something that needs one node to itself, or a part of one: a need of a waiting reservation, or pending pods that fit on one node. */
export type Demand = {
  /** Unique; the same in every round: `session/benchmark/driver`, `pods/default/web-0`. */
  readonly name: string;
  /** All of one group get their nodes together, or none. Undefined: it is a group of its own. */
  readonly group: string | undefined;
  readonly pool: string;
  /**
   * Its group accepts several choices of pools, and has its demands once for each of them, with the same names; the lowest is preferred. Nodes are for one of
   * them. Absent: there is no choice.
   */
  readonly option?: number;
  readonly createdAtMs: number;
  /** In the order of preference; at least one. Those of the pool, less those that are too small for it. */
  readonly instanceTypes: readonly string[];
  readonly spot: SpotPolicy;
  /** Undefined: any. */
  readonly zone: string | undefined;
  readonly gpus: number;
  readonly volumeGib: number | undefined;
  readonly privateIpOnly: boolean;
  /** It is for pods that found no room beside those that run already. What waits in the ledger may share a node, because the ledger grants it. */
  readonly needsEmptyNode?: boolean;
  /** The requests on a node that it shares with others, in addition to room for one pod. Absent: it needs a whole node. */
  readonly shared?: Amounts;
  /** The nodes that it accepts. Absent: each node without taints. */
  readonly selection?: NodeSelection;
  /** All nodes of its group have the same value of this label. Absent: they may be anywhere. */
  readonly topology?: Topology;
};

/** With `value`: it is planned for nodes with this value, and its `selection` accepts no others. */
export type Topology = { readonly key: string; readonly value?: string };

/** A kind of instance that the provider was short of. Marking again changes nothing until it has lapsed. */
export type Unavailability = {
  readonly provider: string;
  /** The one pool that it is about; absent: all of the provider. */
  readonly pool?: string;
  readonly instanceType: string;
  readonly spot: boolean;
  /** Undefined: everywhere. */
  readonly zone: string | undefined;
  readonly subnet: string | undefined;
  readonly message: string;
  /** The provider has no such zone. */
  readonly isUnknownZone?: true;
  readonly sinceMs: number;
  readonly untilMs: number;
};
