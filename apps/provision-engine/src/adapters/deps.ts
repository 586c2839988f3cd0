import { publishEvent, type NatsBus } from "@muster/bus";
import { buildResultBytes, nsFromMs } from "@muster/leases";
import { readKeyFile, type Signer, verifySignature } from "@muster/leases/keys";
import type { KubeCalls } from "@muster/kube";
import { muster, streams, subjects } from "@muster/proto";
import type { ServiceContext } from "@muster/service";
import { openView, type View } from "@muster/store";
import { traceparentOf } from "@muster/tracing";
import { openCleaner, type Cleaner } from "../cleaner.ts";
import type { Config } from "../config.ts";
import type { EngineOps } from "../engine.ts";
import { openHoldings, type Holdings } from "../holdings.ts";
import type { TakePolledDeps } from "../take-polled.ts";
import type { TellDeps } from "../tell-lease.ts";
import type { Workload } from "../workloads/workload.ts";
import type { Cluster } from "./cluster.ts";
import { NO_PODS } from "./crash-watch.ts";
import type { HandlerDeps } from "./handlers.ts";
import { openHistory } from "./history.ts";
import { openLeftovers } from "./leftovers.ts";
import { toWireResult, type Readable } from "./messages.ts";
import { startMetrics, type LeaseMetrics } from "./metrics.ts";
import { openPolling, type Polled } from "./polling.ts";
import { makeRecords, openLeases, type Records } from "./records.ts";

export type Deps = AsyncDisposable & {
  readonly engine: EngineOps;
  readonly requests: HandlerDeps;
  /** Orders that are asked for; undefined: they only come. */
  readonly polled: Polled | undefined;
  readonly cleaner: Cleaner;
  /** What is not as fresh as it should be; undefined when all is. */
  readonly staleness: () => string | undefined;
};

/** Leases may be this much behind what others have written. */
const STALE_MS = 10_000;

/** Opens what the service lives on; the one place that knows what stands behind each verb. */
export async function openDeps(
  context: ServiceContext<Config>,
  bus: NatsBus,
  workloads: readonly Workload[],
  cluster: Pick<Cluster, "calls" | "crashes"> | undefined,
): Promise<Deps> {
  const { config, logger, signal } = context;
  const signer = "file" in config.key ? await readKeyFile("PROVISION_KEY_FILE", config.key.file) : config.key;
  logger.info({ engine: config.order.engine, signs: signer.userId }, "results are signed");
  await bus.ensureStream(streams.events);
  await bus.ensureStream(streams.audit);
  await using undo = new AsyncDisposableStack();
  const bucket = await openLeases(bus.connection);
  const view = undo.use(
    await openView(bucket, {
      signal,
      onProblem: (error, retryInMs) => logger.warn({ err: error, retryInMs }, "following leases is interrupted"),
    }),
  );
  const records = makeRecords(bucket);
  const history = openHistory(bus);
  const { capacity } = config;
  const holdings = openHoldings(capacity);
  undo.defer(follow(view, holdings, config.order.engine));
  const metrics = undo.use(
    startMetrics({ phases: () => holdings.phases().phases, stuck: () => holdings.phases().stuck }),
  );
  const cleaner = cleanerOf(context, { records, metrics, calls: cluster?.calls });
  const requests: HandlerDeps = {
    records,
    nowNs,
    verify: verifySignature,
    policy: config.order,
    traceparent: traceparentOf,
    view,
    holdings,
    history,
    capacity,
    cleaner,
  };
  const sign = signResult(signer);
  const http = openPolling(context, metrics);
  const overNats = feedbackOver(bus, config.order.engine);
  const feedback: TellDeps["feedback"] = (answer) =>
    answer.source === http?.name ? http.tell(answer) : overNats(answer);
  const opened = undo.move();
  return {
    engine: {
      engine: config.order.engine,
      view,
      records,
      history,
      feedback,
      holdings,
      workloads: new Map(workloads.map((each) => [each.type, each])),
      crashes: cluster?.crashes ?? NO_PODS,
      sign,
      nowNs,
      policy: config.engine,
      tell: tellOfEngine(context, metrics),
    },
    requests,
    polled: http?.open({ requests, feedback, sign, seen: seenIn(view), cleaner }),
    cleaner,
    staleness: () => (view.ageMs() > STALE_MS ? `leases were followed last ${view.ageMs()} ms ago` : undefined),
    [Symbol.asyncDispose]: () => opened.disposeAsync(),
  };
}

function tellOfEngine({ logger }: ServiceContext<Config>, metrics: LeaseMetrics): EngineOps["tell"] {
  return {
    failed: (id, what, error) => {
      metrics.failed(what);
      logger.warn({ lease: id, what, err: error }, "not done, and tried again");
    },
    defect: (id, error) => logger.error({ lease: id, err: error }, "defect of a workload"),
    stuck: ({ order: { id, type }, attempts, trouble }) =>
      logger.error({ lease: id, type, attempts, trouble }, "a lease cannot be taken down"),
  };
}

/** Learns of all leases of the engine, until the function that it returns is called. */
function follow(view: View<Readable>, holdings: Holdings, engine: string): () => void {
  const look = (id: string, entry: ReturnType<typeof view.get>): void => {
    if (entry === undefined) holdings.forget(id);
    else if ("record" in entry.value && entry.value.record.order.engine === engine)
      holdings.learn({ record: entry.value.record, revision: entry.revision });
  };
  for (const entry of view.entries()) look(entry.key, entry);
  return view.onChange((id) => look(id, view.get(id)));
}

function cleanerOf(
  { config, logger }: ServiceContext<Config>,
  {
    records,
    metrics,
    calls,
  }: { readonly records: Records; readonly metrics: LeaseMetrics; readonly calls: KubeCalls | undefined },
): Cleaner {
  const failed = (error: unknown, kind?: string): void => {
    metrics.failed("clean-up");
    logger.warn({ err: error, kind }, "what leases have left behind is not all looked at");
  };
  return openCleaner(
    {
      leftovers: calls && openLeftovers(calls, (kind, error) => failed(error, kind)),
      records,
      nowMs: Date.now,
      policy: { engine: config.order.engine, ...config.cleanup },
      tell: {
        step: ({ do: what, object, because }, isDryRun) => {
          if (what !== "keep") metrics.leftOver(what, isDryRun);
          logger.info({ ...object, do: what, because, isDryRun }, "a lease has left something behind");
        },
        failed,
      },
    },
    config.controller === undefined ? 0 : 1,
  );
}

function seenIn(view: View<Readable>): TakePolledDeps["seen"] {
  return (id) => {
    const value = view.get(id)?.value;
    return value !== undefined && "record" in value ? value.record : undefined;
  };
}

/** The time that users sign; it is nobody's monotonic clock. */
function nowNs(): bigint {
  return nsFromMs(Date.now());
}

function signResult({ sign }: Signer): EngineOps["sign"] {
  return (result) => ({ ...result, signature: sign(buildResultBytes(result)) });
}

/** Tells over NATS; an answer that is sent again is dropped by the stream within its window. */
function feedbackOver(bus: NatsBus, engine: string): TellDeps["feedback"] {
  const { LeaseAnswered } = muster.provision.v1;
  return async ({ id, number, result, deleted }) => {
    const message = { engine, id, result: result === undefined ? null : toWireResult(result), deleted };
    await publishEvent(bus, subjects.leaseAnswered(id), LeaseAnswered, message, {
      messageId: `${engine}.${id}.${number}`,
    });
  };
}
