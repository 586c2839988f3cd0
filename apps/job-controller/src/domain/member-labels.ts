import type { JobSpec, Member } from "./job.ts";
import type { JobIdentity, KindLabels } from "./kind.ts";

export type Labels = Readonly<Record<string, string>>;

const HEADS = ["chief", "master", "launcher"];

/** The labels that all pods and services of one job have; they are its selector, too. */
export function jobLabels(keys: KindLabels, job: Pick<JobIdentity, "name">): Labels {
  return { [keys.groupNameLabelKey]: keys.groupNameLabelValue, [keys.jobNameLabelKey]: job.name };
}

/** Whether the labels have every pair of the selector. */
export function selects(selector: Labels, labels: Labels): boolean {
  return Object.entries(selector).every(([key, value]) => labels[key] === value);
}

/** The labels of one member: those of its job, its type and index, and the role if it represents the job. */
export function memberLabels(keys: KindLabels, job: Pick<JobIdentity, "name">, member: Member, spec: JobSpec): Labels {
  return {
    ...jobLabels(keys, job),
    [keys.replicaTypeLabelKey]: member.type,
    [keys.replicaIndexLabelKey]: String(member.index),
    ...(speaks(member, spec) && { [keys.jobRoleLabelKey]: "master" }),
  };
}

/** Selects the pods of one type, in the form of `kubectl get pods --selector` and autoscalers; keys in the order of Kubernetes. */
export function typeSelector(keys: KindLabels, job: Pick<JobIdentity, "name">, type: string): string {
  return Object.entries({ ...jobLabels(keys, job), [keys.replicaTypeLabelKey]: type })
    .map(([key, value]) => `${key}=${value}`)
    .sort()
    .join(",");
}

/** The chief, master or launcher represents a job that has one, otherwise its first worker does. */
function speaks({ type, index }: Member, spec: JobSpec): boolean {
  if (index !== 0) return false;
  const headed = spec.replicas.some((replica) => HEADS.includes(replica.type) && replica.replicas > 0);
  return headed ? HEADS.includes(type) : type === "worker";
}
