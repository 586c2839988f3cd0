import type { NatsBus } from "@muster/bus";
import { logLevelOf } from "@muster/faults";
import { toKubeFault } from "@muster/kube";
import { buildResultBytes, toNanosecondsFromMs } from "@muster/leases";
import { digest, readKeyFile, type Signer, verifySignature } from "@muster/leases/keys";
import { makeExplainCalls, logNotRemoved } from "@muster/ledger-client";
import { describeBrake } from "@muster/ledger-client/plan-sweep";
import { buckets, streams } from "@muster/proto";
import { reportForeignObjects, type ServiceContext } from "@muster/service";
import { readBucketSize, readBucketCreatedAtMs, openView } from "@muster/store";
import { openCleaner, type LeaseCleaner } from "../lead/cleaner.ts";
import type { Config } from "../config.ts";
import { makeLeaseQueue } from "../types/lease-queue.ts";
import { buildMachineRequest } from "../types/machine.ts";
import { computeZdbOverhead, ZDB } from "../types/zdb.ts";
import type { TypeOverheads } from "../types/workload-types.ts";
import { writeDecision } from "../domain/stored-decision.ts";
import type { LeaseRecord } from "../domain/lease.ts";
import { findReferencedLease, type EngineOps } from "../lead/engine-ops.ts";
import { followLeases, openLeaseRegistry } from "../holdings/lease-registry.ts";
import { foreseeOrder } from "../orders/foresee-order.ts";
import { makeOrderSecrets, type OrderSecrets, watchUnopened } from "../holdings/order-secrets.ts";
import type { LeaseLedger, Workload, WorkloadParts } from "../types/workload.ts";
import { watchUnreadable, type LeaseRecords } from "../holdings/records.ts";
import { openRoom, makeRecords, openLeases } from "./records.ts";
import { makeBusFeedback, routeAnswers } from "./feedback.ts";
import { openGrants, joinLeftovers, makeLeaseLedger, openLedgerLeftovers } from "./ledger.ts";
import type { Cluster } from "./cluster.ts";
import { NO_PODS } from "./crash-watch.ts";
import type { HandlerDeps } from "./handlers.ts";
import { openHistory } from "./history.ts";
import { openLeftovers } from "./leftovers.ts";
import { startMetrics, type LeaseMetrics } from "./metrics.ts";
import { openPolling, type ControllerPolling } from "./polling.ts";

export type Deps = AsyncDisposable & {
  readonly engine: EngineOps;
  readonly requests: HandlerDeps;
  /** Polled orders; undefined without a controller. */
  readonly polled: ControllerPolling | undefined;
  readonly cleaner: LeaseCleaner;
  /** Describes outdated state; undefined if all views are fresh. */
  readonly staleness: () => string | undefined;
};

/** Maximum age of the view of leases. */
const MAX_VIEW_AGE_MS = 10_000;

/** Opens the dependencies of the service; only this function knows their implementations. */
export async function openDeps(
  context: ServiceContext<Config>,
  bus: NatsBus,
  workloads: (parts: WorkloadParts) => readonly Workload[],
  cluster: Cluster | undefined,
): Promise<Deps> {
  const { config, logger } = context;
  const signer = "file" in config.key ? await readKeyFile("PROVISION_KEY_FILE", config.key.file) : config.key;
  logger.info({ engine: config.order.engine, signs: signer.userId }, "results are signed");
  await bus.ensureStream(streams.events);
  await bus.ensureStream(streams.audit);
  await using undo = new AsyncDisposableStack();
  const secrets = makeOrderSecrets(signer, { unsealed: config.order.unsealedSecrets });
  const known = await openKnown(context, bus, secrets, undo);
  const { view, holdings, records, metrics, unopened } = known;
  const history = openHistory(bus);
  const ledger = makeLeaseLedger(bus);
  const cleaner = makeCleaner(context, { bus, ledger, records, metrics, cluster });
  const queue = makeLeaseQueue(ledger, config.queue);
  const parts = { cluster, ledger, leaseQueue: queue, nowNs };
  const served = new Map(workloads({ ...parts, nameOf: holdings.nameOf }).map((each) => [each.type, each]));
  const requests: HandlerDeps = {
    records,
    nowNs,
    verify: verifySignature,
    digest,
    key: signer.userId,
    unopened,
    policy: config.order,
    quota: config.quota,
    view,
    holdings,
    history,
    capacity: config.capacity,
    asking: { ...makeExplainCalls(bus), whyNoQueue: (record, of) => queue.whyNone(buildMachineRequest(record), of) },
    cleaner,
    foresee: makeForesee(config, { ...known, secrets, workloads: served }),
  };
  const grants = undo.use(await openGrants(bus));
  const sign = signResult(signer);
  const http = openPolling(context, metrics);
  const overNats = makeBusFeedback(bus, config.order.engine);
  const feedback = routeAnswers(overNats, http?.send);
  const opened = undo.move();
  return {
    engine: {
      engine: config.order.engine,
      view,
      records,
      history,
      feedback,
      holdings,
      workloads: served,
      secrets,
      crashes: cluster?.crashes ?? NO_PODS,
      grants,
      sign,
      digest,
      nowNs,
      policy: config.engine,
      report: engineReports(context, metrics),
    },
    requests,
    polled: http?.open({ requests, feedback, sign, cleaner }),
    cleaner,
    staleness: () =>
      view.ageMs() > MAX_VIEW_AGE_MS ? `the view of leases was current ${view.ageMs()} ms ago` : undefined,
    [Symbol.asyncDispose]: () => opened.disposeAsync(),
  };
}

/** Opens the records of leases and the state derived from following them, until `undo` is disposed. */
async function openKnown(
  { config, logger, signal }: ServiceContext<Config>,
  { connection }: Pick<NatsBus, "connection">,
  secrets: OrderSecrets,
  undo: AsyncDisposableStack,
) {
  const bucket = await openLeases(connection);
  const view = undo.use(
    await openView(bucket, {
      signal,
      onProblem: (error, retryInMs) => logger.warn({ err: error, retryInMs }, "the watch of leases was interrupted"),
    }),
  );
  const overheads = readOverheads(config);
  const holdings = openLeaseRegistry(config.capacity, overheads);
  const fill = () => readBucketSize(connection, bucket.name);
  const room = openRoom({ name: bucket.name, fill, promised: holdings.promised, nowMs: Date.now });
  const records = makeRecords(bucket, room);
  undo.defer(followLeases(view, holdings, config.order.engine));
  const unreadable = undo.use(
    watchUnreadable(view, ({ id, because }) =>
      logger.error({ lease: id, because }, "cannot read the record of a lease; the lease is not served"),
    ),
  );
  const { engine } = config.order;
  const unopened = undo.use(
    watchUnopened(view, { engine, secrets }, (found, because) =>
      logger.error({ found, because }, "cannot open secrets of leases with the present key of the engine"),
    ),
  );
  const gauges = () => ({
    ...holdings.phases(nowNs()),
    unreadable: unreadable.count(),
    unopened: unopened.count(),
  });
  const metrics = undo.use(startMetrics(gauges));
  return { view, overheads, holdings, records, metrics, unopened: unopened.count };
}

type Known = Awaited<ReturnType<typeof openKnown>>;

function makeForesee(
  { order, engine }: Pick<Config, "order" | "engine">,
  {
    view,
    holdings,
    overheads,
    secrets,
    workloads,
  }: Pick<Known, "view" | "holdings" | "overheads"> & Pick<EngineOps, "secrets" | "workloads">,
): HandlerDeps["foresee"] {
  const deps = {
    workloads,
    around: holdings.around,
    overheads,
    phaseOf: (id: string) => holdings.find(id)?.phase,
    referencedBy: (record: LeaseRecord) => findReferencedLease({ holdings, view, secrets }, record),
    policy: { ...order, ...engine.pass },
    nowNs,
  };
  return (...asked) => foreseeOrder(deps, ...asked);
}

function readOverheads({ kube }: Config): TypeOverheads {
  return kube?.zdb === undefined ? {} : { [ZDB.type]: computeZdbOverhead(kube.zdb) };
}

function engineReports({ config, logger }: ServiceContext<Config>, metrics: LeaseMetrics): EngineOps["report"] {
  const policy = config.engine.pass;
  return {
    planned: (snapshot, plan, nowNs) => {
      // Serialised only if the line is logged.
      const decision = { toJSON: () => writeDecision({ nowNs, policy, snapshot }, plan) };
      logger.debug({ lease: snapshot.lease.id, do: plan.kind, because: plan.because.code, decision }, "planned");
    },
    failed: (id, what, error) => {
      metrics.failed(what);
      logger[logLevelOf(error)]({ lease: id, what, err: error }, "a call or write failed; it is retried");
    },
    defect: (id, error) => logger.error({ lease: id, err: error }, "internal error of a workload"),
    stuck: ({ order: { id, type }, attempts, trouble }) =>
      logger.error({ lease: id, type, attempts, trouble }, "cannot remove a lease"),
  };
}

function makeCleaner(
  { config, logger }: ServiceContext<Config>,
  {
    bus,
    ledger,
    records,
    metrics,
    cluster,
  }: {
    readonly bus: NatsBus;
    readonly ledger: LeaseLedger;
    readonly records: LeaseRecords;
    readonly metrics: LeaseMetrics;
    readonly cluster: Pick<Cluster, "calls" | "installation"> | undefined;
  },
): LeaseCleaner {
  const failed = (error: unknown, kind?: string): void => {
    metrics.failed("clean-up");
    if (toKubeFault(error) === undefined)
      logger.error({ err: error, kind }, "internal error of clean-up, which is retried");
    else logger.warn({ err: error, kind }, "clean-up cannot list all objects of leases");
  };
  const unlisted = (kind: string, error: unknown): void => failed(error, kind);
  const inLedger = openLedgerLeftovers(ledger, unlisted);
  const inCluster = ({ calls, installation }: Pick<Cluster, "calls" | "installation">) =>
    openLeftovers(calls, installation, unlisted);
  return openCleaner(
    {
      leftovers: joinLeftovers(cluster === undefined ? [inLedger] : [inLedger, inCluster(cluster)]),
      records,
      nowMs: Date.now,
      census: async () => ({
        records: (await records.list()).filter(({ record }) => record.order.engine === config.order.engine).length,
        bucketCreatedMs: await readBucketCreatedAtMs(bus.connection, buckets.leases),
      }),
      policy: { engine: config.order.engine, ...config.cleanup },
      report: {
        step: ({ kind: what, object, because }, isDryRun) => {
          if (what !== "keep") metrics.leftOver(what, isDryRun);
          logger.info({ ...object, do: what, because, isDryRun }, "found a leftover of a lease");
        },
        brake: (brake) => {
          metrics.heldUp(brake?.left ?? 0);
          if (brake === undefined) return;
          const { left, because } = brake;
          const about = { left, code: because.code, because: describeBrake(brake) };
          logger.error(about, "clean-up removes nothing until an operator confirms it");
        },
        notRemoved: logNotRemoved(logger, "lease"),
        leftAlone: reportForeignObjects(logger, { what: "lease", own: cluster?.installation ?? "" }),
        failed,
      },
    },
    config.controller === undefined ? 0 : 1,
  );
}

/** Wall clock time, by which users sign; it may jump. */
function nowNs(): bigint {
  return toNanosecondsFromMs(Date.now());
}

function signResult({ sign }: Signer): EngineOps["sign"] {
  return (result) => ({ ...result, signature: sign(buildResultBytes(result)) });
}
