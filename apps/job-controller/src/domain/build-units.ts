import { PART_SEPARATOR } from "@muster/names";
import type { JobSpec, Member, ReplicaSpec } from "./job.ts";
import type { JobStatus } from "./job-status.ts";
import type { UnitSeen } from "./snapshot.ts";

/** Machines that the ledger grants together or not at all. */
export type Unit = {
  readonly id: string;
  readonly needs: readonly { readonly component: string; readonly pool: string }[];
  readonly because: "gang" | "scaled-up" | "machine-lost";
};

export function componentOf({ type, index }: Member): string {
  return `${type}-${index}`;
}

const NAME_KEPT = 24;
const UID_KEPT = 12;

/** The owner, in the ledger and on pods, of everything that this one job has; another job of its name, of whatever kind, has another one. Ids of its units begin with it. */
export function ownerIdOf(job: { readonly name: string; readonly uid: string }): string {
  const name = job.name
    .replaceAll(/[^a-z0-9]+/g, "-")
    .slice(0, NAME_KEPT)
    .replace(/-+$/, "");
  const uid = job.uid.replaceAll(/[^a-z0-9]/g, "").slice(0, UID_KEPT);
  return `${name}-${uid}`;
}

/**
 * The units that a job wants: its gang, without which nothing starts, and a unit of its own for each member that the gang's grant has no machine for, because the job
 * grew or a machine was lost. What was granted decides what the gang is, so that a change of the spec adds and gives back single machines and never the gang.
 */
export function buildUnits(
  job: { readonly name: string; readonly uid: string },
  spec: JobSpec,
  status: JobStatus,
  seen: readonly UnitSeen[],
): readonly [Unit, ...Unit[]] {
  const id = ownerIdOf(job);
  const all = spec.replicas.flatMap((replica) => needsOf(replica, gangSize(replica)));
  // Of a gang that asks anew, who has ended well needs no machine any more; nobody can ask for no machine.
  const completed = new Set(
    status.replicas.flatMap(({ type, completedIndexes }) =>
      completedIndexes.map((index) => componentOf({ type, index })),
    ),
  );
  const left = all.filter(({ component }) => !completed.has(component));
  const gang: Unit = { id, needs: left.length === 0 ? all : left, because: "gang" };
  const granted = seen.find((unit) => unit.id === id);
  if (granted?.state !== "granted") return [gang];
  const extras = spec.replicas.flatMap((replica): Unit[] => {
    const completed = status.replicas.find(({ type }) => type === replica.type)?.completedIndexes ?? [];
    return needsOf(replica, replica.replicas)
      .filter((_need, index) => !completed.includes(index))
      .filter(({ component }) => !granted.nodes.has(component) || status.replaced.includes(component))
      .map((need) => ({
        id: memberUnitId(id, need.component),
        needs: [need],
        because: status.replaced.includes(need.component) ? "machine-lost" : "scaled-up",
      }));
  });
  return [gang, ...extras];
}

/** Ids of owners end here. */
const ID_MOST = 63;

/** The unit of one member's own. A member whose name is too long for an id has a number made of it instead. */
export function memberUnitId(ownerId: string, component: string): string {
  const id = `${ownerId}${PART_SEPARATOR}${component}`;
  return id.length <= ID_MOST ? id : `${ownerId}${PART_SEPARATOR}${numberOf(component)}`;
}

/** FNV-1a, over two halves so that no two of a thousand members have one number by chance. */
function numberOf(text: string): string {
  const half = (seed: number): string => {
    let hash = seed;
    for (const char of text) hash = Math.imul(hash ^ (char.codePointAt(0) ?? 0), 0x01000193) >>> 0;
    return hash.toString(36);
  };
  return half(0x811c9dc5) + half(0x01234567);
}

/** Members that must be there for the job to start at all. */
export function gangSize({ replicas, elastic }: ReplicaSpec): number {
  return elastic === undefined ? replicas : Math.min(replicas, elastic.minReplicas);
}

function needsOf({ type, pool }: ReplicaSpec, count: number): { component: string; pool: string }[] {
  return Array.from({ length: count }, (_, index) => ({ component: componentOf({ type, index }), pool }));
}

/** The owner id that a unit's id begins with. */
export function ownerIdOfUnit(unitId: string): string {
  return unitId.split(PART_SEPARATOR, 1)[0] ?? unitId;
}
