import type { Owner } from "@muster/names";
/** Where a node is in its life. A record of phase Terminated is purged a little later. */
export type Phase = "Creating" | "Created" | "Available" | "Claimed" | "Cleaning" | "Terminating" | "Terminated";

/**
 * Why a node ends, when, and the function that decides it.
 * - IDLE: no demand for the idle time of its pool, `planSurplus` (`plan-surplus.ts`); or a full pool needs its place, `planRoom` (`plan-room.ts`)
 * - POOL_REMOVED: its pool is not in the file of pools any more, `stopRemoved` (`compute.ts`)
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
 * The node is to end. Set once and never withdrawn, except IDLE, RETURNED and POOL_REMOVED on a node that the ledger granted before the cordon was visible to
 * all; any other reason replaces one of these three.
 */
export type Termination = {
  readonly code: TerminationCode;
  /** For people. */
  readonly message: string;
  readonly atMs: number;
  /** Pods that are still there then are ended with the instance. */
  readonly drainUntilMs: number;
  /** Id of the request that asked for it; absent: no request did. */
  readonly requestId?: string;
};

const WITHDRAWABLE: ReadonlySet<TerminationCode> = new Set(["IDLE", "RETURNED", "POOL_REMOVED"]);

/** Whether a reason to end a node lapses once the node is held. The other reasons replace it, and stay. */
export function isWithdrawable(code: TerminationCode): boolean {
  return WITHDRAWABLE.has(code);
}

/** The order for the node; the zone is the actual one, once that is known. */
export type NodeSpec = {
  readonly pool: string;
  /** Name of the provider that has its instance, whatever is configured for its pool later. */
  readonly provider: string;
  readonly instanceType: string;
  /** As the provider names it; empty where the provider has its own. */
  readonly bootImage: string;
  readonly spot: boolean;
  readonly zone: string | undefined;
  readonly gpus: number;
  /** Undefined: the provider's default. */
  readonly volumeGib: number | undefined;
  readonly privateIpOnly: boolean;
  readonly terminate: Termination | undefined;
};

/** A node to make, and the demand that it is for. Undefined: it stands by. */
export type NewNode = { readonly boundTo: string | undefined; readonly spec: NodeSpec };

/** The grant that the node serves. */
export type Claim = {
  readonly owner: Owner;
  readonly reservationId: string;
  /** A pod of the owner has been on it. */
  readonly reached: boolean;
};

/**
 * Why the latest step on a node did not work:
 * - BOOT_REFUSED: the provider starts no instance, `decideBootOutcome` (`decide-boot-outcome.ts`)
 * - CORDONED: by another client, `planHealth` (`plan-heartbeat.ts`)
 * - NOT_OFFERED: it is ready, and the ledger does not offer it, `planHealth` (`plan-heartbeat.ts`)
 * - DRAIN_STALLS: pods on it are not evicted, `noteStall` (`rounds/reaper-round.ts`)
 * - STOP_FAILED: the provider does not stop the instance, `stop` (`rounds/reaper-round.ts`)
 * - PROVIDER_MISSING: no provider can stop the instance, `noteMissingProviders` (`rounds/reaper-round.ts`)
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
  /** For people. */
  readonly message: string;
};

export type NodeStatus = {
  readonly phase: Phase;
  readonly phaseSinceMs: number;
  readonly createdAtMs: number;
  readonly instanceId: string | undefined;
  /** Name of the Kubernetes node; undefined until it has joined. */
  readonly kubernetesNode: string | undefined;
  readonly addresses: readonly string[];
  /** Name of the demand that it was made or is kept for. */
  readonly boundTo: string | undefined;
  /** With Claimed and Cleaning, and until the next claim where that was granted during the cleaning. */
  readonly claim: Claim | undefined;
  /** It has been held, or something has run on it, since it was made. */
  readonly served: boolean;
  /** Not ready since; undefined: it is ready, or never was. */
  readonly unhealthySinceMs: number | undefined;
  /** Since then nothing is bound to it; undefined: something is. */
  readonly idleSinceMs: number | undefined;
  /** Term of the leader that wrote the record first. */
  readonly term: number;
  /** Since then what runs on it is evicted. */
  readonly drainingSinceMs: number | undefined;
  /** Why the latest step on it did not work. */
  readonly trouble: NodeTrouble | undefined;
};

/** The record of one node. Persisted whole, with compare-and-set. */
export type ScaledNode = { readonly name: string; readonly spec: NodeSpec; readonly status: NodeStatus };

const NEXT: Readonly<Record<Phase, readonly Phase[]>> = {
  Creating: ["Creating", "Created", "Available", "Terminating", "Terminated"],
  Created: ["Created", "Available", "Cleaning", "Terminating", "Terminated"],
  Available: ["Available", "Claimed", "Terminating", "Terminated"],
  // Back to Available only when its pod never reached it: `mayFollow`.
  Claimed: ["Claimed", "Cleaning", "Terminating", "Terminated"],
  Cleaning: ["Cleaning", "Available", "Terminating", "Terminated"],
  Terminating: ["Terminating", "Terminated"],
  Terminated: ["Terminated"],
};

/** Whether a node may go from the one status to the other; every write of a record is checked with it. */
export function mayFollow(before: NodeStatus, after: Phase): boolean {
  if (before.phase === "Claimed" && after === "Available") return before.claim?.reached === false;
  return NEXT[before.phase].includes(after);
}
