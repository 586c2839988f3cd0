import type { ObservedInput, Reconcile } from "@muster/controller";
import { describeFault } from "@muster/faults";
import { toKubeFault, type KubeCalls } from "@muster/kube";
import { annotations, labels } from "@muster/proto";
import { makeRejectionMemory } from "@muster/health";
import { openCrowding, type Nodes } from "@muster/watch";
import type { ServiceContext } from "@muster/service";
import type { Config } from "../config.ts";
import type { JobStatus } from "../domain/job-status.ts";
import { isEndRecorded } from "../domain/is-end-recorded.ts";
import { JOB_KIND } from "../domain/kind-job.ts";
import { buildJobKey } from "../domain/ownership.ts";
import { makeReconcile } from "../reconcile.ts";
import { executeStep, type ActDeps } from "./act.ts";
import { runWhileLeading, type LeadCheck } from "./lead-check.ts";
import type { Queues } from "./follow-queues.ts";
import type { RecordEvent } from "./gather-events.ts";
import type { KindRuntime } from "./kind-runtime.ts";
import type { Machines } from "./machines.ts";
import { countForced } from "./metrics.ts";
import { observeJob, type Observation, type ObserveDeps } from "./observe.ts";
import type { PodGroups } from "./pod-groups.ts";
import { buildJobPlace } from "./read-job.ts";
import { makePassReports } from "./report-passes.ts";
import type { ServedJobs } from "./served-jobs.ts";
import { runInStepSpan, buildPassSpan } from "./trace.ts";
import type { World } from "./world.ts";
import { writeStatus } from "./write-status.ts";

type PassWorld = {
  readonly calls: KubeCalls;
  readonly world: World;
  readonly groups: PodGroups;
  readonly machines: Machines;
  readonly queues: Pick<Queues, "choose" | "readyTimeoutOf">;
  readonly nodes: Nodes;
  readonly served: ServedJobs;
  /** The id of this installation. */
  readonly installation: string;
  readonly recordEvent: RecordEvent;
};

/** Makes passes over the jobs of one kind while this process leads. */
export type MakeReconcile = (runtime: KindRuntime, isHeld: LeadCheck) => Reconcile;

/** Builds the reconciler of jobs: observes, plans, acts and writes the status. */
export function makePasses(context: ServiceContext<Config>, passWorld: PassWorld): MakeReconcile {
  const { config, logger } = context;
  const { calls, recordEvent, world, served } = passWorld;
  const observing = observeDeps(config, passWorld);
  const acting = actDeps(config, passWorld);
  const policy = { ...config.policy, statusEveryMs: config.statusEveryMs, maxPostponeMs: config.maxPostponeMs };
  const onDropped = makeDropWarning(logger);
  const { reportStatus, planned, failed } = makePassReports(recordEvent, logger, config.policy);
  return (runtime, isHeld) => {
    // Maps observations to the versions that their rounds have written.
    const written = new WeakMap<Observation, string>();
    const checks = new WeakMap<Observation, Promise<void>>();
    const versionOf = (seen: Observation): string | undefined => written.get(seen) ?? seen.job.metadata.resourceVersion;
    const write = async (seen: Observation, status: JobStatus, signal: AbortSignal): Promise<"written" | "gone"> => {
      const { job } = seen;
      signal.throwIfAborted();
      const place = buildJobPlace(runtime.kind, job.metadata);
      const answer = await writeStatus({ calls, onDropped }, place, job, status).catch((error: unknown) => {
        const isConflict = toKubeFault(error)?.code === "conflict";
        if (isConflict) runtime.recordStale(buildJobKey(job), job.metadata.resourceVersion);
        throw error;
      });
      if (answer === undefined) return "gone";
      runtime.recordWrite(answer);
      written.set(seen, answer.metadata.resourceVersion ?? "");
      reportStatus(job, status);
      return "written";
    };
    return makeReconcile<Observation>(
      {
        observe: async (key): Promise<ObservedInput<Observation>> => {
          const job = runtime.job(key);
          if (job === undefined) {
            // A step of an earlier pass may have recorded the job as stale after its deletion.
            runtime.forgetStale(key);
            return {};
          }
          // Another controller may serve the namespace of the job. A change of the queues wakes every job.
          if (!served.serves(job)) {
            world.ends.forgetJob(job.metadata.uid);
            return {};
          }
          const waitMs = runtime.staleForMs(key, job.metadata.resourceVersion);
          if (waitMs !== undefined) return { requeueAfterMs: waitMs };
          return { seen: await observeJob(observing, runtime, job) };
        },
        span: ({ job }) => buildPassSpan(job),
        act: async (seen, step, signal) => {
          signal.throwIfAborted();
          const { job } = seen;
          const version = versionOf(seen);
          await runInStepSpan(job, step, () =>
            executeStep(acting, { runtime, job, seen, version, signal, isHeld, checks }, step),
          );
        },
        // A frozen process may continue here before it notices that it lost the lead.
        writeStatus: runWhileLeading(isHeld, write),
        recorded: ({ job, ends, snapshot }, status) => {
          const recorded = ends.filter(({ pod }) => isEndRecorded(pod, snapshot.spec, status));
          world.ends.forget(
            job.metadata.uid,
            recorded.map(({ pod }) => pod.uid),
          );
          // No other event wakes the job to recreate these members.
          if (recorded.some(({ isGone }) => isGone)) runtime.wake(buildJobKey(job));
        },
        staleForMs: (seen) => runtime.staleForMs(buildJobKey(seen.job), versionOf(seen)),
        planned,
        failed,
        wakeAfter: runtime.wakeAfter,
      },
      policy,
    );
  };
}

function observeDeps(config: Config, { calls, machines, queues, world, groups, nodes }: PassWorld): ObserveDeps {
  return {
    calls,
    machines,
    budgetOf: world.budgetOf,
    groupsOf: groups.groupsOf,
    podNamed: (namespace, name) => world.pods.get(`${namespace}/${name}`),
    podsMadeFor: (ownerId) => world.pods.byIndex("owner", ownerId),
    lostAmong: nodes.lostAmong,
    usableAmong: nodes.usableAmong,
    stateOf: nodes.stateOf,
    podDefaults: world.podDefaults,
    crowding: openCrowding(nodes, config.policy.replacementWaitMs),
    rejectionsOf: makeRejectionMemory(),
    endsOf: world.ends.of,
    queueOf: queues.choose,
    readyTimeoutOf: queues.readyTimeoutOf,
    defaults: config.defaults,
    now: Date.now,
  };
}

function actDeps(config: Config, { calls, machines, installation, recordEvent }: PassWorld): ActDeps {
  return {
    calls,
    machines,
    policy: {
      keys: { labels, annotations },
      installation,
      defaults: config.defaults,
      schedulingGates: [],
      gangScheduling: config.policy.gangScheduling,
    },
    warn: (job, reason, message) => recordEvent(job, "Warning", reason, message),
    forced: countForced(),
  };
}

/** Warns once per process, because all jobs have the same definition. */
function makeDropWarning(logger: ServiceContext<Config>["logger"]): () => void {
  let isReported = false;
  return () => {
    if (isReported) return;
    isReported = true;
    const message =
      "the API server drops a part of the status: its definition is older, and annotations keep that part";
    logger.warn({ definition: `${JOB_KIND.plural}.${JOB_KIND.group}` }, message);
  };
}

/** Formats the error of a failed pass for logs. */
export function describePassError(error: unknown): string {
  if (error instanceof AggregateError) {
    const all = error.errors.map(describePassError);
    return all.includes("defect") ? "defect" : all.join("; ");
  }
  const fault = toKubeFault(error);
  return fault === undefined ? "defect" : describeFault(fault);
}
