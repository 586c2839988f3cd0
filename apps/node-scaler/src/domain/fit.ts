import type { SelectableNode } from "@muster/resources";
import type { Demand } from "./demand.ts";
import type { NodeRoom } from "./index-rooms.ts";
import type { NodePhase, ScaledNode } from "./node.ts";
import type { NodeSize } from "./node-sizes.ts";
import type { PoolPolicy } from "./pool.ts";

/** A machine of a pool that the scaler did not create, and that is free by the ledger. Undefined fields are unknown. */
export type FreeMachine = {
  readonly name: string;
  readonly pool: string;
  readonly instanceType: string | undefined;
  readonly zone: string | undefined;
  readonly spot: boolean | undefined;
  readonly gpus: number | undefined;
  /** Absent if it equals the name. */
  readonly kubernetesNode?: string;
} & Shared;

type Shared = {
  /** Describes foreign pods on a machine that the ledger could grant as a whole, or grants in parts because of them; absent if none. */
  readonly sharedWith?: string;
  /** The room that the ledger grants in parts; absent: unknown. */
  readonly room?: NodeRoom;
  /** The facts that decide which demands accept the machine, known once it has been ready. Absent: only the configuration of its pool is known. */
  readonly joined?: JoinedNode;
};

/** The Kubernetes node of a machine. */
export type JoinedNode = SelectableNode;

/** A node in the snapshot of one round. A node with foreign pods is never surplus. */
export type ComputedNode = ScaledNode & Shared;

/** A pool in the snapshot of one round. */
export type Pool = {
  readonly policy: PoolPolicy;
  /** True if a volume must have the requested size from its creation on. */
  readonly fixedSizeVolumes: boolean;
  /** Undefined if the image is unknown, so that no node can be booted. */
  readonly bootImage: string | undefined;
  /** The number of the pool's records in any phase except Terminated. */
  readonly records: number;
  /** The number of these records that end or must end. */
  readonly ending: number;
  /** The number of these records that boot for a demand. */
  readonly booting: number;
  /** The subset of shared nodes. */
  readonly shared: readonly ComputedNode[];
  /** The nodes among these that whole demands cannot use because of foreign pods. */
  readonly foreign: readonly ComputedNode[];
  /** Node sizes by instance type. */
  readonly sizes: ReadonlyMap<string, NodeSize>;
};

const PHASE_RANK: Readonly<Partial<Record<NodePhase, number>>> = { Available: 0, Created: 1, Creating: 2 };

/** Whether a node can be kept for a demand: it is ready or booting, has no holder, and must not end. */
export function isUsable({ spec, status }: ScaledNode): boolean {
  return spec.terminate === undefined && PHASE_RANK[status.phase] !== undefined;
}

/** Returns a rank that is lower for a node that is ready sooner. */
export function getPhaseRank({ status }: ScaledNode): number {
  return PHASE_RANK[status.phase] ?? Number.MAX_SAFE_INTEGER;
}

/** Returns since when a node is booting: since its creation, or since it last became unusable. */
export function getBootingSinceMs({ status }: ScaledNode): number {
  return status.unhealthySinceMs ?? status.createdAtMs;
}

/** Sorts spot nodes first, because they cost less, and then by readiness. The order is total, because names are unique. */
export function compareNodes(one: ScaledNode, other: ScaledNode): number {
  return (
    Number(other.spec.spot) - Number(one.spec.spot) ||
    getPhaseRank(one) - getPhaseRank(other) ||
    compareNames(one.name, other.name)
  );
}

/**
 * Sorts demands for a certain zone first, because other demands could use nodes of their zone. Then sorts by age. The order is total, because names are unique.
 */
export function compareDemands(one: Demand, other: Demand): number {
  return (
    Number(one.zone === undefined) - Number(other.zone === undefined) ||
    one.createdAtMs - other.createdAtMs ||
    compareNames(one.name, other.name)
  );
}

/** Compares by code units, so that the order does not depend on the locale of the machine. */
export function compareNames(one: string, other: string): number {
  if (one === other) return 0;
  return one < other ? -1 : 1;
}

/**
 * Returns the kinds of free nodes for a demand, in the order in which they are taken: true is spot. A free node costs less than a new one, whatever its kind.
 */
export function listSpotChoices({ spot }: Pick<Demand, "spot">): readonly boolean[] {
  return spot === "Preferred" ? [true, false] : [spot === "Always"];
}

/** Returns the volume of a node for the demand. Undefined for the provider's default. */
export function findVolumeGib(demand: Demand, { policy }: Pool): number | undefined {
  return demand.volumeGib ?? policy.volumeGib;
}

/**
 * Whether a node may stay bound to a demand. With the policy Preferred both kinds may stay, even a node that was booted on demand during a shortage of spot.
 */
export function canNodeServe(
  { spec, sharedWith }: Pick<ComputedNode, "spec" | "sharedWith">,
  demand: Demand,
  pool: Pool,
): boolean {
  return (
    (sharedWith === undefined || demand.needsEmptyNode !== true) &&
    spec.pool === demand.pool &&
    demand.instanceTypes.includes(spec.instanceType) &&
    listSpotChoices(demand).includes(spec.spot) &&
    (demand.zone === undefined || spec.zone === demand.zone) &&
    spec.gpus === demand.gpus &&
    spec.privateIpOnly === demand.privateIpOnly &&
    (!pool.fixedSizeVolumes || spec.volumeGib === findVolumeGib(demand, pool))
  );
}

/**
 * Whether a machine that the scaler did not create suits a demand. Unknown facts count as suitable, because the ledger grants the machine in any case. The zone
 * is an exception, because a demand with a zone is for pods that could not run elsewhere.
 */
export function canMachineServe(machine: FreeMachine, demand: Demand): boolean {
  return (
    machine.pool === demand.pool &&
    (machine.sharedWith === undefined || demand.needsEmptyNode !== true) &&
    (machine.instanceType === undefined || demand.instanceTypes.includes(machine.instanceType)) &&
    (machine.spot === undefined || listSpotChoices(demand).includes(machine.spot)) &&
    (demand.zone === undefined || machine.zone === demand.zone) &&
    (machine.gpus === undefined || machine.gpus === demand.gpus)
  );
}
