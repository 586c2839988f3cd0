import { assertNever, describeFault, FaultError } from "@muster/faults";
import type { V1Pod } from "@kubernetes/client-node";
import { annotations } from "@muster/proto";
import {
  toKubeFault,
  toPodManifest,
  unlessFault,
  unlessMissing,
  type KubeCalls,
  type KubeObject,
  type KubeResource,
} from "@muster/kube";
import { buildPod } from "../domain/build-pod.ts";
import { buildService } from "../domain/build-service.ts";
import { buildJobLabels } from "../domain/member-labels.ts";
import type { MemberPolicy } from "../domain/member-metadata.ts";
import { buildJobKey, buildOwnerReference } from "../domain/ownership.ts";
import { findGroupKind } from "../domain/plan-group.ts";
import type { JobStep } from "../domain/plan-steps.ts";
import type { JobPolicy } from "../domain/snapshot.ts";
import type { ChangeReport } from "../members/change-members.ts";
import type { KindRuntime } from "./kind-runtime.ts";
import type { Machines } from "./machines.ts";
import { runWhileLeading, type LeadCheck } from "./lead-check.ts";
import { toWireService } from "./messages.ts";
import type { Observation } from "./observe.ts";
import { findPodGroupKind } from "./pod-groups.ts";
import { buildJobPlace, type JobRow } from "./read-job.ts";

export type ActDeps = {
  readonly calls: Pick<KubeCalls, "create" | "get" | "patch" | "delete">;
  readonly machines: Pick<Machines, "reserve" | "release" | "accept" | "requeue">;
  readonly policy: MemberPolicy & Pick<JobPolicy, "gangScheduling">;
  readonly warn: (job: JobRow, reason: string, message: string) => void;
  /** Called for each pod that was removed by force; it counts them for metrics. */
  readonly forced: (because: ForceReason) => void;
};

export type ActContext = {
  readonly runtime: KindRuntime;
  readonly job: JobRow;
  readonly seen: Observation;
  /** The version of the job that the step relies on: the observed one, or the one that the round has written. */
  readonly version: string | undefined;
  readonly signal: AbortSignal;
  /** Called before each step, and before each pod. */
  readonly isHeld: LeadCheck;
  /** The version check of each round's reservations, by the observation of the round. */
  readonly checks: WeakMap<Observation, Promise<void>>;
};

/**
 * Carries out one step. A step may run twice, and in two processes, without harm: names, uids and reservation ids identify its effect. Rejects with FaultError
 * if the step fails; the pass is then retried.
 */
export function executeStep(deps: ActDeps, acting: ActContext, step: JobStep): Promise<void> {
  return runWhileLeading(acting.isHeld, actNow)(deps, acting, step);
}

async function actNow(deps: ActDeps, acting: ActContext, step: JobStep): Promise<void> {
  const { runtime, job, seen, signal } = acting;
  const { controller } = runtime;
  const { uid, name } = job.metadata;
  switch (step.kind) {
    case "reserve":
      // A stale view may hide the end of the job, which then needs no machines.
      await requireCurrentOnce(acting);
      return deps.machines.reserve(step.unit, step.priority);
    case "release":
      return deps.machines.release(step.unitId);
    case "accept-preemption":
      return deps.machines.accept(step.unitId);
    case "requeue":
      return deps.machines.requeue(step.unitId);
    case "create-companions":
      return createCompanions(deps, { runtime, job, seen }, step.names);
    case "create-pods":
      return createPods(deps, acting, step);
    case "delete-pod": {
      const pod = seen.pods.get(step.uid);
      if (pod === undefined) return;
      const { nowMs } = seen.snapshot;
      if (step.because === "preempted" && !(await announcePreemption(deps, pod, nowMs))) return;
      settle(await controller.deletePods(job, step.type, [pod], signal));
      return;
    }
    case "force-pod":
      return forcePod(deps, job, step);
    case "create-service":
      return createService(deps, acting, step.service);
    case "delete-service": {
      const service = seen.services.get(step.service);
      if (service === undefined) return;
      const outcome = await controller.deleteService(job, service);
      if (outcome.did === "refused") throw new FaultError(outcome.fault);
      return;
    }
    case "sync-budget":
      await controller.syncBudget(job, step.minAvailable, step.because === "missing");
      return;
    case "delete-budget":
      await controller.deleteBudget(job);
      return;
    case "sync-group": {
      const kind = findPodGroupKind(step.apiVersion);
      if (kind !== undefined) await controller.syncPodGroup(job, kind, step.group);
      return;
    }
    case "delete-group": {
      const kind = findPodGroupKind(step.apiVersion);
      if (kind !== undefined) await controller.deletePodGroup(job, kind);
      return;
    }
    case "delete-job": {
      const options = { preconditions: { uid }, propagationPolicy: "Background" } as const;
      await unlessFault(
        deps.calls.delete(buildJobPlace(runtime.kind, job.metadata), name, options),
        "not_found",
        "conflict",
      );
      return;
    }
    default:
      return assertNever(step);
  }
}

async function createPods(
  deps: ActDeps,
  acting: ActContext,
  { pods, attempt }: Extract<JobStep, { kind: "create-pods" }>,
): Promise<void> {
  const { runtime, job, seen, signal, isHeld } = acting;
  const { kind, controller } = runtime;
  const { metadata, spec, traceparent } = job;
  if ("problems" in spec) return;
  // A stale view may hide the end or the deletion of the job: the step would recreate each pod that the cleanup or the garbage collector removes.
  await requireCurrent(acting);
  const mark = findPodGroupKind(findGroupKind(seen.snapshot, deps.policy))?.mark(metadata.name);
  for (const type of new Set(pods.map((pod) => pod.type))) {
    const manifests = pods
      .filter((pod) => pod.type === type)
      .map(({ index, node, isShared }) => {
        const request = { kind, job: metadata, spec, member: { type, index }, node, isShared };
        return toPodManifest(buildPod({ ...request, attempt, mark, traceparent }, deps.policy));
      });
    const during = { signal, isHeld, requireCurrent: () => requireCurrent(acting) };
    settle(await controller.createPods(job, type, manifests, during));
  }
}

/** Rejects, and makes passes wait for a newer view, if the API server has a different version of the job than the view, or lacks the job. */
async function requireCurrent({ runtime, job, version }: ActContext): Promise<void> {
  await runtime.controller.recheckVersion(job, version).catch((error: unknown) => {
    if (isOutdated(error)) runtime.recordStale(buildJobKey(job), version);
    throw error;
  });
}

/** Checks the version with one read for all reservations of a round, even if the read fails: a large job may add hundreds of them. */
function requireCurrentOnce(acting: ActContext): Promise<void> {
  const { checks, seen } = acting;
  const check = checks.get(seen) ?? requireCurrent(acting);
  checks.set(seen, check);
  return check;
}

/** Whether the API server has another version of the job, or no job. */
function isOutdated(error: unknown): boolean {
  const code = toKubeFault(error)?.code;
  return code === "conflict" || code === "not_found";
}

async function forcePod(
  { calls, warn, forced }: Pick<ActDeps, "calls" | "warn" | "forced">,
  job: JobRow,
  { pod, uid, because }: Extract<JobStep, { kind: "force-pod" }>,
): Promise<void> {
  await removeByForce(calls, job.metadata.namespace, { name: pod, uid });
  forced(because);
  warn(job, "ForcedDeletePod", `pod ${pod} was removed by force: ${FORCE_DESCRIPTIONS[because]}`);
}

export type ForceReason = Extract<JobStep, { kind: "force-pod" }>["because"];

/** The reasons for a forced removal as text for people. */
export const FORCE_DESCRIPTIONS: Record<ForceReason, string> = {
  "machine-lost": "its machine is gone, or has been silent for too long",
  preempted: "its machine is taken for other work, and it has not ended within its grace",
};

/**
 * Announces the preemption to the program in the pod, which may write a checkpoint. Returns false if the pod has already ended, because its own end counts
 * then. Rejects with a conflict if the pod has changed since it was read, because it may have ended.
 */
async function announcePreemption({ calls }: Pick<ActDeps, "calls">, pod: V1Pod, nowMs: number): Promise<boolean> {
  const { namespace = "", name = "", uid } = pod.metadata ?? {};
  const pods = { apiVersion: "v1", plural: "pods", namespace };
  const present = await unlessMissing(calls.get<V1Pod>(pods, name));
  if (present?.metadata?.uid !== uid || present?.metadata?.annotations?.[annotations.preemptedAt] !== undefined)
    return true;
  if (present?.status?.phase === "Succeeded" || present?.status?.phase === "Failed") return false;
  const { resourceVersion } = present?.metadata ?? {};
  const announced = { [annotations.preemptedAt]: new Date(nowMs).toISOString() };
  await calls.patch(pods, name, { kind: "merge", body: { metadata: { resourceVersion, annotations: announced } } });
  return true;
}

/** Deletes exactly this pod, without waiting for its node. */
export async function removeByForce(
  calls: Pick<KubeCalls, "delete">,
  namespace: string,
  { name, uid }: { readonly name: string; readonly uid: string },
): Promise<void> {
  const options = { gracePeriodSeconds: 0, preconditions: { uid } };
  const pods = { apiVersion: "v1", plural: "pods", namespace };
  await unlessFault(calls.delete(pods, name, options), "not_found", "conflict");
}

async function createService(deps: ActDeps, { runtime, job, seen, signal }: ActContext, name: string): Promise<void> {
  const { kind, controller } = runtime;
  const { metadata, spec } = job;
  const owner = seen.wantedServices.get(name);
  if (owner === undefined || "problems" in spec) return;
  const service = toWireService(buildService({ kind, job: metadata, spec }, owner, deps.policy.keys));
  if (owner === "job") {
    const outcome = await controller.createService(job, service);
    if (outcome.did === "refused") throw new FaultError(outcome.fault);
    return;
  }
  settle(await controller.createMemberService(job, owner.type, service, signal));
}

async function createCompanions(
  deps: ActDeps,
  { runtime, job, seen }: Pick<ActContext, "runtime" | "job" | "seen">,
  names: readonly string[],
): Promise<void> {
  const { namespace } = job.metadata;
  const ownerReferences = [buildOwnerReference(runtime.kind, job.metadata)];
  const labels = buildJobLabels(runtime.kind.labelKeys, job.metadata);
  for (const each of names) {
    const companion = seen.companions.get(each);
    if (companion === undefined) continue;
    const { plural, ...object } = companion;
    const resource = { apiVersion: object.apiVersion, plural, namespace };
    const metadata = { ...object.metadata, namespace, labels: { ...labels }, ownerReferences };
    await createOwned(deps, job, resource, { ...object, metadata });
  }
}

/** Creates an object that the job owns. An existing object must belong to the job, from an earlier attempt. */
async function createOwned(
  { calls, warn }: ActDeps,
  job: JobRow,
  resource: KubeResource,
  object: KubeObject,
): Promise<void> {
  try {
    await calls.create(resource, object);
  } catch (error) {
    const fault = toKubeFault(error);
    if (fault?.code !== "already_exists") throw error;
    const name = object.metadata?.name ?? "";
    const there = await calls.get(resource, name);
    const isOurs = there.metadata?.ownerReferences?.some(({ uid }) => uid === job.metadata.uid) === true;
    if (isOurs) return;
    warn(job, `FailedCreate${object.kind ?? ""}`, `Error creating: ${name}: one of that name belongs to another owner`);
    throw new FaultError(fault);
  }
}

/** Throws if the API server refused a change, so that the pass is retried after a pause. */
function settle({ refused }: ChangeReport): void {
  const [first, ...others] = refused;
  if (first === undefined) return;
  throw new FaultError(first, { doing: `${others.length + 1} refusals, the first: ${describeFault(first)}` });
}
