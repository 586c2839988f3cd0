import type { JobSpec, Member } from "./job.ts";
import type { JobIdentity, KindLabels } from "./kind.ts";

export type Labels = Readonly<Record<string, string>>;

const HEADS = ["chief", "master", "launcher"];

/** Returns the labels that all pods and services of one job have; they are also its selector. */
export function buildJobLabels(keys: KindLabels, job: Pick<JobIdentity, "name">): Labels {
  return { [keys.groupNameLabelKey]: keys.groupNameLabelValue, [keys.jobNameLabelKey]: job.name };
}

/** Whether the labels have every pair of the selector. */
export function matchesSelector(selector: Labels, labels: Labels): boolean {
  return Object.entries(selector).every(([key, value]) => labels[key] === value);
}

/** Returns the labels of one member: the labels of its job, its type and index, and the role if the member represents the job. */
export function buildMemberLabels(
  keys: KindLabels,
  job: Pick<JobIdentity, "name">,
  member: Member,
  spec: JobSpec,
): Labels {
  return {
    ...buildJobLabels(keys, job),
    [keys.replicaTypeLabelKey]: member.type,
    [keys.replicaIndexLabelKey]: String(member.index),
    ...(isRepresentative(member, spec) && { [keys.jobRoleLabelKey]: "master" }),
  };
}

/** Returns the selector of the pods of one type, as `kubectl get pods --selector` and autoscalers write it; keys are in the order of Kubernetes. */
export function buildTypeSelector(keys: KindLabels, job: Pick<JobIdentity, "name">, type: string): string {
  return Object.entries({ ...buildJobLabels(keys, job), [keys.replicaTypeLabelKey]: type })
    .map(([key, value]) => `${key}=${value}`)
    .sort()
    .join(",");
}

/** Whether the member represents its job: the chief, master or launcher if one exists, otherwise the first worker. */
function isRepresentative({ type, index }: Member, spec: JobSpec): boolean {
  if (index !== 0) return false;
  const headed = spec.replicas.some((replica) => HEADS.includes(replica.type) && replica.replicas > 0);
  return headed ? HEADS.includes(type) : type === "worker";
}
