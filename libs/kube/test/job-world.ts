import type { ControllerInterface, JobObject } from "../src/job-controller/controller-interface.ts";
import type { Member, OwnerReference, PodMember } from "../src/job-controller/member.ts";
import { genMemberLabels } from "../src/job-controller/member-labels.ts";
import { genOwnerReference } from "../src/job-controller/owner-reference.ts";

/** A kind of job as Kubeflow publishes it. Its caches are empty. */
export const KUBEFLOW_TFJOB: ControllerInterface<JobObject> = {
  controllerName: "tfjob-controller",
  apiGroupVersionKind: { group: "kubeflow.org", version: "v1", kind: "TFJob" },
  plural: "tfjobs",
  groupNameLabelValue: "tfjob-controller",
  groupNameLabelKey: "training.kubeflow.org/operator-name",
  jobNameLabelKey: "training.kubeflow.org/job-name",
  replicaTypeLabelKey: "training.kubeflow.org/replica-type",
  replicaIndexLabelKey: "training.kubeflow.org/replica-index",
  jobRoleLabelKey: "training.kubeflow.org/job-role",
  getJobFromInformerCache: () => undefined,
  getJobFromApi: (_namespace, name) => Promise.reject(new Error(`nobody said what ${name} is`)),
};

export const NAMESPACE = "team";

export function testJob(name: string, more: { readonly uid?: string; readonly deleting?: boolean } = {}): JobObject {
  return {
    metadata: {
      name,
      namespace: NAMESPACE,
      uid: more.uid ?? `uid-of-${name}`,
      ...(more.deleting === true && { deletionTimestamp: "2026-01-01T00:00:00Z" }),
    },
  };
}

export type MemberOptions = {
  /** Absent for an orphan. */
  readonly owner?: JobObject | OwnerReference;
  /** Instead of those of its job, type and index. */
  readonly labels?: Readonly<Record<string, string>>;
  readonly name?: string;
  readonly uid?: string;
  readonly resourceVersion?: string;
  readonly deleting?: boolean;
  readonly created?: string;
  readonly phase?: string;
  readonly ready?: boolean;
};

/** A pod or service of one replica, as the cache would have it. */
export function testMember(jobName: string, replicaType: string, index: number, more: MemberOptions = {}): PodMember {
  const name = more.name ?? `${jobName}-${replicaType}-${index}`;
  return {
    metadata: {
      name,
      namespace: NAMESPACE,
      uid: more.uid ?? `uid-of-${name}`,
      resourceVersion: more.resourceVersion ?? "1",
      labels: more.labels ?? genMemberLabels(KUBEFLOW_TFJOB, jobName, { replicaType, index }),
      ownerReferences: more.owner === undefined ? [] : [referenceTo(more.owner)],
      creationTimestamp: more.created ?? "2026-01-01T00:00:00Z",
      ...(more.deleting === true && { deletionTimestamp: "2026-01-01T00:01:00Z" }),
    },
    status: {
      phase: more.phase ?? "Running",
      conditions: [{ type: "Ready", status: more.ready === true ? "True" : "False" }],
    },
  };
}

export function nameOf(member: Member): string {
  return member.metadata?.name ?? "";
}

function referenceTo(owner: JobObject | OwnerReference): OwnerReference {
  return "metadata" in owner ? genOwnerReference(KUBEFLOW_TFJOB.apiGroupVersionKind, owner) : owner;
}
