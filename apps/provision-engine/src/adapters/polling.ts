import { pause } from "@muster/backoff";
import { runPeriodically } from "@muster/controller";
import type { Logger, ServiceContext } from "@muster/service";
import type { LeaseCleaner } from "../lead/cleaner.ts";
import type { Config } from "../config.ts";
import { SOURCES } from "../domain/lease.ts";
import { type LeaseSource, pollSource } from "../orders/poll-source.ts";
import type { TakePolledDeps } from "../orders/take-polled.ts";
import type { LeaseFeedback } from "../lead/report-lease.ts";
import { toJsonStats } from "./controller-messages.ts";
import { openController, makeHttpPoll } from "./controller.ts";
import { COUNT_EVERY_MS, toWireCounters, type HandlerDeps } from "./handlers.ts";
import { openHttpFeedback } from "./feedback.ts";
import type { LeaseMetrics } from "./metrics.ts";

/** The work with a controller while this replica leads. */
export type ControllerPolling = {
  readonly source: LeaseSource;
  readonly take: TakePolledDeps;
  readonly stats: PushStatsDeps;
};

type Polling = {
  readonly send: (answer: LeaseFeedback) => Promise<void>;
  readonly open: (
    deps: Pick<TakePolledDeps, "feedback" | "sign"> & {
      readonly requests: HandlerDeps;
      readonly cleaner: Pick<LeaseCleaner, "historyTaken">;
    },
  ) => ControllerPolling;
};

const HTTP = SOURCES.controller;
const RETRY_WAITING_MS = 30_000;

/** Opens the configured HTTP controller; undefined without one. */
export function openPolling(
  { config, logger, signal }: ServiceContext<Config>,
  metrics: LeaseMetrics,
): Polling | undefined {
  if (config.controller === undefined) return undefined;
  const { address, pollMs } = config.controller;
  const { engine } = config.order;
  const controller = openController(address, Date.now);
  const { send, updateStats } = openHttpFeedback(controller, engine);
  const poll = makeHttpPoll({
    controller,
    engine,
    failed: (what, reason) => {
      metrics.failed(`poll-${what}`);
      logger.warn({ what, reason }, "a poll failed");
    },
  });
  return {
    send: (answer) => send(answer, signal),
    open: ({ requests, cleaner, ...rest }) => ({
      source: pollSource({ name: HTTP, poll, nowMs: Date.now, pause, everyMs: pollMs }),
      take: { requests, ...rest, ...reportsOfPolled(logger, metrics, cleaner), retryWaitingMs: RETRY_WAITING_MS },
      stats: {
        stats: () => toJsonStats(toWireCounters(requests)),
        push: updateStats,
        pause,
        failed: (error) => {
          metrics.failed("stats");
          logger.warn({ err: error }, "a controller does not accept statistics");
        },
        everyMs: COUNT_EVERY_MS,
      },
    }),
  };
}

function reportsOfPolled(
  logger: Logger,
  metrics: LeaseMetrics,
  cleaner: Pick<LeaseCleaner, "historyTaken">,
): Pick<TakePolledDeps, "historyTaken" | "failed"> {
  return {
    historyTaken: (source) => {
      logger.info({ source }, "all earlier orders are taken");
      cleaner.historyTaken();
    },
    failed: (id, what, error) => {
      if (what === "refused") metrics.refused("order");
      else metrics.failed(what);
      logger.warn({ lease: id, what, err: error }, "cannot take an order of a controller");
    },
  };
}

type PushStatsDeps = {
  readonly stats: () => object;
  /** The UpdateStats call of the Feedbacker. */
  readonly push: (stats: object, signal: AbortSignal) => Promise<void>;
  readonly pause: typeof pause;
  readonly failed: (error: unknown) => void;
  readonly everyMs: number;
};

const RETRY = { firstMs: 2000, maxMs: 60_000 };

/** Pushes statistics to a controller at the start and after each change, until the signal. */
export async function pushStats(deps: PushStatsDeps, signal: AbortSignal): Promise<void> {
  let pushed: string | undefined;
  await runPeriodically({
    name: "lease-stats",
    work: async () => {
      const stats = deps.stats();
      const text = JSON.stringify(stats);
      if (text === pushed) return;
      await deps.push(stats, signal);
      pushed = text;
    },
    everyMs: deps.everyMs,
    retry: RETRY,
    onError: deps.failed,
    rest: deps.pause,
    stop: signal,
  });
}
