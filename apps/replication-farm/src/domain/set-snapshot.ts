import type { QueueChoice } from "@muster/ledger-client/choose-queue";
import type { Health } from "@muster/health";
import type { ContestedNodes } from "./find-overlap.ts";
import type { ReplicaSet, SetTrouble } from "./replica-set.ts";
import type { Rollout } from "./rollout.ts";
import type { ObservedNodes } from "./eligible-nodes.ts";

/** A pod of a set as the watcher publishes it. */
export type SetPod = {
  readonly name: string;
  readonly uid: string;
  /** Empty until the pod is scheduled. */
  readonly node: string;
  readonly health: Health;
  /** When the watcher first observed this state; for a ready pod, no earlier than it became ready. */
  readonly sinceMs: number;
  readonly deleting: boolean;
};

/** The ledger's state of one machine of a set. `gone`: the granted reservation does not exist, as the ledger itself confirmed. */
export type MachineState =
  | {
      readonly kind: "waiting";
      readonly reservation: string;
      readonly pool: string;
      readonly queue?: string;
      readonly because: string;
    }
  | { readonly kind: "granted"; readonly reservation: string; readonly pool: string; readonly node: string }
  | { readonly kind: "gone" };

/** The ledger's state of a set. */
export type LedgerState = {
  /** False: the first list is not complete, and a missing number does not prove that a machine is missing. */
  readonly known: boolean;
  readonly byNumber: ReadonlyMap<number, MachineState>;
  /** Why the latest request failed; undefined: it succeeded. */
  readonly trouble: Omit<SetTrouble, "sinceMs"> | undefined;
  /** The queue chosen by the set's label, the existing queues and the namespace; absent: no queue. Granted machines keep the queue of their reservation. */
  readonly queue?: QueueChoice;
};

/** The observed state for one pass over a set. */
export type SetSnapshot = {
  readonly nowMs: number;
  readonly set: ReplicaSet;
  /** The rolling update that the record of the set names. It is read after that record. */
  readonly rollout: Rollout | undefined;
  /** Undefined: the watcher is silent, so no rule decides about any node. */
  readonly nodes: ObservedNodes | undefined;
  /** Nodes where another set has a pod, or a placement, of the same pod id. */
  readonly taken: ReadonlySet<string>;
  readonly contest: ContestedNodes;
  /** Nodes on which the set's pods have been unready for too long. */
  readonly unhealthy: readonly string[];
  readonly ledger: LedgerState;
  /** The pods of this set, by name. */
  readonly pods: ReadonlyMap<string, SetPod>;
  /** The hash of the set's template. */
  readonly templateHash: string;
  /** The stored records look like the loss of all records, so the farm removes no object. */
  readonly failsafe: boolean;
};

export type SetPolicy = {
  /** How long an unready node stays eligible for its present pod, and how long a machine without a replica is kept while its node is not visible. */
  readonly nodeGraceMs: number;
  /** How long the ledger must lack all of a set's machines until their loss is accepted. */
  readonly machinesGoneMs: number;
  /** Time limit of a transfer, from its beginning until its new pod is ready. */
  readonly transferMs: number;
  /** Pauses between failing transfers. */
  readonly transferRetry: { readonly firstMs: number; readonly maxMs: number };
};
