import { buildLabelPart, computeShortHash, PART_SEPARATOR } from "@muster/names";
import { restrictSelection, type NodeSelection, type Requests } from "@muster/resources";
import type { JobSpec, Member, ReplicaSpec } from "./job.ts";
import type { JobStatus } from "./job-status.ts";
import type { UnitSeen } from "./snapshot.ts";

/** A machine for one member, on a node that `selection` accepts. With `shared`, a part of a machine that holds these requests. */
export type UnitNeed = {
  readonly component: string;
  readonly pool: string;
  /** See `ReplicaSpec`. */
  readonly otherPools?: readonly string[];
  readonly shared?: Requests;
  readonly selection?: NodeSelection;
};

/** Machines, and parts of machines, that the ledger grants together or not at all. */
export type RequestUnit = {
  readonly id: string;
  readonly needs: readonly UnitNeed[];
  /** The label whose value must be equal on the nodes of all machines. */
  readonly topology?: string | undefined;
  /** The queue whose quota the unit uses; absent if none. */
  readonly queue?: string | undefined;
  /** The time that the pods need to end after a preemption; only with a queue. */
  readonly graceMs?: number;
  /** Requests that the unit is not preempted, which the queue may permit; only with a queue. */
  readonly notPreemptible?: boolean;
  readonly because: "gang" | "scaled-up" | "machine-lost";
};

export function buildComponentName({ type, index }: Member): string {
  return `${type}-${index}`;
}

const MAX_NAME_PART = 24;
const MAX_UID_PART = 12;

/** Returns the owner id of a job in the ledger and on its pods. It is unique among jobs of one name, of any kind, and the ids of its units begin with it. */
export function buildOwnerId(job: { readonly name: string; readonly uid: string }): string {
  const name = buildLabelPart(job.name, MAX_NAME_PART);
  const uid = job.uid.replaceAll(/[^a-z0-9]/g, "").slice(0, MAX_UID_PART);
  return `${name}-${uid}`;
}

/**
 * Builds the desired units of a job: its gang, without which no member starts, and a unit for each member without a machine in the gang's grant. Members lack a
 * machine after the job grew or a machine was lost. The grant defines the gang, so a change of the spec adds and releases single machines, never the gang.
 * These machines are in the pool of the gang's grant, and in its domain if it has a topology.
 */
export function buildUnits(
  job: { readonly name: string; readonly uid: string },
  spec: JobSpec,
  status: JobStatus,
  seen: readonly UnitSeen[],
): readonly [RequestUnit, ...RequestUnit[]] {
  const gang = buildGang(job, spec, listCompletedComponents(status));
  const { id } = gang;
  const granted = seen.find((unit) => unit.id === id);
  if (granted?.state !== "granted") return [gang];
  const extras = spec.replicas.flatMap((replica): RequestUnit[] => {
    const completed = status.replicas.find(({ type }) => type === replica.type)?.completedIndexes ?? [];
    return buildReplicaNeeds(replica, replica.replicas)
      .filter((_need, index) => !completed.includes(index))
      .filter(({ component }) => !granted.nodes.has(component) || status.replaced.includes(component))
      .map((need) => ({
        id: buildMemberUnitId(id, need.component),
        needs: [restrictToGrant(granted, need)],
        because: status.replaced.includes(need.component) ? "machine-lost" : "scaled-up",
      }));
  });
  return [gang, ...extras];
}

/** Builds the unit without which no member starts. */
export function buildGang(
  job: { readonly name: string; readonly uid: string },
  spec: JobSpec,
  completed: ReadonlySet<string> = new Set(),
): RequestUnit {
  const all = spec.replicas.flatMap((replica) => buildReplicaNeeds(replica, countGang(replica)));
  // A repeated request omits completed members, which need no machine, but contains at least one machine.
  const left = all.filter(({ component }) => !completed.has(component));
  const { topology } = spec;
  const needs = left.length === 0 ? all : left;
  return { id: buildOwnerId(job), needs, because: "gang", ...(topology && { topology }) };
}

type GrantedUnit = Extract<UnitSeen, { readonly state: "granted" }>;

/** Restricts a need to the pool and the domain of the gang's grant. */
export function restrictToGrant(granted: GrantedUnit, need: UnitNeed): UnitNeed {
  return restrictToDomain(granted, restrictToPool(granted, need));
}

/** Restricts a need to the pool of its type. A type without a granted machine accepts all of its pools. */
function restrictToPool({ pools }: GrantedUnit, { otherPools, ...need }: UnitNeed): UnitNeed {
  if (otherPools === undefined) return need;
  const typeOf = (component: string): string => component.replace(/-\d+$/, "");
  const ofType = [...(pools ?? [])].find(([component]) => typeOf(component) === typeOf(need.component));
  const pool = pools?.get(need.component) ?? ofType?.[1];
  return pool === undefined ? { ...need, otherPools } : { ...need, pool };
}

function restrictToDomain({ domain }: GrantedUnit, need: UnitNeed): UnitNeed {
  if (domain === undefined) return need;
  const requirement = { key: domain.key, operator: "In", values: [domain.value] };
  return { ...need, selection: restrictSelection(need.selection, requirement) };
}

/** The ledger's limit for ids of owners. */
const MAX_ID_LENGTH = 63;

/** Returns the id of one member's unit. A hash replaces a component that would make the id too long. */
export function buildMemberUnitId(ownerId: string, component: string): string {
  const id = `${ownerId}${PART_SEPARATOR}${component}`;
  return id.length <= MAX_ID_LENGTH ? id : `${ownerId}${PART_SEPARATOR}${computeShortHash(component)}`;
}

/** Returns the members that have succeeded. */
export function listCompletedComponents({ replicas }: Pick<JobStatus, "replicas">): ReadonlySet<string> {
  return new Set(
    replicas.flatMap(({ type, completedIndexes }) =>
      completedIndexes.map((index) => buildComponentName({ type, index })),
    ),
  );
}

/** Counts the members without which the job does not start. */
export function countGang({ replicas, elastic }: ReplicaSpec): number {
  return elastic === undefined ? replicas : Math.min(replicas, elastic.minReplicas);
}

function buildReplicaNeeds({ type, pool, otherPools, shared, selection }: ReplicaSpec, count: number): UnitNeed[] {
  const accepted = { pool, ...(otherPools && { otherPools }) };
  const request = {
    ...accepted,
    ...(shared !== undefined && { shared }),
    ...(selection !== undefined && { selection }),
  };
  return Array.from({ length: count }, (_, index) => ({ component: buildComponentName({ type, index }), ...request }));
}

/** Returns the owner id with which a unit's id begins. */
export function getUnitOwnerId(unitId: string): string {
  return unitId.split(PART_SEPARATOR, 1)[0] ?? unitId;
}
