import type { SelectableNode } from "@muster/resources";
import type { Demand } from "./demand.ts";
import type { Room } from "./index-rooms.ts";
import type { Phase, ScaledNode } from "./node.ts";
import type { NodeSize } from "./node-sizes.ts";
import type { PoolPolicy } from "./pool.ts";

/** A machine of a pool that the scaler did not make, and that the ledger says is free. Undefined: not known. */
export type FreeMachine = {
  readonly name: string;
  readonly pool: string;
  readonly instanceType: string | undefined;
  readonly zone: string | undefined;
  readonly spot: boolean | undefined;
  readonly gpus: number | undefined;
  /** Absent: the name. */
  readonly kubernetesNode?: string;
} & Shared;

type Shared = {
  /** Text about foreign pods on a machine that the ledger could grant as a whole, or grants in parts because of them; absent: none. */
  readonly sharedWith?: string;
  /** The room that the ledger grants in parts; absent: unknown. */
  readonly room?: Room;
  /** The facts that decide which demands accept it, known once it has been ready. Absent: only the configuration of its pool is known. */
  readonly joined?: JoinedNode;
};

/** Under its name in Kubernetes. */
export type JoinedNode = SelectableNode;

/** A node in the snapshot of one round. A node with foreign pods is never surplus. */
export type ComputedNode = ScaledNode & Shared;

/** A pool in the snapshot of one round. */
export type Pool = {
  readonly policy: PoolPolicy;
  /** A volume must have the requested size from its creation on. */
  readonly fixedSizeVolumes: boolean;
  /** Undefined: not known, so that nothing can be booted. */
  readonly bootImage: string | undefined;
  /** Records of its nodes in any phase except Terminated. */
  readonly records: number;
  /** How many of these end or are to end. */
  readonly ending: number;
  /** How many of these are on their way to a demand. */
  readonly booting: number;
  /** Those of these that are shared. */
  readonly shared: readonly ComputedNode[];
  /** Those of these that foreign pods keep from whole demands. */
  readonly foreign: readonly ComputedNode[];
  /** By instance type. */
  readonly sizes: ReadonlyMap<string, NodeSize>;
};

const PHASE_RANK: Readonly<Partial<Record<Phase, number>>> = { Available: 0, Created: 1, Creating: 2 };

/** Whether a node can be kept for a demand: it is ready or on its way, has no holder, and is not to end. */
export function isUsable({ spec, status }: ScaledNode): boolean {
  return spec.terminate === undefined && PHASE_RANK[status.phase] !== undefined;
}

/** Sooner ready first. */
export function phaseRank({ status }: ScaledNode): number {
  return PHASE_RANK[status.phase] ?? Number.MAX_SAFE_INTEGER;
}

/** Since when a node is on its way: since its creation, or since it last became unusable. */
export function bootingSinceMs({ status }: ScaledNode): number {
  return status.unhealthySinceMs ?? status.createdAtMs;
}

/** Spot first, since it costs less; then those that are ready sooner. Total: names are unique. */
export function compareNodes(one: ScaledNode, other: ScaledNode): number {
  return (
    Number(other.spec.spot) - Number(one.spec.spot) ||
    phaseRank(one) - phaseRank(other) ||
    compareNames(one.name, other.name)
  );
}

/** Demands for a certain zone first: the others can take a node of any zone, and would take theirs. Then the oldest. Total: names are unique. */
export function compareDemands(one: Demand, other: Demand): number {
  return (
    Number(one.zone === undefined) - Number(other.zone === undefined) ||
    one.createdAtMs - other.createdAtMs ||
    compareNames(one.name, other.name)
  );
}

/** By code units: the same on every machine. */
export function compareNames(one: string, other: string): number {
  if (one === other) return 0;
  return one < other ? -1 : 1;
}

/**
 * The kinds of free nodes that a demand may be given, in the order in which they are taken: true is spot. A free node costs less than another one, whatever
 * its kind.
 */
export function spotsFor({ spot }: Pick<Demand, "spot">): readonly boolean[] {
  return spot === "Preferred" ? [true, false] : [spot === "Always"];
}

/** The volume that a node for the demand gets. Undefined: the provider's default. */
export function volumeFor(demand: Demand, { policy }: Pool): number | undefined {
  return demand.volumeGib ?? policy.volumeGib;
}

/**
 * Whether a node may stay bound to a demand. With the policy Preferred both kinds may: a node that was booted on demand while spot was short is not given up
 * for it.
 */
export function suits(
  { spec, sharedWith }: Pick<ComputedNode, "spec" | "sharedWith">,
  demand: Demand,
  pool: Pool,
): boolean {
  return (
    (sharedWith === undefined || demand.needsEmptyNode !== true) &&
    spec.pool === demand.pool &&
    demand.instanceTypes.includes(spec.instanceType) &&
    spotsFor(demand).includes(spec.spot) &&
    (demand.zone === undefined || spec.zone === demand.zone) &&
    spec.gpus === demand.gpus &&
    spec.privateIpOnly === demand.privateIpOnly &&
    (!pool.fixedSizeVolumes || spec.volumeGib === volumeFor(demand, pool))
  );
}

/**
 * Whether a machine that the scaler did not make does for a demand. What is not known of it is taken to be right, since the ledger will give it away all the
 * same; except the zone: a demand that names one is for pods that would not be placed anywhere else.
 */
export function machineSuits(machine: FreeMachine, demand: Demand): boolean {
  return (
    machine.pool === demand.pool &&
    (machine.sharedWith === undefined || demand.needsEmptyNode !== true) &&
    (machine.instanceType === undefined || demand.instanceTypes.includes(machine.instanceType)) &&
    (machine.spot === undefined || spotsFor(demand).includes(machine.spot)) &&
    (demand.zone === undefined || machine.zone === demand.zone) &&
    (machine.gpus === undefined || machine.gpus === demand.gpus)
  );
}
