import { connectService, serveMethods } from "@muster/bus";
import { runController, runPeriodically, type ControllerLead, type PeriodicWork } from "@muster/controller";
import { JobService } from "@muster/proto";
import { holdLogger, type ServiceContext } from "@muster/service";
import { runWhileLeader, type Leadership } from "@muster/store";
import { openDeps, type Deps } from "./adapters/deps.ts";
import type { KindRuntime } from "./adapters/kind-runtime.ts";
import { makeFailureLog } from "./adapters/log-failure.ts";
import { describePassError } from "./adapters/passes.ts";
import { REPORT_EVERY_MS } from "./adapters/report-queues.ts";
import type { Config } from "./config.ts";
import { JOB_KIND } from "./domain/kind-job.ts";

/** The limit per method is high, because most requests are long polls, which cost little while they wait. */
const MAX_CONCURRENT_REQUESTS = 2048;
/** A pass over a stale cache is retried after this time. */
const STALE_RETRY_MS = 1000;
/** A newly installed kind is run after this time at the latest. */
const BEGIN_EVERY_MS = 1000;
/** Maximum interval between comparisons of the bucket of queues with the Queues; each change of a Queue triggers one earlier. */
const MIRROR_EVERY_MS = 15_000;
/** The service is not ready unless the API server serves Muster's own kind. */
const OWN_MISSING = `the CustomResourceDefinition ${JOB_KIND.plural}.${JOB_KIND.group} is not installed: kubectl apply --server-side -f deploy/crds/muster.dev_jobs.yaml`;
const OWN_UNKNOWN = "the API server has not answered yet which kinds of job it has";
const OWN_REFUSED = `there is no right to list ${JOB_KIND.plural}.${JOB_KIND.group}: deploy/kubernetes/job-controller.yaml grants it, with JOB_NAMESPACES=all job-namespaces.yaml`;

/** Follows jobs until it is stopped, and runs them while this replica leads. Other replicas keep warm caches. */
export async function run(context: ServiceContext<Config>): Promise<void> {
  const { config, logger, signal, instance } = context;
  await using bus = await connectService(context);
  await using deps = await openDeps(context, bus);
  await using _server = await serveMethods(bus, JobService, deps.answers, {
    version: context.version,
    description: "Runs gang jobs: machines for all of their pods, or none.",
    concurrency: MAX_CONCURRENT_REQUESTS,
    onDefect: (method, error) => {
      logger.error({ method, err: error }, "defect");
    },
  });
  context.readyWhen("kinds", () => {
    if (deps.runtimes().some(({ kind }) => kind.kind === JOB_KIND.kind))
      return deps.staleness() ?? describeMissing(deps);
    if (deps.kindsUnknown().includes(JOB_KIND)) return OWN_UNKNOWN;
    return deps.kindsRefused().includes(JOB_KIND) ? OWN_REFUSED : OWN_MISSING;
  });
  const reportedMissing = new Set<string>();
  let leading: Leadership | undefined;
  const scanElsewhere = (): Promise<void> => deps.scanElsewhere(leading?.isHeld() === true);
  await Promise.all([
    repeat(context, { name: "job-namespaces", everyMs: config.refreshMs, work: scanElsewhere, stop: signal }),
    repeat(context, {
      name: "job-kinds",
      everyMs: config.discoverMs,
      work: () => discover(context, deps, reportedMissing),
      stop: signal,
    }),
    repeat(context, {
      name: "job-ledger",
      everyMs: config.refreshMs,
      work: () => deps.machines.refresh(signal),
      stop: signal,
    }),
    runWhileLeader(
      bus.connection,
      {
        lock: "job-controller",
        holder: instance,
        ttlMs: config.lockTtlMs,
        signal,
        onChange: holdLogger(logger, "leadership of the jobs"),
        onProblem: (error) => logger.warn({ err: error }, "cannot acquire the free lock of the jobs"),
      },
      (leadership) => {
        leading = leadership;
        return runKinds(context, deps, leadership);
      },
    ),
  ]);
}

/** Other kinds may be missing or unreadable by choice; /readyz notes them. */
function describeMissing({ kindsGone, kindsRefused, queues, batchJobs }: Deps): { readonly note: string } | undefined {
  const gone = kindsGone();
  const refused = kindsRefused().map(({ plural, group }) => `${plural}.${group}`);
  const ofBatch = batchJobs?.refused();
  const notes = [
    ...(ofBatch === undefined ? [] : [`no right to list for batch Jobs: ${ofBatch}`]),
    ...(gone.length === 0 ? [] : [`not installed any more: ${gone.join(", ")}`]),
    ...(refused.length === 0 ? [] : [`no right to read: ${refused.join(", ")}`]),
    ...(queues.isRefused() ? ["no right to read queues and namespaces: jobs have no queues"] : []),
  ];
  return notes.length === 0 ? undefined : { note: notes.join("; ") };
}

/** Runs the controllers of all kinds, including later installed ones, and sweeps, until the lead is lost. */
async function runKinds(context: ServiceContext<Config>, deps: Deps, leadership: Leadership): Promise<void> {
  const { config, logger, signal } = context;
  // The former leader may have released machines, and its notification may have been lost.
  deps.machines.invalidate();
  // The former leader has recorded the ends that it observed.
  using _ends = deps.world.rememberEnds();
  const running = new Map<KindRuntime, Promise<void>>();
  const failed = Promise.withResolvers<never>();
  const cut = new AbortController();
  const lost = AbortSignal.any([leadership.lost, cut.signal]);
  const { isHeld } = leadership;
  const batchJobs = deps.batchJobs?.run({ lost, isHeld }, signal) ?? Promise.resolve();
  batchJobs.catch(failed.reject);
  const begin = (): Promise<void> => {
    for (const runtime of deps.runtimes()) {
      if (running.has(runtime)) continue;
      const ended = runKind(context, deps, runtime, { lost, isHeld }).catch((error: unknown) => {
        // A kind that was uninstalled before its first list was complete has no jobs to run.
        if (!runtime.ended.aborted) throw error;
      });
      ended.catch(failed.reject);
      running.set(runtime, ended);
    }
    return Promise.resolve();
  };
  const stop = AbortSignal.any([signal, lost]);
  const working = Promise.all([
    repeat(context, { name: "job-begin-kinds", everyMs: BEGIN_EVERY_MS, work: begin, stop }),
    // The loop that every replica runs retries this refresh after a failure.
    deps.machines.refresh(stop).catch((error: unknown) => {
      if (!stop.aborted) logger.warn({ err: error }, "the ledger does not answer; the next refresh asks it again");
    }),
    repeat(context, {
      name: "job-queues",
      everyMs: MIRROR_EVERY_MS,
      work: () => deps.mirrorQueues(isHeld),
      rest: (ms, signalled) => deps.queues.changes.wait(ms, signalled),
      stop,
    }),
    repeat(context, {
      name: "job-queue-status",
      everyMs: REPORT_EVERY_MS,
      work: () => deps.reportQueues(isHeld),
      stop,
    }),
    repeat(context, {
      name: "job-sweep",
      everyMs: config.refreshMs,
      work: async () => {
        if (deps.world.isComplete() && isHeld()) await deps.sweep();
      },
      stop,
    }),
  ]);
  try {
    await Promise.race([failed.promise, working]);
  } finally {
    // This function's return releases the lock, so every pass and the sweep must have ended before.
    if (!stop.aborted) cut.abort(new DOMException("a kind has failed", "AbortError"));
    await working;
    await Promise.allSettled([...running.values(), batchJobs]);
  }
  await Promise.all([...running.values(), batchJobs]);
}

function runKind(
  context: ServiceContext<Config>,
  deps: Deps,
  runtime: KindRuntime,
  lead: ControllerLead,
): Promise<void> {
  const { config, logger, signal } = context;
  const reconcile = deps.reconcileOf(runtime, lead.isHeld);
  return runController({
    name: runtime.kind.kind,
    queue: runtime.newQueue(),
    workers: config.workers,
    synced: [deps.world.synced, runtime.jobs.synced],
    resync: runtime.controller.resync,
    stop: AbortSignal.any([signal, runtime.ended]),
    lead,
    reconcile: async (key, passSignal) => {
      // No decision may rely on a cache that is too old.
      const isRefused = deps.kindsRefused().includes(runtime.kind);
      if (isRefused || deps.staleness() !== undefined) return { requeueAfterMs: STALE_RETRY_MS };
      return reconcile(key, passSignal);
    },
    onError: (error, key, failures) => {
      const reason = describePassError(error);
      const level = reason === "defect" ? "error" : "warn";
      logger[level]({ job: key, kind: runtime.kind.kind, failures, err: error }, "a pass failed and is retried");
    },
  });
}

async function discover({ logger }: ServiceContext<Config>, deps: Deps, reported: Set<string>): Promise<void> {
  const missing = await deps.discover();
  for (const { kind, group } of missing) {
    if (reported.has(kind)) continue;
    reported.add(kind);
    logger.info({ kind, group }, "this kind of job is not installed; the controller checks for it regularly");
  }
  for (const kind of reported) {
    if (missing.some((each) => each.kind === kind)) continue;
    reported.delete(kind);
    logger.info({ kind }, "this kind of job is installed; its jobs run from now on");
  }
}

/** Works immediately and then once per period, even after failures. */
function repeat({ logger }: ServiceContext<Config>, work: Omit<PeriodicWork, "onError">): Promise<void> {
  return runPeriodically({ ...work, onError: makeFailureLog(logger, work.name) });
}
