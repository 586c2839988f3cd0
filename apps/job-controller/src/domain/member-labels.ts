import type { JobSpec, Member } from "./job.ts";
import type { JobIdentity, KindLabels } from "./kind.ts";

const HEADS = ["chief", "master", "launcher"];

/** The labels of one member: those of its job, its type and index, and the role if it is the one that speaks for the job. */
export function memberLabels(
  keys: KindLabels,
  job: Pick<JobIdentity, "name">,
  member: Member,
  spec: JobSpec,
): Readonly<Record<string, string>> {
  return {
    [keys.groupNameLabelKey]: keys.groupNameLabelValue,
    [keys.jobNameLabelKey]: job.name,
    [keys.replicaTypeLabelKey]: member.type,
    [keys.replicaIndexLabelKey]: String(member.index),
    ...(speaks(member, spec) && { [keys.jobRoleLabelKey]: "master" }),
  };
}

/** Finds the pods of one type, as `kubectl get pods --selector` and autoscalers take it; keys in the order of Kubernetes. */
export function typeSelector(keys: KindLabels, job: Pick<JobIdentity, "name">, type: string): string {
  const labels = {
    [keys.groupNameLabelKey]: keys.groupNameLabelValue,
    [keys.jobNameLabelKey]: job.name,
    [keys.replicaTypeLabelKey]: type,
  };
  return Object.entries(labels)
    .map(([key, value]) => `${key}=${value}`)
    .sort()
    .join(",");
}

/** The chief, master or launcher speaks for a job that has one, and its first worker otherwise. */
function speaks({ type, index }: Member, spec: JobSpec): boolean {
  if (index !== 0) return false;
  const headed = spec.replicas.some((replica) => HEADS.includes(replica.type) && replica.replicas > 0);
  return headed ? HEADS.includes(type) : type === "worker";
}
