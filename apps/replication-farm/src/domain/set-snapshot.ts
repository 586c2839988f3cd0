import type { Health } from "@muster/health";
import type { Contest } from "./find-overlap.ts";
import type { ReplicaSet, Trouble } from "./replica-set.ts";
import type { Roll } from "./roll.ts";
import type { Nodes } from "./eligible-nodes.ts";

/** A pod of a set as the watcher tells it. */
export type SetPod = {
  readonly name: string;
  readonly uid: string;
  /** Empty until it is placed. */
  readonly node: string;
  readonly health: Health;
  /** When the watcher saw what it tells for the first time; of a pod that is ready, no earlier than it became so. */
  readonly sinceMs: number;
  readonly deleting: boolean;
};

/** What the ledger has under one number of a set. `gone`: nothing, though it was granted; the ledger itself was asked. */
export type MachineSight =
  | { readonly is: "waiting"; readonly reservation: string; readonly pool: string; readonly because: string }
  | { readonly is: "granted"; readonly reservation: string; readonly pool: string; readonly node: string }
  | { readonly is: "gone" };

/** What the ledger has for a set. */
export type LedgerSight = {
  /** False: it has not told yet, and that a number is not there says nothing. */
  readonly known: boolean;
  readonly byNumber: ReadonlyMap<number, MachineSight>;
  /** Why the latest request came to nothing; undefined: it did not. */
  readonly trouble: Omit<Trouble, "sinceMs"> | undefined;
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
  readonly ledger: LedgerSight;
  /** Of this set, by name. */
  readonly pods: ReadonlyMap<string, SetPod>;
  /** Of the set's template. */
  readonly templateHash: string;
  /** What is known looks like the loss of everything, so that nothing is taken away. */
  readonly failsafe: boolean;
};

export type SetPolicy = {
  /** How long a node that is not ready stays eligible where the set is, and a machine without a replica is kept whose node is not to be seen. */
  readonly nodeGraceMs: number;
  /** How long the ledger has to say that it has none of a set's machines any more until this is believed. */
  readonly machinesGoneMs: number;
  /** For a transfer, from its beginning until its new pod is ready. */
  readonly transferMs: number;
  /** Between transfers that fail. */
  readonly transferRetry: { readonly firstMs: number; readonly maxMs: number };
};
