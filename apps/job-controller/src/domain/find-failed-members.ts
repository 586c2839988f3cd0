import { hasEndedByItself, hasMainSucceeded } from "./decide-pod-failure.ts";
import { describeMember } from "./describe-end.ts";
import type { JobSpec, ReplicaSpec } from "./job.ts";
import type { FailedMembers, JobStatus } from "./job-status.ts";
import type { PodFact, Snapshot } from "./snapshot.ts";

/** The limit of groups, because the status stores them. */
export const MAX_FAILED_GROUPS = 16;
/** The limit of a message in characters. */
export const MAX_FAILED_MESSAGE = 256;

/** Groups the members whose pods failed by their type and the end of the pod. Beyond the limit of groups, it groups by type only, without messages. */
export function findFailedMembers(
  { replicas }: Pick<Snapshot, "replicas">,
  spec: Pick<JobSpec, "replicas">,
  { attempt }: Pick<JobStatus, "attempt">,
): readonly FailedMembers[] {
  const failed = spec.replicas.flatMap((replica) => {
    const slots = replicas.find(({ type }) => type === replica.type)?.slots ?? [];
    return slots.flatMap((pod, index) =>
      pod?.attempt === attempt && hasFailed(pod, replica)
        ? [
            {
              type: replica.type,
              index,
              message: describeMember(pod, replica.mainContainer).slice(0, MAX_FAILED_MESSAGE),
            },
          ]
        : [],
    );
  });
  const groups = groupByEnd(failed);
  return groups.length <= MAX_FAILED_GROUPS ? groups : groupByEnd(failed.map((each) => ({ ...each, message: "" })));
}

/** A container that the kubelet would restart is down for good once the job is over. */
function hasFailed(pod: PodFact, replica: ReplicaSpec): boolean {
  if (pod.phase === "Failed") return hasEndedByItself(pod) && !hasMainSucceeded(pod, replica);
  return !pod.deleting && pod.down.some(({ code }) => code !== 0);
}

function groupByEnd(
  failed: readonly { readonly type: string; readonly index: number; readonly message: string }[],
): FailedMembers[] {
  const groups = Map.groupBy(failed, ({ type, message }) => JSON.stringify([type, message]));
  return [...groups.values()].flatMap((group) =>
    group.slice(0, 1).map(({ type, message }) => ({ type, indexes: group.map(({ index }) => index), message })),
  );
}
