import { runParts } from "@muster/controller";
import { makeClient, connectService, serveMethods, type Client, type NatsBus } from "@muster/bus";
import { findFault, isRetryable } from "@muster/faults";
import { loadServiceKube } from "@muster/kube";
import type { StoredValue } from "./holdings/records.ts";
import { LeaseService, buildLeaseService, type LeaseServiceOfEngine } from "@muster/proto";
import { holdLogger, type ServiceContext } from "@muster/service";
import { readInstallationId, runWhileLeader, type Leadership } from "@muster/store";
import { openCluster } from "./adapters/cluster.ts";
import { openDeps, type Deps } from "./adapters/deps.ts";
import { makeHandlers } from "./adapters/handlers.ts";
import { makeRouteHandlers } from "./adapters/route.ts";
import type { Config } from "./config.ts";
import { runEngine } from "./lead/engine.ts";
import type { EngineLead } from "./lead/engine-ops.ts";
import { consumeOrders } from "./orders/order-stream.ts";
import { pushStats } from "./adapters/polling.ts";
import { takePolled } from "./orders/take-polled.ts";
import { makeWorkloads } from "./types/workload-types.ts";

/** Maximum requests per method. Most are long polls, which cost little while they wait. */
const MAX_CONCURRENT_REQUESTS = 1024;

/** Answers requests, and serves leases while this replica leads its engine id, until the signal. */
export async function run(
  context: ServiceContext<Config>,
  workloads: typeof makeWorkloads = makeWorkloads,
): Promise<void> {
  const { config, logger, signal, instance } = context;
  await using bus = await connectService(context);
  await using cluster = config.kube && (await openClusterOf(context, config.kube, bus));
  await using deps = await openDeps(context, bus, workloads, cluster);
  await using _served = await serveRequests(context, bus, deps);
  await using _orders = await consumeOrders({
    bus,
    requests: deps.requests,
    feedback: deps.engine.feedback,
    sign: deps.engine.sign,
    onRetry: (error) => logger.warn({ err: error }, "cannot record an order; it is retried"),
    signal,
  });
  context.readyWhen("leases", deps.staleness);
  await runWhileLeader(
    bus.connection,
    {
      lock: `provision-engine.${config.order.engine}`,
      holder: instance,
      ttlMs: config.lockTtlMs,
      signal,
      onChange: holdLogger(logger, "leadership of the engine"),
      onProblem: (error) => logger.warn({ err: error }, "cannot acquire the free lock of the engine"),
    },
    (leadership) => work(context, deps, leadership),
  );
}

async function openClusterOf(
  context: ServiceContext<Config>,
  kube: NonNullable<Config["kube"]>,
  bus: NatsBus,
): Promise<ReturnType<typeof openCluster>> {
  const installation = await readInstallationId(bus.connection);
  return openCluster(loadServiceKube(context, kube.kubeconfig), { ...kube, installation }, (error, retryInMs) =>
    context.logger.warn({ err: error, retryInMs }, "the watch of pods was interrupted"),
  );
}

/** Serves the requests to this engine, and requests that any engine can answer or route. */
async function serveRequests(
  { config, version, logger }: ServiceContext<Config>,
  bus: NatsBus,
  deps: Deps,
): Promise<AsyncDisposable> {
  const { engine } = config.order;
  const options = {
    version,
    description: "Leases: signed orders for workloads, for a time",
    concurrency: MAX_CONCURRENT_REQUESTS,
    onDefect: (method: string, error: unknown) =>
      logger.error({ method, err: error }, "a request failed inside the service"),
  };
  await using served = new AsyncDisposableStack();
  const own = makeHandlers(deps.requests);
  const other = (id: string): Client<LeaseServiceOfEngine> => makeClient(bus, buildLeaseService(id));
  served.use(await serveMethods(bus, buildLeaseService(engine), own, options));
  const hasLeases = (id: string): boolean => deps.requests.view.entries().some((each) => isOf(each.value, id));
  const routing = { engine, own, other, hasLeases, nowMs: Date.now };
  served.use(await serveMethods(bus, LeaseService, makeRouteHandlers(routing), options));
  return served.move();
}

function isOf(value: StoredValue, engine: string): boolean {
  return "record" in value && value.record.order.engine === engine;
}

/** One leadership. It also ends when NATS is unavailable, so that the first replica to reconnect continues. */
async function work({ logger }: ServiceContext<Config>, deps: Deps, leadership: Leadership): Promise<void> {
  logger.info({ fencing: leadership.token }, "this replica leads");
  try {
    await runAsLeader(deps, leadership);
  } catch (error) {
    const fault = findFault(error);
    if (fault === undefined || !isRetryable(fault)) throw error;
    logger.warn({ err: error }, "the leadership of the engine ended after a temporary failure");
  }
}

/** Runs all parts of the leader. A failure of one part ends all of them. */
function runAsLeader({ engine, polled, cleaner }: Deps, lead: EngineLead): Promise<void> {
  const parts = [(own: EngineLead) => runEngine(engine, own), ({ signal }: EngineLead) => cleaner.run(signal)];
  if (polled !== undefined) {
    parts.push(({ signal }) => takePolled(polled.take, polled.source, signal));
    parts.push(({ signal }) => pushStats(polled.stats, signal));
  }
  return runParts(lead, parts);
}
