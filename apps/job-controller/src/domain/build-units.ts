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
    .replaceAll(/[^a-z0-9-]/g, "-")
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
  const gang: Unit = {
    id,
    needs: spec.replicas.flatMap((replica) => needsOf(replica, gangSize(replica))),
    because: "gang",
  };
  const granted = seen.find((unit) => unit.id === id);
  if (granted?.state !== "granted") return [gang];
  const extras = spec.replicas.flatMap((replica): Unit[] => {
    const completed = status.replicas.find(({ type }) => type === replica.type)?.completedIndexes ?? [];
    return needsOf(replica, replica.replicas)
      .filter((_need, index) => !completed.includes(index))
      .filter(({ component }) => !granted.nodes.has(component) || status.replaced.includes(component))
      .map((need) => ({
        id: `${id}-${need.component}`,
        needs: [need],
        because: status.replaced.includes(need.component) ? "machine-lost" : "scaled-up",
      }));
  });
  return [gang, ...extras];
}

/** Members that must be there for the job to start at all. */
export function gangSize({ replicas, elastic }: ReplicaSpec): number {
  return elastic === undefined ? replicas : Math.min(replicas, elastic.minReplicas);
}

function needsOf({ type, pool }: ReplicaSpec, count: number): { component: string; pool: string }[] {
  return Array.from({ length: count }, (_, index) => ({ component: componentOf({ type, index }), pool }));
}
