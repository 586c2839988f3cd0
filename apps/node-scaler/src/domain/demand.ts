import type { Amounts, NodeSelection } from "@muster/resources";

/** Always: only spot. Preferred: on-demand after spot has been short for the spot request pause. Never: only on-demand. */
export type SpotPolicy = "Always" | "Never" | "Preferred";

/** A request for a whole node, or a part of one: a need of a waiting reservation, or pending pods that fit on one node. */
export type Demand = {
  /** Unique, and equal in every round: `session/benchmark/driver`, `pods/default/web-0`. */
  readonly name: string;
  /** All demands of one group get their nodes together, or none. Undefined if the demand is its own group. */
  readonly group: string | undefined;
  readonly pool: string;
  /**
   * The choice of pools to which the demand belongs. A group that accepts several choices repeats its demands for each, under equal names. The lowest choice is
   * preferred, and the group gets nodes for one choice. Absent without a choice.
   */
  readonly option?: number;
  readonly createdAtMs: number;
  /** At least one type, in order of preference: the types of the pool that are large enough. */
  readonly instanceTypes: readonly string[];
  readonly spot: SpotPolicy;
  /** Undefined for any zone. */
  readonly zone: string | undefined;
  readonly gpus: number;
  readonly volumeGib: number | undefined;
  readonly privateIpOnly: boolean;
  /** True for pods that did not fit beside running pods. Work that waits in the ledger may share a node, because the ledger grants it. */
  readonly needsEmptyNode?: boolean;
  /** The requests on a node that the demand shares with others, in addition to room for one pod. Absent: the demand needs a whole node. */
  readonly shared?: Amounts;
  /** The nodes that the demand accepts. Absent for each node without taints. */
  readonly selection?: NodeSelection;
  /** The label whose value must be equal on all nodes of the group. Absent without a restriction. */
  readonly topology?: Topology;
};

/** With `value`, the demand is planned for nodes with this value, and its `selection` accepts no others. */
export type Topology = { readonly key: string; readonly value?: string };

/** A kind of instance with a shortage at its provider. A repeated mark has no effect until the first one has expired. */
export type Unavailability = {
  readonly provider: string;
  /** The only affected pool; absent for all pools of the provider. */
  readonly pool?: string;
  readonly instanceType: string;
  readonly spot: boolean;
  /** Undefined for all zones. */
  readonly zone: string | undefined;
  readonly subnet: string | undefined;
  readonly message: string;
  /** True if the provider does not have the zone. */
  readonly isUnknownZone?: true;
  readonly sinceMs: number;
  readonly untilMs: number;
};
