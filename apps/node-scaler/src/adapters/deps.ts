import { randomBytes } from "node:crypto";
import { logLevelOf } from "@muster/faults";
import { makeClient, type NatsBus } from "@muster/bus";
import { makeKubeCalls, loadServiceKube } from "@muster/kube";
import { buckets, ReservationService } from "@muster/proto";
import type { ServiceContext } from "@muster/service";
import { openBucket, openView, type Leadership, type View } from "@muster/store";
import type { Config } from "../config.ts";
import { packPods } from "../domain/pack-pods.ts";
import type { ScaledNode } from "../domain/node.ts";
import type { ScalerDeps, ScalerReporter } from "../scaler.ts";
import { checkHeld } from "./check-held.ts";
import { makeSteadyClock, type Clock } from "./clock.ts";
import { openCluster, type OpenCluster } from "./cluster.ts";
import { guardProvider, type ProviderOfLeader } from "./guard-provider.ts";
import { makeImageCache } from "./image-cache.ts";
import { askDemands, askMachines, type LedgerOptions } from "./ledger.ts";
import { nodeCodec } from "./messages.ts";
import { startMetrics, type ScalerMetrics } from "./metrics.ts";
import { openPoolsWriter } from "./pools-writer.ts";
import { openProvider, type ProviderDeps } from "./providers.ts";
import { makeRecords, type NodeRecords, type RecordsDeps } from "./records.ts";

/** The views that every replica follows, whether it leads or not. */
export type Deps = AsyncDisposable & {
  readonly cluster: OpenCluster;
  readonly metrics: ScalerMetrics;
  readonly clock: Clock;
  /** The dependencies of a leadership; its records begin with the stored ones. */
  readonly forLeader: (leadership: Leadership) => Omit<ScalerDeps, "orderSignal">;
  /** Names the stale sources; undefined when all are fresh. */
  readonly staleness: () => string | undefined;
  /** The records of this replica's leadership; undefined if it does not lead. */
  led: NodeRecords | undefined;
};

const MAX_CALLS_IN_FLIGHT = 10;
/** The limit is much shorter than any interval between rounds. */
const MAX_WAIT_MS = 1000;

/** Opens the dependencies of the service. Only this module knows the implementation of each. */
export async function openDeps(
  context: ServiceContext<Config>,
  bus: NatsBus,
  clock: Clock = makeSteadyClock(),
): Promise<Deps> {
  const { config, logger } = context;
  const { poolLabel, nodesFreshMs, clientTimeoutMs: timeoutMs } = config;
  const kube = loadServiceKube(context, config.kube.kubeconfig);
  await using undo = new AsyncDisposableStack();
  const calls = undo.use(makeKubeCalls(kube));
  const { connection } = bus;
  const stored = await openStoredNodes(context, undo, connection);
  const cluster = undo.use(
    await openCluster({
      kube,
      calls,
      connection,
      scaler: config.name,
      poolLabel,
      nodesFreshMs,
      timeoutMs,
      now: clock.wallNow,
      onProblem: (what, error, retryInMs) =>
        logger.warn({ err: error, what, retryInMs }, "a watch is interrupted, and is retried"),
    }),
  );
  const guards = await openProviders(context, undo, { calls, clock });
  const pools = await openPoolsWriter(connection, clock.wallNow);
  const policies = new Map(config.file.pools.map((policy) => [policy.name, policy]));
  const ledger = { ledger: makeClient(bus, ReservationService), timeoutMs, policies };
  const metrics = undo.use(startMetrics(() => deps.led?.list()));
  const shared = { cluster, metrics, clock, stored, guards, pools, policies, ledger };
  const opened = undo.move();
  const deps: Deps = {
    cluster,
    metrics,
    clock,
    led: undefined,
    staleness: () => (stored.view.ageMs() > 0 ? "the view of the records is not current" : cluster.staleness()),
    forLeader: (leadership) => depsOfLeader(context, shared, leadership),
    [Symbol.asyncDispose]: () => opened.disposeAsync(),
  };
  return deps;
}

/** The dependencies that all leaderships of a replica share. */
type Shared = Pick<Deps, "cluster" | "metrics" | "clock"> & {
  readonly stored: Stored;
  readonly guards: ReadonlyMap<string, ProviderOfLeader>;
  readonly pools: Awaited<ReturnType<typeof openPoolsWriter>>;
  readonly policies: ScalerDeps["policies"];
  readonly ledger: LedgerOptions;
};

function depsOfLeader(
  context: ServiceContext<Config>,
  { cluster, metrics, clock, stored, guards, pools, policies, ledger }: Shared,
  { token, isHeld, signal }: Leadership,
): Omit<ScalerDeps, "orderSignal"> {
  const { config } = context;
  const report = makeReporter(context, metrics);
  const providers = new Map([...guards].map(([name, ofLeader]) => [name, ofLeader(isHeld)]));
  const images = makeImageCache({
    ttlMs: config.imageTtlMs,
    now: clock.now,
    ask: async (name, properties) => (await providers.get(name)?.findImage(properties, signal)) ?? "",
    onStale: (provider, error) => report.failed("pool", `finding a newer image of ${provider}`, error),
  });
  return {
    name: config.name,
    now: clock.now,
    wallNow: clock.wallNow,
    term: token,
    isHeld,
    signal,
    seed: () => randomBytes(8).toString("hex"),
    records: makeRecords({ ...stored, now: clock.now, isHeld }),
    policies,
    poolLabel: config.poolLabel,
    providers,
    cluster,
    machines: () => askMachines(ledger, signal),
    demands: async () => [...(await askDemands(ledger, signal)), ...packPods(cluster.pendingPods(), policies)],
    bootImage: (pool) => images.find(pool.provider, pool.bootImage),
    announcePools: () => pools.announce(policies.values()),
    publishPools: whileHeld(isHeld, pools.publish),
    limits: { bootsPerRound: config.bootsPerRound, spotRequestPauseMs: config.spotRequestPauseMs },
    unavailableMs: config.unavailableMs,
    patienceMs: MAX_WAIT_MS,
    // A list may take a whole timeout to arrive, and is then used for one more timeout.
    listFreshMs: 2 * config.providerTimeoutMs,
    report,
  };
}

/** Wraps a write so that a leader that was frozen does not write after its leadership. */
function whileHeld<Input>(isHeld: () => boolean, write: (input: Input) => Promise<void>) {
  return async (input: Input): Promise<void> => {
    checkHeld(isHeld);
    await write(input);
  };
}

type Stored = Pick<RecordsDeps, "bucket" | "unreadable"> & { readonly view: View<ScaledNode> };

async function openStoredNodes(
  context: ServiceContext<Config>,
  undo: AsyncDisposableStack,
  connection: NatsBus["connection"],
): Promise<Stored> {
  const unreadable = new Set<string>();
  const bucket = await openBucket<ScaledNode, ScaledNode>(connection, {
    name: buckets.scaledNodes,
    codec: nodeCodec,
    onDecodeError: (problem, key) => recordUnreadable(context, unreadable, key, problem),
  });
  const view = undo.use(
    await openView(bucket, {
      onProblem: (error, retryInMs) =>
        context.logger.warn({ err: error, retryInMs }, "the watch of records is interrupted, and is retried"),
    }),
  );
  return { bucket, view, unreadable };
}

function recordUnreadable({ logger }: ServiceContext<Config>, unreadable: Set<string>, key: string, err: Error): void {
  unreadable.add(key);
  logger.error(
    { err, key },
    "cannot read a record: no node is created and no instance is an orphan until it can be read",
  );
}

async function openProviders(
  { config }: ServiceContext<Config>,
  undo: AsyncDisposableStack,
  around: Pick<ProviderDeps, "calls" | "clock">,
): Promise<ReadonlyMap<string, ProviderOfLeader>> {
  const { providerTimeoutMs: timeoutMs, unavailableMs } = config;
  const providers = new Map<string, ProviderOfLeader>();
  for (const block of config.file.providers) {
    const { name } = block;
    const provider = undo.use(await openProvider(block, { ...around, name, timeoutMs, unavailableMs }));
    const limits = { timeoutMs, maxCallsInFlight: MAX_CALLS_IN_FLIGHT, now: around.clock.now };
    providers.set(name, guardProvider(provider, limits));
  }
  return providers;
}

function makeReporter({ logger }: ServiceContext<Config>, metrics: ScalerMetrics): ScalerReporter {
  return {
    planned: (loop, step) => {
      metrics.took(loop, step);
      const level = step.kind === "wait" ? "debug" : "info";
      logger[level]({ loop, ...step }, "planned");
    },
    failed: (loop, doing, error) => {
      metrics.failed(loop);
      logger[logLevelOf(error)]({ loop, doing, err: error }, "an action failed and is retried");
    },
    booted: metrics.booted,
    poolIsWrong: (pool, problems) => logger.error({ pool, problems }, "the provider cannot create nodes of this pool"),
  };
}
