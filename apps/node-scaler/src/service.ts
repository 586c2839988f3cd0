import { connectService, serveMethods, type NatsBus } from "@muster/bus";
import { openStopGrace } from "@muster/controller";
import { findFault, isRetryable, logLevelOf } from "@muster/faults";
import { NodeService } from "@muster/proto";
import { holdLogger, type ServiceContext } from "@muster/service";
import { runWhileLeader, type Leadership } from "@muster/store";
import { openDeps, type Deps } from "./adapters/deps.ts";
import { makeHandlers } from "./adapters/handlers.ts";
import { checkPools } from "./check-pools.ts";
import type { Config } from "./config.ts";
import { makeEmptyReport, runLoops, type ScalerLoop, type LoopReport } from "./loops.ts";
import { runHeartbeatRound } from "./rounds/heartbeat-round.ts";
import { runPoolRound } from "./rounds/pool-round.ts";
import { runReaperRound } from "./rounds/reaper-round.ts";
import { runScanRound } from "./rounds/scan-round.ts";
import { finishRunningWork, makeScaler } from "./scaler.ts";

/** Follows the cluster until it is stopped, and scales while this replica leads. */
export async function run(context: ServiceContext<Config>): Promise<void> {
  const { config, logger, signal, instance } = context;
  await using bus = await connectService(context);
  await using deps = await openDeps(context, bus);
  context.readyWhen("world", deps.staleness);
  await deps.cluster.synced.catch((error: unknown) => {
    if (!signal.aborted) throw error;
  });
  await runWhileLeader(
    bus.connection,
    {
      lock: "node-scaler",
      holder: instance,
      ttlMs: config.lockTtlMs,
      signal,
      onChange: holdLogger(logger, "leadership of the nodes"),
      onProblem: (error) => {
        logger.warn({ err: error }, "cannot acquire the free lock of the nodes");
      },
    },
    (leadership) => scale(context, bus, deps, leadership),
  );
}

/** Runs one leadership: returns when it is over. Also returns without NATS, so that the replica that reconnects first takes over. */
async function scale(context: ServiceContext<Config>, bus: NatsBus, deps: Deps, leadership: Leadership): Promise<void> {
  const { config, logger, instance } = context;
  const { signal: stop, lost } = leadership;
  // An aborted order of an instance has an unknown outcome, and its node ends as failed.
  using grace = openStopGrace({ stop, lost });
  const scaler = makeScaler({ ...deps.forLeader(leadership), orderSignal: grace.signal });
  const { poolMs, heartbeatMs, reaperMs, scanMs } = config.intervals;
  const loops: readonly ScalerLoop[] = [
    { report: makeEmptyReport("pool", poolMs), round: () => runPoolRound(scaler) },
    { report: makeEmptyReport("heartbeat", heartbeatMs), round: () => runHeartbeatRound(scaler) },
    { report: makeEmptyReport("reaper", reaperMs), round: () => runReaperRound(scaler) },
    { report: makeEmptyReport("scan", scanMs), round: () => runScanRound(scaler) },
  ];
  deps.led = scaler.records;
  logger.info({ fencing: leadership.token, nodes: scaler.records.list().length }, "this replica leads");
  try {
    await scaler.announcePools();
    const reports = loops.map(({ report }) => report);
    await using _served = await serveMethods(
      bus,
      NodeService,
      makeHandlers(scaler, { leader: instance, loops: reports }),
      {
        version: context.version,
        description: "Nodes that are created when work needs them",
        onDefect: (method, error) => {
          logger.error({ method, err: error }, "a request failed inside the service");
        },
      },
    );
    await Promise.all([checkPools(scaler), runLoops(loops, loopDeps(context, deps, leadership))]);
  } catch (error) {
    const fault = findFault(error);
    if (fault === undefined || !isRetryable(fault)) throw error;
    logger.warn({ err: error }, "the leadership of the nodes ended after a temporary failure");
  } finally {
    deps.led = undefined;
    await finishRunningWork(scaler.memory);
  }
}

function loopDeps({ logger }: ServiceContext<Config>, { metrics, clock }: Deps, lead: Leadership) {
  return {
    lead,
    now: clock.now,
    onRoundEnd: (report: LoopReport, error: unknown) => {
      const { name, lastDurationMs } = report;
      metrics.round(name, lastDurationMs, error !== undefined);
      if (error === undefined) return;
      logger[logLevelOf(error)]({ loop: name, err: error }, "a round failed, and the next one retries");
    },
  };
}
