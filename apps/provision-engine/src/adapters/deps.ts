import { pause } from "@muster/backoff";
import { publishEvent, type NatsBus } from "@muster/bus";
import { buildResultBytes, nsFromMs } from "@muster/leases";
import { readKeyFile, type Signer, verifySignature } from "@muster/leases/keys";
import { muster, streams, subjects } from "@muster/proto";
import type { ServiceContext } from "@muster/service";
import { openView, type View } from "@muster/store";
import { traceparentOf } from "@muster/tracing";
import type { Config } from "../config.ts";
import type { EngineOps } from "../engine.ts";
import { openHoldings, type Holdings } from "../holdings.ts";
import type { PushStatsDeps } from "../push-stats.ts";
import { pollSource } from "../sources/poll-source.ts";
import type { TakePolledDeps } from "../take-polled.ts";
import type { Answer, TellDeps } from "../tell-lease.ts";
import type { LeaseSource } from "../sources/lease-source.ts";
import type { Workload } from "../workloads/workload.ts";
import { toJsonStats } from "./controller-messages.ts";
import { openController } from "./controller.ts";
import { COUNT_EVERY_MS, countersMessage, type HandlerDeps } from "./handlers.ts";
import { openHistory } from "./history.ts";
import { openHttpFeedback } from "./http-feedback.ts";
import { httpPoll } from "./http-poll.ts";
import { toWireResult, type Readable } from "./messages.ts";
import { startMetrics, type LeaseMetrics } from "./metrics.ts";
import { makeRecords, openLeases } from "./records.ts";

export type Deps = AsyncDisposable & {
  readonly engine: EngineOps;
  readonly requests: HandlerDeps;
  /** Orders that are asked for; undefined: they only come. */
  readonly polled:
    { readonly source: LeaseSource; readonly take: TakePolledDeps; readonly stats: PushStatsDeps } | undefined;
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
  };
  const metrics = startMetrics();
  const sign = signResult(signer);
  const http = openHttp(context, metrics);
  const overNats = feedbackOver(bus, config.order.engine);
  const feedback: TellDeps["feedback"] = (answer) =>
    answer.source === HTTP && http !== undefined ? http.tell(answer) : overNats(answer);
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
      sign,
      nowNs,
      policy: config.engine,
      tell: {
        failed: (id, what, error) => {
          metrics.failed(what);
          logger.warn({ lease: id, what, err: error }, "not done, and tried again");
        },
        defect: (id, error) => logger.error({ lease: id, err: error }, "defect of a workload"),
      },
    },
    requests,
    polled: http && {
      source: http.source,
      take: { requests, feedback, sign, seen: seenIn(view), ...tellOfPolled(context, metrics) },
      stats: {
        stats: () => toJsonStats(countersMessage(requests)),
        push: http.updateStats,
        pause,
        failed: (error) => {
          metrics.failed("stats");
          logger.warn({ err: error }, "a controller does not take what is counted");
        },
        everyMs: COUNT_EVERY_MS,
      },
    },
    staleness: () => (view.ageMs() > STALE_MS ? `leases were followed last ${view.ageMs()} ms ago` : undefined),
    [Symbol.asyncDispose]: () => opened.disposeAsync(),
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

function seenIn(view: View<Readable>): TakePolledDeps["seen"] {
  return (id) => {
    const value = view.get(id)?.value;
    return value !== undefined && "record" in value ? value.record : undefined;
  };
}

function tellOfPolled(
  { logger }: ServiceContext<Config>,
  metrics: LeaseMetrics,
): Pick<TakePolledDeps, "historyTaken" | "failed"> {
  return {
    historyTaken: (source) => logger.info({ source }, "all that was ordered before is taken"),
    failed: (id, what, error) => {
      if (what === "refused") metrics.refused("order");
      else metrics.failed(what);
      logger.warn({ lease: id, what, err: error }, "an order of a controller is not taken");
    },
  };
}

/** The time that users sign; it is nobody's monotonic clock. */
function nowNs(): bigint {
  return nsFromMs(Date.now());
}

function signResult({ sign }: Signer): EngineOps["sign"] {
  return (result) => ({ ...result, signature: sign(buildResultBytes(result)) });
}

/** Source of orders that a controller has. */
const HTTP = "http";

function openHttp({ config, logger, signal }: ServiceContext<Config>, metrics: LeaseMetrics) {
  if (config.controller === undefined) return undefined;
  const { address, pollMs } = config.controller;
  const { engine } = config.order;
  const controller = openController(address, Date.now);
  const { tell, updateStats } = openHttpFeedback(controller, engine);
  const poll = httpPoll({
    controller,
    engine,
    failed: (what, reason) => {
      metrics.failed(`poll-${what}`);
      logger.warn({ what, reason }, "a poll brought nothing");
    },
  });
  return {
    tell: (answer: Answer) => tell(answer, signal),
    updateStats,
    source: pollSource({ name: HTTP, poll, nowMs: Date.now, pause, everyMs: pollMs }),
  };
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
