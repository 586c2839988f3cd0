import { componentOf, gangSize } from "./build-units.ts";
import type { ReplicaSpec } from "./job.ts";
import type { JobStatus } from "./job-status.ts";
import { machinesOf } from "./plan-machines.ts";
import type { Snapshot } from "./snapshot.ts";

/**
 * The indexes of a type that are there as things are: those without which the gang does not start, and of what an elastic type may have beyond them whoever has a
 * machine, a pod, or an end that was good. Whoever still waits for a machine is nobody that others could wait for: none may come free before they are done.
 */
export function membersNow(snapshot: Snapshot, status: JobStatus, replica: ReplicaSpec): readonly number[] {
  const { type, replicas } = replica;
  const least = Math.max(1, gangSize(replica));
  const all = Array.from({ length: replicas }, (_, index) => index);
  if (least >= replicas) return all;
  const machines = machinesOf(snapshot, status);
  const slots = snapshot.replicas.find((each) => each.type === type)?.slots ?? [];
  const completed = status.replicas.find((each) => each.type === type)?.completedIndexes ?? [];
  return all.filter(
    (index) =>
      index < least ||
      machines.has(componentOf({ type, index })) ||
      slots[index] !== undefined ||
      completed.includes(index),
  );
}
