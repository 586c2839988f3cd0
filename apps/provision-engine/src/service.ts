import { connectService, serve, type NatsBus } from "@muster/bus";
import { faultOf, isRetryable } from "@muster/faults";
import { LeaseService } from "@muster/proto";
import type { ServiceContext } from "@muster/service";
import { lead, type Leadership } from "@muster/store";
import { openCluster, type Cluster } from "./adapters/cluster.ts";
import { openDeps, type Deps } from "./adapters/deps.ts";
import { makeHandlers } from "./adapters/handlers.ts";
import type { Config } from "./config.ts";
import { runEngine, type Lead } from "./engine.ts";
import { consumeOrders } from "./order-stream.ts";
import { takePolled } from "./take-polled.ts";
import { makeWorkloads } from "./workloads/make-workloads.ts";
import type { Workload } from "./workloads/workload.ts";

/** Per method; most of them are long polls, which cost little while they wait. */
const REQUESTS_AT_ONCE = 1024;

/** Takes orders, and serves them while this replica leads its engine id, until the signal. */
export async function run(
  context: ServiceContext<Config>,
  workloads: (bus: NatsBus, cluster: Cluster | undefined) => readonly Workload[] = makeWorkloads,
): Promise<void> {
  const { config, logger, signal, instance } = context;
  await using bus = await connectService(context);
  await using cluster = config.kube && openCluster(config.kube);
  await using deps = await openDeps(context, bus, workloads(bus, cluster));
  await using _served = await serve(bus, LeaseService, makeHandlers(deps.requests), {
    version: context.version,
    description: "Leases: signed orders for workloads, for a time",
    concurrency: REQUESTS_AT_ONCE,
    onDefect: (method, error) => logger.error({ method, err: error }, "a request failed inside the service"),
  });
  await using _orders = await consumeOrders({
    bus,
    requests: deps.requests,
    feedback: deps.engine.feedback,
    onRetry: (error) => logger.warn({ err: error }, "an order is not written down, and tried again"),
    signal,
  });
  context.readyWhen("leases", deps.staleness);
  await lead(
    bus.connection,
    {
      lock: `provision-engine.${config.order.engine}`,
      holder: instance,
      ttlMs: config.lockTtlMs,
      signal,
      onChange: (state) => logger.info({ state }, "leadership of the engine"),
    },
    (leadership) => work(context, deps, leadership),
  );
}

/** One leadership; ends also when NATS is away, so that the replica that comes back first goes on. */
async function work({ logger }: ServiceContext<Config>, deps: Deps, leadership: Leadership): Promise<void> {
  logger.info({ fencing: leadership.token }, "leading");
  try {
    await workAs(deps, leadership);
  } catch (error) {
    const fault = faultOf(error);
    if (fault === undefined || !isRetryable(fault)) throw error;
    logger.warn({ err: error }, "leases cannot be served now");
  }
}

/** Whatever of it fails ends all of it. */
async function workAs({ engine, polled }: Deps, lead: Lead): Promise<void> {
  const stop = new AbortController();
  const signal = AbortSignal.any([lead.signal, stop.signal]);
  const own = { ...lead, signal };
  const stopAll = (error: unknown): never => {
    stop.abort();
    throw error;
  };
  const polling = polled && takePolled(polled.take, polled.source, signal);
  const ends = await Promise.allSettled([runEngine(engine, own).catch(stopAll), polling?.catch(stopAll)]);
  for (const end of ends) if (end.status === "rejected") throw end.reason;
}
