import { forEachSome } from "@muster/backoff";
import { makeReconciler, type ObservedInput, type Reconcile, type ReconcileResult } from "@muster/controller";
import type { RejectionMemory } from "@muster/health";
import { toKubeFault } from "@muster/kube";
import type { BatchKind } from "@muster/names";
import { inSpan, buildContextOfIds } from "@muster/tracing";
import type { Crowding, Nodes } from "@muster/watch";
import { findPlaceSet, type BatchSnapshot } from "../../domain/batch/batch-job.ts";
import { listEmptyPlaces, listRejectedPods, listRunningPods } from "../../domain/batch/find-places.ts";
import { planBatchJob, type BatchPlan, type BatchPolicy, type BatchStep } from "../../domain/batch/plan-batch-job.ts";
import { runWhileLeading, type LeadCheck } from "../lead-check.ts";
import type { Queues } from "../follow-queues.ts";
import type { Machines } from "../machines.ts";
import { findReadyNodes } from "../observe.ts";
import { actOnBatchJob, type BatchActDeps } from "./act-batch-job.ts";
import { buildRowKey, buildRowOwnerId, type JobRow, type PodRow } from "./batch-rows.ts";
import type { BatchWorld } from "./follow-batch-jobs.ts";
import type { BatchReports } from "./report-batch-jobs.ts";

export type BatchPassDeps = Omit<BatchActDeps, "world" | "machines"> & {
  readonly world: BatchWorld;
  readonly machines: Readonly<Record<BatchKind, Machines>>;
  readonly queues: Pick<Queues, "choose" | "readyTimeoutOf">;
  readonly nodes: Pick<Nodes, "lostAmong" | "stateOf">;
  readonly crowding: Crowding;
  readonly rejectionsOf: RejectionMemory;
  readonly reports: BatchReports;
  readonly policy: BatchPolicy;
  readonly now: () => number;
};

type Seen = { readonly job: JobRow; readonly pods: readonly PodRow[]; readonly snapshot: BatchSnapshot };

/** A pass over stale caches, or over machines that pods still occupy, is retried after this time. */
const RETRY_MS = 1000;
const STALE_MS = 180_000;
/** Maximum number of pods of one Job that are bound concurrently. */
const MAX_POD_STEPS = 8;

/** Makes passes over batch Jobs, as long as this process leads. */
export function makeBatchReconcile(deps: BatchPassDeps, isHeld: LeadCheck): Reconcile {
  const { world, reports, policy } = deps;
  const act = runWhileLeading(isHeld, actOnBatchJob);
  return makeReconciler<Seen, BatchPlan>({
    tracer: "job-controller",
    observe: (key) => Promise.resolve(observeBatchJob(deps, key)),
    plan: ({ snapshot }) => planBatchJob(snapshot, policy),
    span: ({ job }, { steps }) =>
      steps.length === 0
        ? undefined
        : { name: "batch job pass", parent: contextOfJob(job), attributes: { "muster.job": buildRowKey(job) } },
    act: async (seen, { steps, wait, recheckInMs }): Promise<ReconcileResult | "again"> => {
      reports.waiting(seen.job, wait);
      const take = (step: BatchStep): Promise<boolean> =>
        inSpan("job-controller", step.kind, { attributes: { "muster.because": step.because } }, async () => {
          const isDone = await act(deps, seen, step).catch((error: unknown) => {
            const fault = toKubeFault(error);
            if (fault?.code === "invalid_request") reports.refused(seen.job, step, fault);
            throw error;
          });
          if (isDone) reports.done(seen.job, step);
          return isDone;
        });
      try {
        const taken = await takeAll(steps, take);
        return taken ?? (recheckInMs === undefined ? {} : { requeueAfterMs: recheckInMs });
      } catch (error) {
        // The next pass plans from the cached version, because the API server contradicts the version that this process wrote.
        if (toKubeFault(error)?.code === "conflict") world.forgetWrites(buildRowKey(seen.job), seen.pods);
        throw error;
      }
    },
  });
}

export type ObserveDeps = Pick<
  BatchPassDeps,
  "world" | "machines" | "queues" | "nodes" | "crowding" | "rejectionsOf" | "now"
>;

/** Observes the work with this key. Returns no snapshot if the work has no pass of its own, or if its caches are too old. */
export function observeBatchJob(
  { world, machines, queues, nodes, crowding, rejectionsOf, now }: ObserveDeps,
  key: string,
): ObservedInput<Seen> {
  const job = world.job(key);
  // The Jobs of a JobSet belong to the gang of the JobSet.
  if (job === undefined || job.parent !== undefined) return {};
  if (!world.isComplete(job.kind) || world.ageMs(job.kind) > STALE_MS) return { requeueAfterMs: RETRY_MS };
  const pods = world.podsOf(job);
  const ownerId = buildRowOwnerId(job);
  const units = machines[job.kind].unitsOf(ownerId);
  const gang = units.find(({ id }) => id === ownerId);
  const grantedBy = gang?.state === "granted" ? gang.queue : undefined;
  const nowMs = now();
  const occupied = new Set(
    listRunningPods({ pods }).flatMap(({ place, scheduled }) => (scheduled ? (place ?? []) : [])),
  );
  const granted = units.flatMap((unit) => (unit.state === "granted" ? [...unit.nodes] : []));
  const known = world.workOf(job);
  const tolerated = new Map(
    known.sets.map(({ name, need }) => [name, "problems" in need ? [] : (need.selection?.tolerations ?? [])]),
  );
  const tolerations = new Map(granted.map(([place, node]) => [node, tolerated.get(findPlaceSet(place)) ?? []]));
  const about = { nowMs, occupied, tolerations };
  const crowded = crowding(job.uid, listEmptyPlaces({ job: known, units, pods }), nowMs);
  const rejections = rejectionsOf(job.uid, listRejectedPods(pods), nowMs);
  const snapshot: BatchSnapshot = {
    nowMs,
    job: known,
    pods,
    units,
    queue: queues.choose(job.labels, job.namespace),
    priority: world.priorityOf(job.priorityClasses),
    readyTimeoutMs: grantedBy === undefined ? undefined : queues.readyTimeoutOf(grantedBy),
    nodesLost: [...nodes.lostAmong(new Set(tolerations.keys()), about).keys()],
    ...(crowded.length > 0 && { crowded }),
    ...(rejections.length > 0 && { rejections }),
    ...findReadyNodes(nodes, { units, nowMs }, occupied),
  };
  return { seen: { job, pods, snapshot } };
}

/**
 * Takes the steps of the Job in order, then the steps of its pods. A deleted pod is not observed again before the cache shows its deletion. Returns undefined
 * if no pass is due before the next change.
 */
async function takeAll(
  steps: readonly BatchStep[],
  take: (step: BatchStep) => Promise<boolean>,
): Promise<ReconcileResult | "again" | undefined> {
  const ofPods = steps.filter((step) => "pod" in step);
  let isChanged = false;
  for (const step of steps) if (!("pod" in step)) isChanged = (await take(step)) || isChanged;
  const failures: unknown[] = [];
  await forEachSome(
    ofPods,
    MAX_POD_STEPS,
    async (step) => {
      isChanged = (await take(step)) || isChanged;
    },
    (_step, error) => failures.push(error),
  );
  if (failures.length > 0) throw failures[0];
  if (steps.every(({ kind }) => kind === "force-pod")) return undefined;
  return isChanged && !steps.some(({ kind }) => kind === "delete-pod") ? "again" : { requeueAfterMs: RETRY_MS };
}

/** Returns the trace context, which is equal in every process. */
function contextOfJob({ uid }: JobRow): ReturnType<typeof buildContextOfIds> {
  const traceId = uid.replaceAll("-", "");
  return buildContextOfIds({ traceId, spanId: traceId.slice(16) });
}
