import { randomBytes } from "node:crypto";
import { hostname } from "node:os";
import { computeBackoffMs, pause } from "@muster/backoff";
import { FaultError, findFault, isFaultError, isRetryable } from "@muster/faults";
import { metrics } from "@opentelemetry/api";
import { startTelemetry } from "@muster/tracing";
import { readEnv } from "./env.ts";
import { releaseStartMemory } from "./release-start-memory.ts";
import { createLogger, LOG_LEVELS, type Logger } from "./logger.ts";
import { isPassed, type ReadyCheck, startStatusServer } from "./status-server.ts";
import { VERSION } from "./version.ts";

export type ServiceContext<Config> = {
  readonly config: Config;
  readonly logger: Logger;
  /** Aborted on SIGINT and SIGTERM, once: finish the work in flight and return. */
  readonly signal: AbortSignal;
  /** Name of the service in its definition. */
  readonly service: string;
  /** Unique per process: `<service>-<host>-<pid>-<random>`. */
  readonly instance: string;
  readonly version: string;
  /** The replicas of every stream and bucket (MUSTER_NATS_REPLICAS, default 1), for `connectNats`. */
  readonly natsReplicas: number;
  /**
   * Rate limit of one user at this process (MUSTER_REQUESTS_PER_SECOND, default 1000; burst MUSTER_REQUESTS_BURST, default 2000), for its connection to NATS.
   */
  readonly requestRate: { readonly perSecond: number; readonly burst: number };
  /**
   * Adds a readiness check. /readyz succeeds once this was called, and only while every check returns undefined; a check returns the missing dependency. Call
   * it when everything is open.
   */
  readyWhen(name: string, check: ReadyCheck): void;
  /** A further check, which does not affect whether the start has finished. */
  alsoCheck(name: string, check: ReadyCheck): void;
};

type ServiceDefinition<Config> = {
  readonly name: string;
  readonly readConfig: (env: Readonly<Record<string, string | undefined>>) => Config;
  /**
   * Runs until the context's signal. A retryable fault (NATS or the API server does not answer, or has no room) is logged and reported by /readyz. Then `run`
   * is called again after a pause; it must dispose of its resources. Any other error, or an early return, ends the process with exit code 1.
   */
  readonly run: (context: ServiceContext<Config>) => Promise<void>;
};

/** The exit code that a shell and Kubernetes report for SIGKILL. */
const KILLED = 137;

/** The check that fails until the service has added its own readiness checks. */
const STARTING = "started";

/** Pause after a run that a dependency has ended. */
const NEXT_RUN = { firstMs: 500, maxMs: 10_000 };
/** After a run that lasted this long, the back-off starts from its first pause. */
const SETTLED_MS = 60_000;

/**
 * Runs the main function of a service: configuration (all problems in one message, exit code 2), telemetry, logger, signals, and an HTTP server with /livez,
 * /readyz and /metrics on MUSTER_HTTP_ADDR (default 127.0.0.1:0, the bound address is logged), then `run`. MUSTER_NATS_REPLICAS, MUSTER_REQUESTS_PER_SECOND and
 * MUSTER_REQUESTS_BURST configure the connection to NATS. A second signal, or MUSTER_STOP_TIMEOUT_MS (default 20000) after the first, ends the process
 * immediately.
 */
export async function runService<Config>(definition: ServiceDefinition<Config>): Promise<void> {
  const configured = configure(definition);
  if (configured === undefined) return;
  const { config, common } = configured;
  const instance = `${definition.name}-${hostname().split(".")[0] ?? "host"}-${process.pid}-${randomBytes(3).toString("hex")}`;
  const logger = createLogger({ level: common.logLevel, service: definition.name, instance });
  const stop = stopOnSignals(logger, common.stopTimeoutMs);
  const checks = new Map<string, ReadyCheck>();

  try {
    await using telemetry = await startTelemetry({ service: definition.name, version: VERSION, env: process.env });
    showReadiness(checks);
    await using status = await startStatusServer({
      address: common.httpAddress,
      checks,
      answerScrape: (request, response) => {
        telemetry.answerScrape(request, response);
      },
    });
    logger.info({ version: VERSION, http: status.address, pid: process.pid }, "started");
    const context: ServiceContext<Config> = {
      config,
      logger,
      signal: stop.signal,
      service: definition.name,
      instance,
      version: VERSION,
      natsReplicas: common.natsReplicas,
      requestRate: common.requestRate,
      readyWhen: (name, check) => {
        if (checks.delete(STARTING)) releaseStartMemory();
        checks.set(name, check);
      },
      alsoCheck: (name, check) => {
        checks.set(name, check);
      },
    };
    await runUntilStopped(definition, context, checks);
    if (!stop.signal.aborted) process.exitCode = 1;
    logger.info({}, stop.signal.aborted ? "stopped" : "ended without a signal");
  } catch (error) {
    const code = findFault(error)?.code;
    if (stop.signal.aborted && (code === "cancelled" || code === "unavailable")) {
      // The time to stop is over: another replica or the next process does the remaining work.
      if (code === "unavailable") logger.warn({ err: error }, "stopped before all work was done");
      logger.info({}, "stopped");
      return;
    }
    process.exitCode = 1;
    logger.error({ err: error }, "the service ended because of an error");
  } finally {
    stop.done();
  }
}

/** Runs the service, and reruns it after each failure of a dependency, because a restart of the process would meet the same failure. */
async function runUntilStopped<Config>(
  { run }: ServiceDefinition<Config>,
  context: ServiceContext<Config>,
  checks: Map<string, ReadyCheck>,
): Promise<void> {
  const notStarted = (because: string): void => {
    checks.clear();
    checks.set("running", () => (context.signal.aborted ? "stopping" : undefined));
    checks.set(STARTING, () => because);
  };
  notStarted("starting");
  await retryWhileUnavailable(context, () => run(context), notStarted);
}

/**
 * Opens one part of a start, and retries after each failure of a dependency. The log and /readyz report the failure, and the parts that `run` opened before
 * stay open. Rejects with any other error, and with FaultError cancelled once the service stops.
 */
export function retryStart<Result>(
  context: Pick<ServiceContext<unknown>, "logger" | "signal" | "alsoCheck">,
  open: () => Promise<Result>,
): Promise<Result> {
  return retryWhileUnavailable(context, open, (because) => context.alsoCheck(STARTING, () => because));
}

async function retryWhileUnavailable<Result>(
  { logger, signal }: Pick<ServiceContext<unknown>, "logger" | "signal">,
  work: () => Promise<Result>,
  notStarted: (because: string) => void,
): Promise<Result> {
  const stopping = (): boolean => signal.aborted;
  for (let failures = 0; ;) {
    const startedMs = performance.now();
    try {
      return await work();
    } catch (error) {
      if (stopping() || !isFaultError(error) || !isRetryable(error.fault)) throw error;
      failures = performance.now() - startedMs > SETTLED_MS ? 1 : failures + 1;
      const retryInMs = computeBackoffMs(failures, NEXT_RUN);
      notStarted(`waiting: ${describeError(error)}`);
      logger.warn({ err: error, retryInMs }, "cannot run now and retries");
      await pause(retryInMs, signal);
      if (stopping()) throw new FaultError({ code: "cancelled", operation: "starting" }, { cause: error });
    }
  }
}

/** The error with its first cause, in one line. */
function describeError(error: Error): string {
  let first = error;
  while (first.cause instanceof Error) first = first.cause;
  return first === error ? error.message : `${error.message} (${first.message})`;
}

/** Exports the state of /readyz as a metric, for alerts. */
function showReadiness(checks: ReadonlyMap<string, ReadyCheck>): void {
  const ready = metrics.getMeter("@muster/service").createObservableGauge("muster.ready", {
    unit: "1",
    description: "1 where a check of `/readyz` passes, 0 where it fails or warns, by check",
  });
  ready.addCallback((result) => {
    for (const [check, run] of checks) result.observe(isPassed(run()) ? 1 : 0, { "muster.ready.check": check });
  });
}

function configure<Config>(definition: ServiceDefinition<Config>) {
  try {
    const common = readEnv(process.env, (read) => ({
      /** Address of `/livez`, `/readyz` and `/metrics`. Port 0: any free port. */
      httpAddress: read.text("MUSTER_HTTP_ADDR", "127.0.0.1:0"),
      /** Least severe level that is logged. */
      logLevel: read.oneOf("MUSTER_LOG_LEVEL", LOG_LEVELS, "info"),
      /** Replicas of every stream and bucket. */
      natsReplicas: read.integer("MUSTER_NATS_REPLICAS", { fallback: 1, min: 1, max: 5 }),
      requestRate: {
        /** Rate limit of one user at one process. Services reserve and release machines without it. */
        perSecond: read.integer("MUSTER_REQUESTS_PER_SECOND", { fallback: 1000, min: 1, max: 1_000_000 }),
        /** Requests that one user may send in a burst. */
        burst: read.integer("MUSTER_REQUESTS_BURST", { fallback: 2000, min: 1, max: 10_000_000 }),
      },
      /** Time for an orderly stop. */
      stopTimeoutMs: read.integer("MUSTER_STOP_TIMEOUT_MS", { fallback: 20_000, min: 0, max: 600_000 }),
    }));
    return { common, config: definition.readConfig(process.env) };
  } catch (error) {
    if (!isFaultError(error)) throw error;
    process.stderr.write(`${definition.name}: ${error.message}\n`);
    process.exitCode = 2;
    return undefined;
  }
}

function stopOnSignals(logger: Logger, timeoutMs: number): { signal: AbortSignal; done: () => void } {
  const controller = new AbortController();
  let timer: NodeJS.Timeout | undefined;
  const onSignal = (name: NodeJS.Signals): void => {
    if (controller.signal.aborted) {
      endNow(logger, `second signal (${name})`);
      return;
    }
    logger.info({ signal: name }, "stopping");
    // A part that hangs must not delay the end of the process: Kubernetes would kill it a little later, without a line in the log.
    timer = setTimeout(() => endNow(logger, `not stopped after ${timeoutMs} ms`), timeoutMs).unref();
    controller.abort();
  };
  process.on("SIGINT", onSignal).on("SIGTERM", onSignal);
  // Stop with the supervisor that started this process with a channel, however the supervisor ended.
  const onOrphaned = (): void => {
    onSignal("SIGTERM");
  };
  process.once("disconnect", onOrphaned);
  process.channel?.unref();
  return {
    signal: controller.signal,
    done: () => {
      clearTimeout(timer);
      process.off("SIGINT", onSignal).off("SIGTERM", onSignal).off("disconnect", onOrphaned);
    },
  };
}

function endNow(logger: Logger, because: string): void {
  logger.error({ because }, "ending immediately");
  // No exit handler or open handle can delay a SIGKILL to this process.
  process.kill(process.pid, "SIGKILL");
  // The kernel ignores this signal for the first process of a container, which continues here.
  // eslint-disable-next-line no-restricted-syntax -- nothing to return to: what hangs would hang on
  process.exit(KILLED);
}
