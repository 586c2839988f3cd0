import type { KubeConfig } from "@kubernetes/client-node";
import { makeBell } from "@muster/backoff";
import type { NatsBus } from "@muster/bus";
import { runController, runPeriodically, workQueue, type ControllerLead } from "@muster/controller";
import type { KubeCalls } from "@muster/kube";
import { openLedgerClient, type ExplainCalls, type ReservationCalls } from "@muster/ledger-client";
import { BATCH_JOB, BATCH_KINDS, JOB_SET, QUEUED_POD, type BatchKind } from "@muster/names";
import type { muster } from "@muster/proto";
import type { ServiceContext } from "@muster/service";
import { makeRejectionMemory } from "@muster/health";
import { openCrowding, type Nodes } from "@muster/watch";
import type { Config } from "../../config.ts";
import { getUnitOwnerId } from "../../domain/build-units.ts";
import type { Queues } from "../follow-queues.ts";
import { makeFailureLog } from "../log-failure.ts";
import { makeMachines, type Machines } from "../machines.ts";
import { countForced, countRequeued } from "../metrics.ts";
import { makeBatchReconcile, type BatchPassDeps } from "./batch-passes.ts";
import { buildRowKey, type JobRow } from "./batch-rows.ts";
import { explainBatchAnswer, type BatchOwner } from "./explain-batch-answer.ts";
import { followBatchJobs, type BatchWorld } from "./follow-batch-jobs.ts";
import { makeBatchReports, type BatchReports } from "./report-batch-jobs.ts";
import { sweepBatchJobs } from "./sweep-batch-jobs.ts";

/** Work of Kubernetes that has a queue: Jobs of the API group `batch`, JobSets and pods. */
export type BatchJobs = AsyncDisposable & {
  /** Reconciles the work until this process loses the lead or the service stops. */
  run(lead: ControllerLead, signal: AbortSignal): Promise<void>;
  /** Wakes all Jobs, because the queue of any of them may have changed. */
  wakeAll(): void;
  /** Describes the lists that the service may not read. */
  refused(): string | undefined;
  /** Explains why work waits, also without a request in the ledger. Rejects with FaultError. */
  explain(calls: ExplainCalls, owner: BatchOwner): Promise<muster.explain.v1.Explanation.$Properties>;
};

type BatchDeps = {
  readonly context: Pick<ServiceContext<Config>, "config" | "logger">;
  readonly kube: KubeConfig;
  readonly calls: KubeCalls;
  readonly bus: NatsBus;
  readonly ledger: ReservationCalls;
  readonly queues: Pick<Queues, "choose" | "readyTimeoutOf">;
  readonly nodes: Pick<Nodes, "lostAmong" | "stateOf">;
  readonly installation: string;
  readonly recordEvent: Parameters<typeof makeBatchReports>[0];
};

/** Interval of the sweep while pods still occupy machines of deleted Jobs. */
const SWEEP_AGAIN_MS = 2000;

/** Follows the Jobs of the served namespace, or of all, as the configuration states. */
export async function openBatchJobs(deps: BatchDeps): Promise<BatchJobs> {
  const { context, kube, calls, bus, ledger, installation } = deps;
  const { config, logger } = context;
  const namespace = config.batchJobs === "all" ? undefined : config.kube.namespace;
  await using undo = new AsyncDisposableStack();
  const { defaults, discoverMs } = config;
  const world = undo.use(followBatchJobs(kube, { namespace, defaults, discoverMs, logger }));
  const reports = makeBatchReports(deps.recordEvent, logger);
  const wakers = makeWakers(world, reports);
  const elapsedMs = (): number => performance.now();
  const { changed, wakeAll } = wakers;
  const open = async (ownerKind: BatchKind): Promise<Machines> => {
    const client = await openLedgerClient({ bus, calls: ledger, ownerKind, groupOf: getUnitOwnerId, elapsedMs });
    undo.use(client);
    return makeMachines({ ledger: client, calls: ledger, now: Date.now, elapsedMs, changed, listed: wakeAll });
  };
  const machines = {
    [BATCH_JOB]: await open(BATCH_JOB),
    [JOB_SET]: await open(JOB_SET),
    [QUEUED_POD]: await open(QUEUED_POD),
  };
  const { queues, nodes } = deps;
  const { policy } = config;
  const acting = { calls, world, machines, installation, forced: countForced(), requeued: countRequeued() };
  const crowding = openCrowding(nodes, policy.replacementWaitMs);
  const passing = {
    ...acting,
    queues,
    nodes,
    crowding,
    rejectionsOf: makeRejectionMemory(),
    reports,
    policy,
    now: Date.now,
  };
  const sweep = async (): Promise<boolean> => {
    const sweeping = BATCH_KINDS.map((kind) =>
      sweepBatchJobs({ kind, logger, calls, namespace, machines: machines[kind], world }),
    );
    // Sweep the other kinds even if the objects of one kind cannot be listed.
    const swept = await Promise.allSettled(sweeping);
    for (const result of swept) if (result.status === "rejected") throw result.reason;
    return swept.some((result) => result.status === "fulfilled" && result.value);
  };
  const opened = undo.move();
  return {
    wakeAll,
    refused: world.refused,
    explain: (asked, owner) => explainBatchAnswer(passing, asked, owner),
    run: (lead, signal) => run({ context, passing, wakers, sweep }, lead, signal),
    [Symbol.asyncDispose]: () => opened[Symbol.asyncDispose](),
  };
}

type Wakers = ReturnType<typeof makeWakers>;

/** Returns functions that wake Jobs by key and by owner id. They have no effect in a replica that does not lead, because it has no queue. */
function makeWakers(world: BatchWorld, reports: BatchReports) {
  let queue = workQueue();
  void queue.shutDown();
  const gone = makeBell();
  const wakeAll = (): void => {
    for (const key of queuedKeys(world)) queue.add(key, "low");
  };
  world.onChange((key, goneUid) => {
    queue.add(key);
    if (goneUid === undefined) return;
    reports.forget(goneUid);
    gone.ring();
  });
  return {
    wakeAll,
    gone,
    changed: (ownerId: string) => {
      for (const job of world.jobsOf(ownerId)) queue.add(buildRowKey(job));
    },
    newQueue: () => {
      queue = workQueue();
      for (const job of allJobs(world)) queue.add(buildRowKey(job));
      return queue;
    },
  };
}

function allJobs(world: Pick<BatchWorld, "jobs">): readonly JobRow[] {
  return BATCH_KINDS.flatMap((kind) => world.jobs(kind));
}

/** Returns keys of unfinished work with a queue or a gate, because most Jobs of a cluster have no queue. */
function queuedKeys(world: Pick<BatchWorld, "jobs">): readonly string[] {
  const queued = allJobs(world).filter(({ queue, gated, finished }) => !finished && (queue !== "" || gated));
  return queued.map(buildRowKey);
}

type Running = {
  readonly context: BatchDeps["context"];
  readonly passing: BatchPassDeps;
  readonly wakers: Wakers;
  readonly sweep: () => Promise<boolean>;
};

async function run(
  { context, passing, wakers, sweep }: Running,
  lead: ControllerLead,
  signal: AbortSignal,
): Promise<void> {
  const { config, logger } = context;
  // The former leader may have released machines, and its notification may have been lost.
  const all = Object.values(passing.machines);
  for (const machines of all) machines.invalidate();
  const stop = AbortSignal.any([signal, lead.lost]);
  let isLeft = false;
  await Promise.all([
    runController({
      name: "batch-jobs",
      queue: wakers.newQueue(),
      workers: config.workers,
      resync: { everyMs: config.syncPeriodMs, keys: () => queuedKeys(passing.world) },
      stop: signal,
      lead,
      reconcile: makeBatchReconcile(passing, lead.isHeld),
      onError: (error, key, failures, level) =>
        logger[level]({ job: key, failures, err: error }, "a pass over a batch Job failed and is retried"),
    }),
    runPeriodically({
      name: "batch-ledger",
      everyMs: config.refreshMs,
      work: async () => {
        await Promise.all(all.map((machines) => machines.refresh(stop)));
      },
      onError: makeFailureLog(logger, "batch-ledger"),
      stop,
    }),
    runPeriodically({
      name: "batch-sweep",
      everyMs: config.refreshMs,
      work: async () => {
        isLeft = lead.isHeld() && (await sweep());
      },
      rest: (ms, signalled) => wakers.gone.wait(isLeft ? Math.min(ms, SWEEP_AGAIN_MS) : ms, signalled),
      onError: makeFailureLog(logger, "batch-sweep"),
      stop,
    }),
  ]);
}
