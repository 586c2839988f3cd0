import { readJob, type JobRow } from "../src/adapters/read-job.ts";
import { TFJOB_KIND } from "../src/domain/kind-tfjob.ts";
import { buildJobLabels, type Labels } from "../src/domain/member-labels.ts";
import {
  buildOwnerReference,
  type JobObject,
  type MemberObject,
  type OwnerReference,
  type PodObject,
} from "../src/domain/ownership.ts";
import { DEFAULTS } from "./manifests.ts";

/** The kind of the jobs in tests of members. */
export const KIND = TFJOB_KIND;

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

/** Builds the job as passes read it. Its spec is empty, and so unreadable. */
export function testRow(name: string): JobRow {
  return readJob({ metadata: { name, namespace: NAMESPACE, uid: `uid-of-${name}` } }, KIND, DEFAULTS);
}

/** Returns the labels of one replica, as the controller writes them. */
export function buildReplicaLabels(jobName: string, replicaType: string, index: number): Labels {
  const { replicaTypeLabelKey, replicaIndexLabelKey } = KIND.labelKeys;
  const job = buildJobLabels(KIND.labelKeys, { name: jobName });
  return { ...job, [replicaTypeLabelKey]: replicaType, [replicaIndexLabelKey]: String(index) };
}

export type MemberOptions = {
  /** Absent for an orphan. */
  readonly owner?: JobObject | OwnerReference;
  /** Replaces the labels of its job, type and index. */
  readonly labels?: Readonly<Record<string, string>>;
  readonly name?: string;
  readonly uid?: string;
  readonly resourceVersion?: string;
  readonly deleting?: boolean;
  readonly created?: string;
  readonly phase?: string;
  readonly ready?: boolean;
};

/** Builds a pod or service of one replica, as the cache would have it. */
export function testMember(jobName: string, replicaType: string, index: number, more: MemberOptions = {}): PodObject {
  const name = more.name ?? `${jobName}-${replicaType}-${index}`;
  return {
    metadata: {
      name,
      namespace: NAMESPACE,
      uid: more.uid ?? `uid-of-${name}`,
      resourceVersion: more.resourceVersion ?? "1",
      labels: more.labels ?? buildReplicaLabels(jobName, replicaType, index),
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

export function nameOf(member: MemberObject): string {
  return member.metadata?.name ?? "";
}

function referenceTo(owner: JobObject | OwnerReference): OwnerReference {
  return "metadata" in owner ? buildOwnerReference(KIND, owner.metadata) : owner;
}
