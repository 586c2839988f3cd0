import type { Health } from "@muster/health";
import type { Contest } from "./find-overlap.ts";
import type { ReplicaSet } from "./replica-set.ts";
import type { Roll } from "./roll.ts";

/** A pod of a set as the watcher tells it. */
export type SetPod = {
  readonly name: string;
  readonly uid: string;
  /** Empty until it is placed. */
  readonly node: string;
  readonly health: Health;
  readonly deleting: boolean;
};

export type Nodes = {
  /** That may have a pod of the set. */
  readonly eligible: ReadonlySet<string>;
  /** That take pods at all: there, ready and not cordoned. */
  readonly usable: ReadonlySet<string>;
};

/** What one pass over a set knows. */
export type SetSnapshot = {
  readonly nowMs: number;
  readonly set: ReplicaSet;
  /** The rolling update that the set is in, read after the set. */
  readonly roll: Roll | undefined;
  /** Undefined: the watcher has been silent, and nothing is concluded about any node. */
  readonly nodes: Nodes | undefined;
  /** Nodes that have a pod of the same pod id, or a place for one, by another set. */
  readonly taken: ReadonlySet<string>;
  readonly contest: Contest;
  /** Nodes on which the set's pods have not been ready for long. */
  readonly unhealthy: readonly string[];
  /** With a pool: node -> reservation of the machines that the set holds. */
  readonly reservations: ReadonlyMap<string, string>;
  /** Of this set, by name. */
  readonly pods: ReadonlyMap<string, SetPod>;
  /** Of the set's template. */
  readonly templateHash: string;
  /** What is known looks like the loss of everything, so that nothing is taken away. */
  readonly failsafe: boolean;
};

export type SetPolicy = {
  /** For a transfer, from its beginning until its new pod is ready. */
  readonly transferMs: number;
  /** Between transfers that fail. */
  readonly transferRetry: { readonly firstMs: number; readonly mostMs: number };
};
