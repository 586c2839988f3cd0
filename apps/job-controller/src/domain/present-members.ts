import { buildComponentName, countGang } from "./build-units.ts";
import type { ReplicaSpec } from "./job.ts";
import type { JobStatus } from "./job-status.ts";
import { listMemberMachines } from "./member-machines.ts";
import type { Snapshot } from "./snapshot.ts";

/**
 * Returns the present indexes of a type: those of the gang, and, of an elastic type, further ones with a machine, a pod or a completion. No present member
 * waits for a member without a machine, because no machine may become free before the present members are done.
 */
export function listPresentMembers(snapshot: Snapshot, status: JobStatus, replica: ReplicaSpec): readonly number[] {
  const { type, replicas } = replica;
  const required = Math.max(1, countGang(replica));
  const all = Array.from({ length: replicas }, (_, index) => index);
  if (required >= replicas) return all;
  const machines = listMemberMachines(snapshot, status);
  const slots = snapshot.replicas.find((each) => each.type === type)?.slots ?? [];
  const completed = status.replicas.find((each) => each.type === type)?.completedIndexes ?? [];
  return all.filter(
    (index) =>
      index < required ||
      machines.has(buildComponentName({ type, index })) ||
      slots[index] !== undefined ||
      completed.includes(index),
  );
}
