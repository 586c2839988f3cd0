import type { Owner } from "@muster/names";
/** The phase in the life of a node. A Terminated record is purged after a while. */
export type NodePhase = "Creating" | "Created" | "Available" | "Claimed" | "Cleaning" | "Terminating" | "Terminated";

/**
 * Why a node ends, when, and the function that decides it.
 * - IDLE: no demand for the idle time of its pool, `planSurplus` (`plan-surplus.ts`); or a full pool needs its place, `planRoom` (`plan-room.ts`)
 * - POOL_REMOVED: its pool is no longer in the file of pools, `stopRemoved` (`compute.ts`)
 * - UNHEALTHY: its Kubernetes node was not ready, gone or not offered by the ledger for healthyTimeout, `planHealth` (`plan-heartbeat.ts`)
 * - SPOT_NOTICE: the provider reclaims the instance, `planLoss` (`plan-heartbeat.ts`)
 * - BOOT_TIMEOUT: the instance exists, and no ready node within bootTimeout, `planCreated` (`plan-heartbeat.ts`)
 * - BOOT_FAILED: the provider refused, or reports an instance that cannot become a node, `planLoss` and `planCreating` (`plan-heartbeat.ts`)
 * - RESTARTED: the leader that ordered it was replaced before the answer, `planCreating` (`plan-heartbeat.ts`)
 * - VANISHED: two lists of the provider lack the instance, and its node is not ready, `findVanished` (`plan-scan.ts`)
 * - RETURNED: its owner released it, and the pool has `reuse: false`, `planCleaning` (`plan-node-claims.ts`)
 * - REQUESTED: an operator ended it, `terminateNode` (`adapters/handlers.ts`); also a word that this version does not know
 */
export type TerminationCode =
  | "IDLE"
  | "UNHEALTHY"
  | "BOOT_FAILED"
  | "BOOT_TIMEOUT"
  | "SPOT_NOTICE"
  | "VANISHED"
  | "RESTARTED"
  | "RETURNED"
  | "POOL_REMOVED"
  | "REQUESTED";

/**
 * The order to end the node. Set once and never withdrawn, except IDLE, RETURNED and POOL_REMOVED on a node that the ledger granted before the cordon was
 * visible to all; any other reason replaces one of these three.
 */
export type Termination = {
  readonly code: TerminationCode;
  /** The reason for people. */
  readonly message: string;
  readonly atMs: number;
  /** Pods that still run at this time end with the instance. */
  readonly drainUntilMs: number;
  /** The id of the request that ordered the end; absent without a request. */
  readonly requestId?: string;
};

const WITHDRAWABLE: ReadonlySet<TerminationCode> = new Set(["IDLE", "RETURNED", "POOL_REMOVED"]);

/** Whether a reason to end a node expires once the node is held. The other reasons replace it, and stay. */
export function isWithdrawable(code: TerminationCode): boolean {
  return WITHDRAWABLE.has(code);
}

/** The order for the node; its zone becomes the actual one once the actual zone is known. */
export type NodeSpec = {
  readonly pool: string;
  /** The name of the provider of the instance, even if the configuration of the pool changes later. */
  readonly provider: string;
  readonly instanceType: string;
  /** The image as the provider names it; empty if the provider has its own. */
  readonly bootImage: string;
  readonly spot: boolean;
  readonly zone: string | undefined;
  readonly gpus: number;
  /** Undefined for the provider's default. */
  readonly volumeGib: number | undefined;
  readonly privateIpOnly: boolean;
  readonly terminate: Termination | undefined;
  /** Price of an hour in the file of pools when the node was created, in millionths of its currency; absent: the file had no price. */
  readonly pricePerHourMicros?: number | undefined;
};

/** A node to create, and its demand. `boundTo` is undefined if the node stands by. */
export type NewNode = { readonly boundTo: string | undefined; readonly spec: NodeSpec };

/** The grant that the node serves. */
export type NodeClaim = {
  readonly owner: Owner;
  readonly reservationId: string;
  /** True if a pod of the owner has been on the node. */
  readonly reached: boolean;
};

/**
 * Why the latest step on a node did not work:
 * - BOOT_REFUSED: the provider starts no instance, `decideBootOutcome` (`decide-boot-outcome.ts`)
 * - CORDONED: by another client, `planHealth` (`plan-heartbeat.ts`)
 * - NOT_OFFERED: it is ready, and the ledger does not offer it, `planHealth` (`plan-heartbeat.ts`)
 * - DRAIN_STALLS: pods on it are not evicted, `recordStall` (`rounds/reaper-round.ts`)
 * - STOP_FAILED: the provider does not stop the instance, `stop` (`rounds/reaper-round.ts`)
 * - PROVIDER_MISSING: no provider can stop the instance, `recordMissingProviders` (`rounds/reaper-round.ts`)
 * - UNKNOWN: the record is of an earlier or a later version (`adapters/messages.ts`)
 */
export const TROUBLE_CODES = [
  "BOOT_REFUSED",
  "CORDONED",
  "NOT_OFFERED",
  "DRAIN_STALLS",
  "STOP_FAILED",
  "PROVIDER_MISSING",
  "UNKNOWN",
] as const;

export type NodeTrouble = {
  readonly code: (typeof TROUBLE_CODES)[number];
  /** The trouble for people. */
  readonly message: string;
};

export type NodeStatus = {
  readonly phase: NodePhase;
  readonly phaseSinceMs: number;
  readonly createdAtMs: number;
  readonly instanceId: string | undefined;
  /** The name of the Kubernetes node; undefined until the node has joined. */
  readonly kubernetesNode: string | undefined;
  readonly addresses: readonly string[];
  /** The name of the demand for which the node was created or is kept. */
  readonly boundTo: string | undefined;
  /** Set with Claimed and Cleaning. If a claim was granted during the cleaning, it stays set until the next claim. */
  readonly claim: NodeClaim | undefined;
  /** True if the node has been held or has run pods since its creation. */
  readonly served: boolean;
  /** The time since which the node is not ready; undefined if it is ready, or never was. */
  readonly unhealthySinceMs: number | undefined;
  /** The time since which the node has no binding; undefined while it has one. */
  readonly idleSinceMs: number | undefined;
  /** The term of the leader that created the record. */
  readonly term: number;
  /** The time since which the pods of the node are evicted. */
  readonly drainingSinceMs: number | undefined;
  /** Why the latest step on the node failed. */
  readonly trouble: NodeTrouble | undefined;
};

/** The record of one node. Stored whole, with compare-and-set. */
export type ScaledNode = { readonly name: string; readonly spec: NodeSpec; readonly status: NodeStatus };

const NEXT: Readonly<Record<NodePhase, readonly NodePhase[]>> = {
  Creating: ["Creating", "Created", "Available", "Terminating", "Terminated"],
  Created: ["Created", "Available", "Cleaning", "Terminating", "Terminated"],
  Available: ["Available", "Claimed", "Terminating", "Terminated"],
  // Returns to Available only if no pod of the holder reached the node: `mayFollow`.
  Claimed: ["Claimed", "Cleaning", "Terminating", "Terminated"],
  Cleaning: ["Cleaning", "Available", "Terminating", "Terminated"],
  Terminating: ["Terminating", "Terminated"],
  Terminated: ["Terminated"],
};

/** Whether a node may change from one status to the other phase; every write of a record checks this. */
export function mayFollow(before: NodeStatus, after: NodePhase): boolean {
  if (before.phase === "Claimed" && after === "Available") return before.claim?.reached === false;
  return NEXT[before.phase].includes(after);
}
