import { makeClient, type NatsBus } from "@muster/bus";
import { makeEventRecorder, makeKubeCalls, loadServiceKube, type KubeCalls } from "@muster/kube";
import { makeExplainCalls, openLedgerClient, type ReservationCalls } from "@muster/ledger-client";
import { buckets, labels, ReservationService } from "@muster/proto";
import type { ServiceContext } from "@muster/service";
import { readInstallationId, openBucket } from "@muster/store";
import { openNodes } from "@muster/watch";
import { findFollowedNamespace, type Config } from "../config.ts";
import { getUnitOwnerId } from "../domain/build-units.ts";
import type { Kind } from "../domain/kind.ts";
import { buildJobKey } from "../domain/ownership.ts";
import { makeJobHandlers } from "./job-handlers.ts";
import { openBatchJobs, type BatchJobs } from "./batch/batch-jobs.ts";
import type { UnservedJob } from "../domain/plan-unserved-events.ts";
import { openUnservedJobs, type UnservedJobs } from "./unserved-jobs.ts";
import { gatherEvents, type RecordEvent } from "./gather-events.ts";
import type { LeadCheck } from "./lead-check.ts";
import { followKinds } from "./follow-kinds.ts";
import { openQueues, type Queues } from "./follow-queues.ts";
import type { KindRuntime } from "./kind-runtime.ts";
import { makeMachines, OWNER_KIND, type Machines, type MachinesDeps } from "./machines.ts";
import { openMemberLogs } from "./member-log.ts";
import { makePasses, type MakeReconcile } from "./passes.ts";
import { mirrorQueues, queueCodec, type QueueBucket } from "./mirror-queues.ts";
import { openPodGroups } from "./pod-groups.ts";
import { makeQueueReports } from "./report-queues.ts";
import { makeServedJobs } from "./served-jobs.ts";
import { sweepJobs, reportOnce } from "./sweep.ts";
import { openWorld, type World } from "./world.ts";

/** The dependencies of the parts of the service. */
export type Deps = AsyncDisposable & {
  readonly calls: KubeCalls;
  readonly world: World;
  readonly machines: Machines;
  readonly queues: Pick<Queues, "changes" | "isRefused">;
  /** Undefined if the configuration excludes batch Jobs. */
  readonly batchJobs: Pick<BatchJobs, "run" | "refused"> | undefined;
  /** Makes the bucket of queues equal to the Queues of the cluster. */
  readonly mirrorQueues: (isHeld: LeadCheck) => Promise<void>;
  /** Writes the status of queues, and removes the finalizer of empty queues that are being deleted. */
  readonly reportQueues: (isHeld: LeadCheck) => Promise<void>;
  /** Answers users. */
  readonly answers: ReturnType<typeof makeJobHandlers>;
  /** Kinds that the API server serves. */
  readonly runtimes: () => readonly KindRuntime[];
  /** Kinds that the API server served earlier and serves no longer. */
  readonly kindsGone: () => readonly string[];
  /** Kinds that the controller has no right to read. */
  readonly kindsRefused: () => readonly Kind[];
  /** Kinds that are not known to be installed or missing. */
  readonly kindsUnknown: () => readonly Kind[];
  /** Kinds that may have jobs outside every cache. */
  readonly kindsUnread: () => readonly Kind[];
  /** Watches installed kinds and stops watching uninstalled ones; returns the missing kinds. */
  readonly discover: () => Promise<readonly Kind[]>;
  readonly reconcileOf: MakeReconcile;
  /** Scans other namespaces for jobs; `mayReport` is true if this replica leads. */
  readonly scanElsewhere: UnservedJobs["scan"];
  /** Releases the units of deleted jobs in the ledger. */
  readonly sweep: () => Promise<void>;
  /** Describes the cache that is too old; undefined if all are fresh. */
  readonly staleness: () => string | undefined;
};

const STALE_MS = 180_000;
const COMPONENT = "muster-job-controller";

/** Opens the service's dependencies. Only this module knows the implementation of each. */
export async function openDeps(context: ServiceContext<Config>, bus: NatsBus): Promise<Deps> {
  const { config, logger } = context;
  const kube = loadServiceKube(context, config.kube.kubeconfig);
  const installation = await readInstallationId(bus.connection);
  await using undo = new AsyncDisposableStack();
  const { maxInFlight, timeoutMs, namespace } = config.kube;
  const followed = findFollowedNamespace(config.kube);
  const calls = undo.use(makeKubeCalls(kube, { timeoutMs, maxInFlight }));
  const world = undo.use(openWorld(kube, context));
  const runtimes = keepRuntimes(undo);
  const gone = new Set<string>();
  const known = {
    runtimes: () => [...runtimes.values()],
    kindsGone: () => [...gone],
    kindsRefused: () => kinds.refused(),
    kindsUnknown: () => kinds.unknown(),
    kindsUnread: () => kinds.unread(),
  };
  const nodes = undo.use(await followNodes(context, bus));
  const ledger = makeClient(bus, ReservationService);
  const machines = await openLedger(undo, { bus, calls: ledger }, runtimes);
  const ofQueues = openQueuesFor(undo, { kube, calls, config, logger }, makeWakeAllJobs(runtimes));
  const { queues } = ofQueues;
  const queueWork = openQueueWork({ queues, calls, ledger, bus });
  const { recordEvent, reportUnserved, recordBatchEvent } = openEvents(undo, context, calls);
  const ofBatch = { context, kube, calls, bus, ledger, queues, nodes, installation, recordEvent: recordBatchEvent };
  const batchJobs = config.batchJobs === "none" ? undefined : undo.use(await openBatchJobs(ofBatch));
  if (batchJobs !== undefined) ofQueues.alsoWake(batchJobs.wakeAll);
  const groups = undo.use(openPodGroups({ kube, calls, namespace: followed, logger, changed: namedAs(runtimes) }));
  const logs = undo.use(openMemberLogs(kube));
  const served = makeServedJobs({ kube: config.kube, queues, machines, world });
  const { servesNamespace } = served;
  const scanning = { calls, namespace, servesNamespace, runtimes: known.runtimes, now: Date.now };
  const elsewhere = openUnservedJobs({ ...scanning, report: reportUnserved });
  const asked = { asking: makeExplainCalls(bus), logs, config, calls, world, machines, elsewhere, served };
  const answering = makeJobHandlers({ ...asked, queues, batchJobs, ...known });
  notifyOwners(world, answering.changed);
  const following = { context, kube, calls, world, recordEvent, runtimes, gone, jobChanged: answering.changed };
  const kinds = followKinds(following);
  const reportPodsLeft = reportOnce((left) =>
    logger.warn(left, "a pod has outlived its job and keeps machines: delete it"),
  );
  const passing = { calls, world, groups, machines, queues, nodes, served, installation, recordEvent };
  const opened = undo.move();
  return {
    calls,
    world,
    machines,
    queues,
    batchJobs,
    ...queueWork,
    answers: answering,
    ...known,
    discover: async () => {
      // Groups must be known before the first pass, because only the creation of a pod can set its marks.
      await groups.discover();
      return discoverBoth(queues, kinds);
    },
    scanElsewhere: elsewhere.scan,
    reconcileOf: makePasses(context, passing),
    sweep: async () => {
      const seen = { machines, nodes, world, runtimes: [...runtimes.values()], kindsUnread: kinds.unread() };
      reportPodsLeft(await sweepJobs({ calls, kube: config.kube, logger, ...seen }));
    },
    staleness: () => describeAge(world, known),
    [Symbol.asyncDispose]: () => opened[Symbol.asyncDispose](),
  };
}

/** A kind that the controller may not read never becomes fresh, and must not block the other kinds. */
function describeAge(
  world: Pick<World, "ageMs">,
  { runtimes, kindsRefused }: Pick<Deps, "runtimes" | "kindsRefused">,
): string | undefined {
  const refused = new Set(kindsRefused());
  const read = runtimes().filter(({ kind }) => !refused.has(kind));
  const ageMs = Math.max(world.ageMs(), ...read.map(({ jobs }) => jobs.ageMs()));
  return ageMs > STALE_MS ? `the API server last answered ${Math.round(ageMs)} ms ago` : undefined;
}

function followNodes({ config, logger }: ServiceContext<Config>, bus: NatsBus): ReturnType<typeof openNodes> {
  return openNodes(bus.connection, {
    lostAfterMs: config.nodeLostMs,
    onProblem: (error, retryInMs) => logger.warn({ err: error, retryInMs }, "following nodes is interrupted"),
  });
}

function notifyOwners({ pods }: Pick<World, "pods">, changed: (ownerId: string) => void): void {
  pods.onChange(({ before, after }) => {
    const owner = (after ?? before)?.metadata?.labels?.[labels.owner];
    if (owner !== undefined) changed(owner);
  });
}

/** Opens the view of the jobs' reservations; a change of a reservation wakes its job. */
async function openLedger(
  undo: AsyncDisposableStack,
  { bus, calls }: { readonly bus: NatsBus; readonly calls: ReservationCalls },
  runtimes: Runtimes,
): Promise<Machines> {
  const elapsedMs = (): number => performance.now();
  const known = { bus, calls, ownerKind: OWNER_KIND, groupOf: getUnitOwnerId, elapsedMs };
  const ledger = undo.use(await openLedgerClient(known));
  return makeMachines({ ledger, calls, now: Date.now, elapsedMs, ...wakers(runtimes) });
}

/** Opens the events of jobs; the stack disposes of them. */
function openEvents(
  undo: AsyncDisposableStack,
  { config, logger, instance }: ServiceContext<Config>,
  calls: KubeCalls,
): {
  readonly recordEvent: RecordEvent;
  readonly reportUnserved: (job: UnservedJob) => void;
  readonly recordBatchEvent: Parameters<typeof openBatchJobs>[0]["recordEvent"];
} {
  const events = undo.use(
    makeEventRecorder({
      calls,
      component: COMPONENT,
      instance,
      onDropped: (count) => logger.warn({ count }, "events were lost because too many waited"),
      onError: (error) => logger.warn({ err: error }, "an event was given up"),
    }),
  );
  const gathering = undo.use(
    gatherEvents((job, type, reason, message) => {
      const { namespace, name, uid } = job.metadata;
      const apiVersion = `${job.kind.group}/${job.kind.version}`;
      events.record({ apiVersion, kind: job.kind.kind, name, namespace, uid }, { type, reason, message });
    }),
  );
  return {
    recordEvent: gathering.record,
    recordBatchEvent: events.record,
    reportUnserved: (job) => {
      const message = describeUnserved(job.namespace, config.kube);
      logger.warn(
        { job: `${job.namespace}/${job.name}`, kind: job.kind },
        "a job is in a namespace that is not served",
      );
      events.record(job, { type: "Warning", reason: "NamespaceNotServed", message });
    },
  };
}

function describeUnserved(unserved: string, { namespace, jobNamespaces }: Config["kube"]): string {
  const head = `no controller serves the namespace ${unserved}: Muster runs the jobs of ${namespace}`;
  if (jobNamespaces === "own") return `${head}; create the job there`;
  return `${head} and of namespaces that a queue serves; select it in the spec.namespaceSelector of a queue without queues below it`;
}

type Runtimes = Map<string, KindRuntime>;

/** Holds the runtimes of the followed kinds by name of the kind; the stack disposes of them. */
function keepRuntimes(undo: AsyncDisposableStack): Runtimes {
  const runtimes: Runtimes = new Map();
  undo.defer(async () => {
    await Promise.all([...runtimes.values()].map((runtime) => runtime[Symbol.asyncDispose]()));
  });
  return runtimes;
}

/** Returns a function that wakes the jobs of a name, because budgets and groups have the name of their job. */
function namedAs(runtimes: Runtimes): (key: string) => void {
  return (key) => {
    for (const runtime of runtimes.values()) if (runtime.job(key) !== undefined) runtime.wake(key);
  };
}

type QueueWorkDeps = {
  readonly queues: Queues;
  readonly calls: KubeCalls;
  readonly ledger: ReservationCalls;
  readonly bus: NatsBus;
};

function openQueueWork({ queues, calls, ledger, bus }: QueueWorkDeps): Pick<Deps, "mirrorQueues" | "reportQueues"> {
  const mirroring = { queues, calls, openBucket: openQueueBucket(bus) };
  return {
    mirrorQueues: (isHeld) => mirrorQueues(mirroring, isHeld),
    reportQueues: makeQueueReports({ queues, calls, ledger, now: Date.now, elapsedMs: () => performance.now() }),
  };
}

/** Opens the queues of jobs, and of batch Jobs if the configuration includes them: a change wakes both. */
function openQueuesFor(
  undo: AsyncDisposableStack,
  {
    config,
    ...deps
  }: Pick<Parameters<typeof openQueues>[0], "kube" | "calls" | "logger"> & { readonly config: Config },
  wakeJobs: () => void,
): { readonly queues: Queues; readonly alsoWake: (wake: () => void) => void } {
  const wakers = [wakeJobs];
  const changed = (): void => {
    for (const wake of wakers) wake();
  };
  const hasOtherNamespaces = config.batchJobs === "all" || config.kube.jobNamespaces === "all";
  const queues = undo.use(openQueues({ ...deps, namespace: config.kube.namespace, hasOtherNamespaces, changed }));
  return { queues, alsoWake: (wake) => void wakers.push(wake) };
}

/** Discovers queues and kinds. A failed check of queues does not prevent the check of kinds. */
async function discoverBoth(queues: Queues, kinds: ReturnType<typeof followKinds>): Promise<readonly Kind[]> {
  const [ofQueues] = await Promise.allSettled([queues.discover()]);
  const missing = await kinds.discover();
  if (ofQueues.status === "rejected") throw ofQueues.reason;
  return missing;
}

/** Opens the bucket at its first use, and retries after a failure. */
function openQueueBucket(bus: NatsBus): () => Promise<QueueBucket> {
  let opening: Promise<QueueBucket> | undefined;
  return () => {
    opening ??= openBucket(bus.connection, { name: buckets.queues, codec: queueCodec }).catch((error: unknown) => {
      opening = undefined;
      throw error;
    });
    return opening;
  };
}

/** Returns a function that wakes every job with low priority, so that changed jobs come first. */
function makeWakeAllJobs(runtimes: Runtimes): () => void {
  return () => {
    for (const { jobs, wake } of runtimes.values()) for (const job of jobs.list()) wake(buildJobKey(job), "low");
  };
}

/** Returns functions that wake the jobs of changed units. */
function wakers(runtimes: Runtimes): Pick<MachinesDeps, "changed" | "listed"> {
  return {
    changed: (ownerId) => {
      for (const { jobs, wake } of runtimes.values())
        for (const job of jobs.byIndex("ownerId", ownerId)) wake(buildJobKey(job));
    },
    listed: makeWakeAllJobs(runtimes),
  };
}
