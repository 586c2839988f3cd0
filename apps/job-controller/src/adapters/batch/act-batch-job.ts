import type { V1Pod } from "@kubernetes/client-node";
import { assertNever } from "@muster/faults";
import {
  listPages,
  unlessFault,
  unlessMissing,
  type KubeCalls,
  type KubeObject,
  type KubeResource,
} from "@muster/kube";
import { JOB_SET, QUEUED_POD, type BatchKind } from "@muster/names";
import { annotations, labels } from "@muster/proto";
import { EXCLUSIVE, buildGrantedAffinity, SHARED } from "@muster/resources";
import { QUEUE_GATE } from "../../domain/batch/batch-job.ts";
import type { BatchStep } from "../../domain/batch/plan-batch-job.ts";
import type { JobSpec } from "../../domain/batch/read-batch-job.ts";
import { formatStartProgress, type StartProgress } from "../../domain/batch/start-progress.ts";
import { getUnitOwnerId } from "../../domain/build-units.ts";
import { removeByForce, type ForceReason } from "../act.ts";
import type { Machines } from "../machines.ts";
import {
  BATCH_RESOURCES,
  buildRowOwnerId,
  toPodRow,
  type JobRow,
  type PodRow,
  type StoredJobSet,
} from "./batch-rows.ts";
import type { BatchWorld } from "./follow-batch-jobs.ts";

export type BatchActDeps = {
  readonly calls: Pick<KubeCalls, "get" | "list" | "patch" | "delete">;
  readonly world: Pick<BatchWorld, "recordJob" | "recordPod">;
  readonly machines: Readonly<Record<BatchKind, Pick<Machines, "reserve" | "release" | "accept" | "requeue">>>;
  readonly forced: (because: ForceReason) => void;
  /** Counts a ready timeout of work of this kind. */
  readonly requeued: (kind: BatchKind) => void;
  /** The id of this installation. */
  readonly installation: string;
};

type Work = { readonly job: JobRow; readonly pods: readonly PodRow[] };

/**
 * Carries out one step, which may run twice, and in two processes, without harm. Returns whether it changed anything: false for machines that a pod still
 * occupies. Rejects with an error that `toKubeFault` reads.
 */
export async function actOnBatchJob(deps: BatchActDeps, { job, pods }: Work, step: BatchStep): Promise<boolean> {
  switch (step.kind) {
    case "suspend":
      return suspend(deps, job, step);
    case "resume":
      return patchJob(deps, job, { metadata: withProgress(job, step.start), spec: { suspend: false } });
    case "record-start":
      return recordStart(deps, { job, pods }, step.start);
    case "reset-start":
      return patchJob(deps, job, { ...buildVersionPatch(job), status: { startTime: null } }, "status");
    case "gate":
      return patchGates(deps, job, (gates) => [...gates.filter(isOtherGate), { name: QUEUE_GATE }]);
    case "ungate":
      return patchGates(deps, job, (gates) => gates.filter(isOtherGate));
    case "reserve":
      // A stale cache may hide the deletion of the Job, which then needs no machines.
      if ((await unlessMissing(deps.calls.get(buildJobResource(job), job.name)))?.metadata?.uid !== job.uid)
        return false;
      await deps.machines[job.kind].reserve(step.unit, step.priority);
      return true;
    case "release":
      return release(deps, job, step);
    case "accept-preemption":
      await deps.machines[job.kind].accept(step.unitId);
      return true;
    case "requeue":
      if (await isOccupied(deps.calls, { ...job, ownerId: getUnitOwnerId(step.unitId) })) return false;
      await deps.machines[job.kind].requeue(step.unitId);
      return true;
    case "place-pod":
      return patchPod(deps, job, findPod(pods, step), (pod) => placement(deps, job, pod, step));
    case "open-pod":
      return patchPod(deps, job, findPod(pods, step), openedSpec);
    case "delete-pod":
      return deletePod(deps, job, { name: step.pod, uid: step.uid });
    case "force-pod":
      await removeByForce(deps.calls, job.namespace, { name: step.pod, uid: step.uid });
      deps.forced(step.because);
      return true;
    default:
      return assertNever(step);
  }
}

/** Asks the API server whether a pod of this owner may still run on a machine. */
export async function isOccupied(
  calls: Pick<KubeCalls, "list">,
  {
    kind,
    ownerId,
    namespace,
  }: { readonly kind: BatchKind; readonly ownerId: string; readonly namespace?: string | undefined },
): Promise<boolean> {
  const query = { labelSelector: `${labels.owner}=${ownerId},${labels.ownerKind}=${kind}` };
  for await (const pods of listPages<V1Pod>(calls, buildPodsResource(namespace), { query }))
    if (pods.some((pod) => !toPodRow(pod).finished)) return true;
  return false;
}

function buildJobResource({ kind, namespace }: JobRow): KubeResource {
  return { ...BATCH_RESOURCES[kind], namespace };
}

function buildPodsResource(namespace: string | undefined): KubeResource {
  return { apiVersion: "v1", plural: "pods", namespace };
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
    calls.patch<KubeObject>(buildJobResource(job), job.name, patch, subresource === undefined ? {} : { subresource }),
  );
  if (patched !== undefined) world.recordJob(job.kind, patched);
  return true;
}

/** A ready timeout is recorded in the same write, so that each counts once. */
async function suspend(
  deps: BatchActDeps,
  job: JobRow,
  { late }: Extract<BatchStep, { readonly kind: "suspend" }>,
): Promise<boolean> {
  if (job.kind === QUEUED_POD) return deletePod(deps, job, job);
  const isDone = await patchJob(deps, job, {
    ...(late !== undefined && { metadata: withProgress(job, late.start) }),
    spec: { suspend: true },
  });
  if (late !== undefined) deps.requeued(job.kind);
  return isDone;
}

async function recordStart(deps: BatchActDeps, { job, pods }: Work, start: StartProgress): Promise<boolean> {
  if (job.kind !== QUEUED_POD) return patchJob(deps, job, { metadata: withProgress(job, start) });
  return patchPod(deps, job, findPod(pods, job), () => ({ metadata: buildProgress(job, start) }));
}

/** Builds the metadata of a patch with the progress, which is based on this version of the work. */
function withProgress(job: JobRow, start: StartProgress): object {
  return { ...buildVersionPatch(job).metadata, ...buildProgress(job, start) };
}

function buildProgress(job: JobRow, start: StartProgress): object {
  const progress = formatStartProgress(start);
  if (progress === formatStartProgress(job.start)) return {};
  return { annotations: { [annotations.progress]: progress ?? null } };
}

/** Builds the part of a patch for which the API server refuses a changed object with a conflict. */
function buildVersionPatch({ metadata: { resourceVersion } }: JobRow | PodRow): Patch {
  return { metadata: { resourceVersion } };
}

type Gates = readonly { readonly name: string }[];

/**
 * Changes the gates of the templates. A merge patch replaces lists, so the templates of a JobSet are read first. The version in the patch makes a concurrent
 * change a conflict.
 */
async function patchGates(deps: BatchActDeps, job: JobRow, change: (gates: Gates) => Gates): Promise<boolean> {
  if (job.kind !== JOB_SET)
    return patchJob(deps, job, { ...buildVersionPatch(job), spec: withGates({}, change(job.gates)) });
  const stored = await unlessMissing(deps.calls.get<StoredJobSet>(buildJobResource(job), job.name));
  if (stored === undefined) return false;
  const replicatedJobs = (stored.spec?.replicatedJobs ?? []).map((each) => {
    const spec = each.template?.spec;
    return {
      ...each,
      template: { ...each.template, spec: withGates(spec, change(spec?.template?.spec?.schedulingGates ?? [])) },
    };
  });
  return patchJob(deps, job, { ...buildVersionPatch(job), spec: { replicatedJobs } });
}

/** Builds the spec of a Job with these gates in its template. */
function withGates(spec: JobSpec = {}, schedulingGates: Gates): object {
  return { ...spec, template: { ...spec.template, spec: { ...spec.template?.spec, schedulingGates } } };
}

async function deletePod(
  { calls }: BatchActDeps,
  { namespace }: JobRow,
  { name, uid }: { readonly name: string; readonly uid: string },
): Promise<boolean> {
  const options = { preconditions: { uid } };
  await unlessFault(calls.delete(buildPodsResource(namespace), name, options), "not_found", "conflict");
  return true;
}

function isOtherGate({ name }: { readonly name: string }): boolean {
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
  const patched = await unlessMissing(calls.patch<V1Pod>(buildPodsResource(namespace), pod.name, patch));
  if (patched !== undefined) world.recordPod(patched);
  return true;
}

function openedSpec({ gates }: PodRow): object {
  return { spec: { schedulingGates: gates.filter(isOtherGate) } };
}

/** Builds the patch that binds the pod, assigns it to the grant, and removes its gate. Kubernetes allows a change of the node affinity only for gated pods. */
function placement(
  { installation }: BatchActDeps,
  job: JobRow,
  { affinity, gates }: PodRow,
  { node, component, isShared, start }: Extract<BatchStep, { readonly kind: "place-pod" }>,
): object {
  const { nodeAffinity } = buildGrantedAffinity(affinity, { node, exclusiveKey: labels.exclusive, isShared });
  const owner = {
    [labels.ownerKind]: job.kind,
    [labels.owner]: buildRowOwnerId(job),
    [labels.ownerUid]: job.uid,
    [labels.component]: component,
    [labels.exclusive]: isShared ? SHARED : EXCLUSIVE,
    [labels.installation]: installation,
  };
  const metadata = { labels: owner, ...(start !== undefined && buildProgress(job, start)) };
  return { metadata, spec: { affinity: { nodeAffinity }, schedulingGates: gates.filter(isOtherGate) } };
}

/** Releases a unit. The API server itself is asked for pods, because a release cannot be undone. Pods of a Job that has left its queue continue to run. */
async function release(
  { calls, machines }: BatchActDeps,
  { kind, namespace }: JobRow,
  { unitId, because }: Extract<BatchStep, { readonly kind: "release" }>,
): Promise<boolean> {
  const mayHavePods = because === "label-removed" || because === "surplus";
  if (!mayHavePods && (await isOccupied(calls, { kind, namespace, ownerId: getUnitOwnerId(unitId) }))) return false;
  await machines[kind].release(unitId);
  return true;
}
