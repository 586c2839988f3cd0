import type { V1Pod, V1PodTemplateSpec } from "@kubernetes/client-node";
import type { JobObject } from "./controller-interface.ts";
import { memberControl, type CreateOutcome, type DeleteOutcome, type MemberControlDeps } from "./member-control.ts";
import type { Member, OwnerReference } from "./member.ts";

export type PodControl<Job extends JobObject> = {
  /** Events SuccessfulCreatePod and FailedCreatePod. */
  createPod(job: Job, pod: V1Pod): Promise<CreateOutcome<V1Pod>>;
  /** Events SuccessfulDeletePod and FailedDeletePod. */
  deletePod(job: Job, pod: Member): Promise<DeleteOutcome>;
};

export function podControl<Job extends JobObject>(deps: MemberControlDeps<V1Pod, Job>): PodControl<Job> {
  const control = memberControl("Pod", deps);
  return { createPod: control.create, deletePod: control.delete };
}

/** The pod of a template: its name, labels, annotations and finalizers, and everything of its spec. */
export function buildPod(namespace: string, template: V1PodTemplateSpec, owner: OwnerReference | undefined): V1Pod {
  const { name, labels, annotations, finalizers } = template.metadata ?? {};
  return {
    apiVersion: "v1",
    kind: "Pod",
    metadata: {
      namespace,
      ...(name !== undefined && { name }),
      ...(labels !== undefined && { labels }),
      ...(annotations !== undefined && { annotations }),
      ...(finalizers !== undefined && { finalizers }),
      ownerReferences: owner === undefined ? [] : [owner],
    },
    ...(template.spec !== undefined && { spec: template.spec }),
  };
}
