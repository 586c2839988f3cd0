import type { V1Job, V1Pod } from "@kubernetes/client-node";
import { assertNever } from "@muster/faults";
import { listPages, unlessFault, unlessMissing, type KubeCalls, type KubeResource } from "@muster/kube";
import { BATCH_JOB, batchJobOwnerId } from "@muster/names";
import { labels } from "@muster/proto";
import { EXCLUSIVE, grantedAffinity, SHARED } from "@muster/resources";
import { QUEUE_GATE } from "../../domain/batch/batch-job.ts";
import type { BatchStep } from "../../domain/batch/plan-batch-job.ts";
import { ownerIdOfUnit } from "../../domain/build-units.ts";
import type { Machines } from "../machines.ts";
import { podRow, type JobRow, type PodRow } from "./batch-rows.ts";
import type { BatchWorld } from "./follow-batch-jobs.ts";

export type BatchActDeps = {
  readonly calls: Pick<KubeCalls, "get" | "list" | "patch" | "delete">;
  readonly world: Pick<BatchWorld, "recordJob" | "recordPod">;
  readonly machines: Pick<Machines, "reserve" | "release" | "accept" | "requeue">;
  /** The id of our installation. */
  readonly installation: string;
};

/**
 * Carries out one step, which may run twice, and in two processes, without harm. Returns whether it changed anything: `false` for machines that a pod still
 * occupies. Rejects with an error that `kubeFault` reads.
 */
export async function actOnBatchJob(
  deps: BatchActDeps,
  { job, pods }: { readonly job: JobRow; readonly pods: readonly PodRow[] },
  step: BatchStep,
): Promise<boolean> {
  switch (step.kind) {
    case "suspend":
      return patchJob(deps, job, { spec: { suspend: true } });
    case "resume":
      return patchJob(deps, job, { ...versionOf(job), spec: { suspend: false } });
    case "reset-start":
      return patchJob(deps, job, { ...versionOf(job), status: { startTime: null } }, "status");
    case "gate":
      return patchJob(deps, job, { ...versionOf(job), ...withGates([...job.gates, { name: QUEUE_GATE }]) });
    case "ungate":
      return patchJob(deps, job, { ...versionOf(job), ...withGates(job.gates.filter(isOther)) });
    case "reserve":
      // A stale cache does not show that the Job is gone: machines would be reserved for nothing.
      if ((await unlessMissing(deps.calls.get<V1Job>(jobsOf(job), job.name)))?.metadata?.uid !== job.uid) return false;
      await deps.machines.reserve(step.unit, step.priority);
      return true;
    case "release":
      return release(deps, job.namespace, step);
    case "accept-preemption":
      await deps.machines.accept(step.unitId);
      return true;
    case "requeue":
      if (await isOccupied(deps.calls, ownerIdOfUnit(step.unitId), job.namespace)) return false;
      await deps.machines.requeue(step.unitId);
      return true;
    case "place-pod":
      return patchPod(deps, job, findPod(pods, step), (pod) => placement(deps, job, pod, step));
    case "open-pod":
      return patchPod(deps, job, findPod(pods, step), openedSpec);
    case "delete-pod": {
      const options = { preconditions: { uid: step.uid } };
      await unlessFault(deps.calls.delete(podsOf(job.namespace), step.pod, options), "not_found", "conflict");
      return true;
    }
    default:
      return assertNever(step);
  }
}

/** Whether a pod with this owner id may run on a machine, as the API server has it. */
export async function isOccupied(
  calls: Pick<KubeCalls, "list">,
  ownerId: string,
  namespace?: string,
): Promise<boolean> {
  const query = { labelSelector: `${labels.owner}=${ownerId},${labels.ownerKind}=${BATCH_JOB}` };
  for await (const pods of listPages<V1Pod>(calls, podsOf(namespace), { query }))
    if (pods.some((pod) => !podRow(pod).finished)) return true;
  return false;
}

function jobsOf({ namespace }: JobRow): KubeResource {
  return { apiVersion: "batch/v1", plural: "jobs", namespace };
}

function podsOf(namespace: string | undefined): KubeResource {
  return { apiVersion: "v1", plural: "pods", ...(namespace !== undefined && { namespace }) };
}

type Patch = Readonly<Record<string, unknown>> & { readonly metadata?: object };

async function patchJob(
  { calls, world }: BatchActDeps,
  job: JobRow,
  { metadata, ...body }: Patch,
  subresource?: "status",
): Promise<boolean> {
  const patch = { kind: "merge", body: { ...body, metadata: { uid: job.uid, ...metadata } } } as const;
  const patched = await unlessMissing(
    calls.patch<V1Job>(jobsOf(job), job.name, patch, subresource === undefined ? {} : { subresource }),
  );
  if (patched !== undefined) world.recordJob(patched);
  return true;
}

/** The API server refuses the patch with a conflict if the object has changed since it was planned from. */
function versionOf({ metadata: { resourceVersion } }: JobRow | PodRow): Patch {
  return { metadata: { resourceVersion } };
}

function withGates(gates: readonly { readonly name: string }[]): Patch {
  return { spec: { template: { spec: { schedulingGates: gates } } } };
}

function isOther({ name }: { readonly name: string }): boolean {
  return name !== QUEUE_GATE;
}

function findPod(pods: readonly PodRow[], { uid }: { readonly uid: string }): PodRow | undefined {
  return pods.find((pod) => pod.uid === uid);
}

async function patchPod(
  { calls, world }: BatchActDeps,
  { namespace }: JobRow,
  pod: PodRow | undefined,
  build: (pod: PodRow) => object,
): Promise<boolean> {
  if (pod === undefined) return false;
  const { uid, resourceVersion } = pod.metadata;
  const { metadata, ...body } = { metadata: {}, ...build(pod) };
  const patch = { kind: "merge", body: { ...body, metadata: { uid, resourceVersion, ...metadata } } } as const;
  const patched = await unlessMissing(calls.patch<V1Pod>(podsOf(namespace), pod.name, patch));
  if (patched !== undefined) world.recordPod(patched);
  return true;
}

function openedSpec({ gates }: PodRow): object {
  return { spec: { schedulingGates: gates.filter(isOther) } };
}

/** One patch binds the pod, makes it a pod of the grant, and removes its gate. Of the affinity of a gated pod only that to nodes can be changed. */
function placement(
  { installation }: BatchActDeps,
  job: JobRow,
  { affinity, gates }: PodRow,
  { node, component, isShared }: Extract<BatchStep, { readonly kind: "place-pod" }>,
): object {
  const { nodeAffinity } = grantedAffinity(affinity, { node, exclusiveKey: labels.exclusive, isShared });
  const owner = {
    [labels.ownerKind]: BATCH_JOB,
    [labels.owner]: batchJobOwnerId(job),
    [labels.ownerUid]: job.uid,
    [labels.component]: component,
    [labels.exclusive]: isShared ? SHARED : EXCLUSIVE,
    [labels.installation]: installation,
  };
  return { metadata: { labels: owner }, spec: { affinity: { nodeAffinity }, schedulingGates: gates.filter(isOther) } };
}

/** A release cannot be undone, so the API server itself is asked for pods. Pods of a Job that has left its queue continue to run. */
async function release(
  { calls, machines }: BatchActDeps,
  namespace: string,
  { unitId, because }: Extract<BatchStep, { readonly kind: "release" }>,
): Promise<boolean> {
  const mayHavePods = because === "label-removed" || because === "surplus";
  if (!mayHavePods && (await isOccupied(calls, ownerIdOfUnit(unitId), namespace))) return false;
  await machines.release(unitId);
  return true;
}
