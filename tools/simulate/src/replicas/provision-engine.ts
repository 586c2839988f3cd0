import { runParts } from "@muster/controller";
import { serveMethods } from "@muster/bus";
import { findFault, isRetryable } from "@muster/faults";
import { buildResultBytes, toNanosecondsFromMs } from "@muster/leases";
import { digest, readSigner, verifySignature } from "@muster/leases/keys";
import { makeExplainCalls, logNotRemoved } from "@muster/ledger-client";
import { LeaseService } from "@muster/proto";
import { makeBusFeedback } from "@muster/provision-engine/feedback";
import { openCleaner, type LeaseCleaner } from "@muster/provision-engine/cleaner";
import { readConfig } from "@muster/provision-engine/config";
import { NO_PODS } from "@muster/provision-engine/crash-watch";
import { DEBUG_WORKLOAD } from "@muster/provision-engine/debug";
import { describeReason } from "@muster/provision-engine/describe-reason";
import { runEngine } from "@muster/provision-engine/engine";
import type { EngineOps } from "@muster/provision-engine/engine-ops";
import { makeHandlers } from "@muster/provision-engine/handlers";
import { openHistory } from "@muster/provision-engine/history";
import { followLeases, openLeaseRegistry } from "@muster/provision-engine/holdings";
import { makeLeaseQueue } from "@muster/provision-engine/lease-queue";
import { joinLeftovers, makeLeaseLedger, openGrants, openLedgerLeftovers } from "@muster/provision-engine/ledger";
import { makeMachineWorkload } from "@muster/provision-engine/machine";
import { recordCodec } from "@muster/provision-engine/messages";
import { makeOrderSecrets } from "@muster/provision-engine/order-secrets";
import { consumeOrders } from "@muster/provision-engine/order-stream";
import { makeRecords } from "@muster/provision-engine/records";
import type { Workload } from "@muster/provision-engine/workload";
import type { Leadership } from "@muster/store";
import { runSimLead } from "../sim-leader-election.ts";
import { makeSimLeftovers, makeSimWorkload } from "../sim-workload.ts";
import { makeTraceLogger, type World } from "../world.ts";
import type { Replica } from "./replica.ts";
import { openBucketView } from "./views.ts";

/** Plants a defect for a test. */
export type TamperEngine = (ops: EngineOps) => EngineOps;
/** Observes the calls of one process's engine. */
export type WatchWorkload = (process: string, workload: Workload) => Workload;

/** Pauses are short, so that work continues soon after a fault. */
export const ENGINE = readConfig({
  PROVISION_KEY: "11".repeat(32),
  PROVISION_CAPACITY_CRU: "6",
  PROVISION_DEADLINE_MS: "10000",
  PROVISION_RETRY_MOST_MS: "4000",
  PROVISION_RECHECK_MS: "20000",
  PROVISION_CLEANUP: "on",
  PROVISION_CLEANUP_GRACE_MS: "15000",
  PROVISION_CLEANUP_EVERY_MS: "20000",
  PROVISION_CLEANUP_MOST_PERCENT: "100",
});
export const ENGINE_SIGNER = readSigner("PROVISION_KEY", "11".repeat(32));

type Watched = { readonly tamper: TamperEngine; readonly watch: WatchWorkload };

const nowNs = (): bigint => toNanosecondsFromMs(Date.now());

/** Runs the service, composed as in its main, with simulated adapters. */
export async function runProvisionEngine(world: World, replica: Replica, watched: Watched): Promise<void> {
  const { process, gone, stop, bus } = replica;
  const logger = makeTraceLogger(world, process);
  const { bucket, view } = await openBucketView(world, world.leases, recordCodec, gone.signal);
  const records = makeRecords(bucket);
  const holdings = openLeaseRegistry(ENGINE.capacity, {});
  followLeases(view, holdings, ENGINE.order.engine);
  const cleaner = makeCleaner(world, replica, records);
  const history = openHistory(bus);
  const requests = {
    records,
    nowNs,
    verify: verifySignature,
    digest,
    key: ENGINE_SIGNER.userId,
    // All runs share one key, so none is unopened.
    unopened: () => 0,
    policy: ENGINE.order,
    quota: ENGINE.quota,
    view,
    holdings,
    history,
    capacity: ENGINE.capacity,
    // No Queue exists beside simulated leases.
    asking: { ...makeExplainCalls(bus), whyNoQueue: () => Promise.resolve(undefined) },
    cleaner,
    // Users send no dry runs here.
    foresee: () => Promise.resolve(""),
  };
  await using grants = await openGrants(bus);
  const ops = watched.tamper({
    engine: ENGINE.order.engine,
    digest,
    view,
    records,
    history,
    feedback: makeBusFeedback(bus, ENGINE.order.engine),
    holdings,
    workloads: makeWorkloads(world, replica, watched.watch),
    secrets: makeOrderSecrets(ENGINE_SIGNER, { unsealed: false }),
    crashes: NO_PODS,
    grants,
    sign: (result) => ({ ...result, signature: ENGINE_SIGNER.sign(buildResultBytes(result)) }),
    nowNs,
    policy: ENGINE.engine,
    report: makeReports(logger),
  });
  const onDefect = (method: string, error: unknown): void =>
    logger.error({ method, err: error }, "a request failed inside the service");
  await using _served = await serveMethods(bus, LeaseService, makeHandlers(requests), {
    version: "0",
    description: "",
    onDefect,
  });
  await using _orders = await consumeOrders({
    bus,
    requests,
    feedback: ops.feedback,
    sign: ops.sign,
    onRetry: (error) => logger.warn({ err: error }, "cannot record an order; it is retried"),
    signal: stop.signal,
  });
  const election = { ...world, lock: world.leaseLock, ttlMs: ENGINE.lockTtlMs };
  await runSimLead(election, process, stop.signal, async (leadership) => {
    try {
      await lead(ops, cleaner, leadership);
    } catch (error) {
      const fault = findFault(error);
      if (fault === undefined || !isRetryable(fault)) throw error;
      logger.warn({ err: error }, "the leadership of the engine ended after a temporary failure");
    }
  });
}

function makeWorkloads(world: World, { process, bus }: Replica, watch: WatchWorkload): ReadonlyMap<string, Workload> {
  const ledger = makeLeaseLedger(bus);
  const workloads = [
    DEBUG_WORKLOAD,
    makeMachineWorkload(ledger, makeLeaseQueue(ledger, undefined)),
    makeSimWorkload(world, "network"),
    makeSimWorkload(world, "container"),
  ];
  return new Map(workloads.map((each) => [each.type, watch(process.name, each)]));
}

function makeReports(logger: ReturnType<typeof makeTraceLogger>): EngineOps["report"] {
  return {
    failed: (lease, what, error) => logger.warn({ lease, what, err: error }, "a call or write failed; it is retried"),
    defect: (lease, error) => logger.error({ lease, err: error }, "internal error of a workload"),
    planned: ({ lease }, plan) =>
      logger.info({ lease: lease.id, do: plan.kind, because: describeReason(plan.because) }, "planned"),
    stuck: ({ order }) => logger.warn({ lease: order.id }, "cannot remove a lease"),
  };
}

/** Runs the engine and the cleaner; a failure of one stops both. */
function lead(ops: EngineOps, cleaner: LeaseCleaner, leadership: Leadership): Promise<void> {
  return runParts(leadership, [(own) => runEngine(ops, own), ({ signal }) => cleaner.run(signal)]);
}

function makeCleaner(world: World, { process, bus }: Replica, records: EngineOps["records"]): LeaseCleaner {
  const logger = makeTraceLogger(world, process);
  const failed = (error: unknown): void => logger.warn({ err: error }, "clean-up cannot list all objects of leases");
  const inLedger = openLedgerLeftovers(makeLeaseLedger(bus), (_kind, error) => failed(error));
  return openCleaner(
    {
      leftovers: joinLeftovers([inLedger, makeSimLeftovers(world)]),
      records,
      nowMs: Date.now,
      census: async () => ({ records: (await records.list()).length, bucketCreatedMs: world.startMs }),
      policy: { engine: ENGINE.order.engine, ...ENGINE.cleanup },
      report: {
        step: ({ kind, object }) => logger.info({ lease: object.lease?.id, do: kind }, "left behind"),
        brake: (brake) => {
          if (brake !== undefined)
            logger.error({ left: brake.left, because: brake.because.code }, "clean-up removes nothing");
        },
        leftAlone: () => undefined,
        notRemoved: logNotRemoved(logger, "lease"),
        failed,
      },
    },
    0,
  );
}
