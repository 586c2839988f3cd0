import { setTimeout as sleep } from "node:timers/promises";
import { connectService, serveMethods, type NatsBus } from "@muster/bus";
import { findFault, isRetryable } from "@muster/faults";
import { buckets, ReservationService, streams, type muster } from "@muster/proto";
import { holdLogger, type ServiceContext } from "@muster/service";
import { runWhileLeader, openBucket, openLog, openView, type Codec, type Leadership, type View } from "@muster/store";
import type { Config } from "../config.ts";
import { emptyLedger, type Ledger } from "../domain/ledger/ledger.ts";
import type { PoolScaling } from "../domain/ledger/machines.ts";
import { getReservationId } from "../domain/ledger/reservation.ts";
import { evolveOnce } from "../domain/ledger/world.ts";
import { LedgerKeeper } from "../ledger-keeper.ts";
import { makeAnnouncer } from "./announcer.ts";
import { makeHandlers, type ReportedViews } from "./handlers.ts";
import { queueCodec } from "./queue-messages.ts";
import { followQueues } from "./queue-view.ts";
import { entryCodec, nodeCodec, scalingCodec, toScaling } from "./messages.ts";
import { snapshotCodec } from "./snapshot-codec.ts";
import { startMetrics, type LedgerMetrics } from "./metrics.ts";
import { makeNodeView, type NodeView } from "./node-view.ts";
import { reportDeposed } from "./report-deposed.ts";
import { reportPreemptions } from "./report-preemptions.ts";

type Manager = {
  readonly context: ServiceContext<Config>;
  readonly bus: NatsBus;
  readonly nodes: NodeView;
  readonly scalings: View<muster.node.v1.PoolScaling>;
  readonly queues: View<muster.reservation.v1.Queue>;
  readonly metrics: LedgerMetrics;
  /** Connection losses since the process started. */
  readonly losses: () => number;
  /** The ledger's keeper; undefined while another replica leads. */
  keeper: LedgerKeeper | undefined;
};

/** Maximum size of a log entry. A request with the most needs and the longest names, granted immediately, takes about 520 KiB. */
const MAX_ENTRY_BYTES = 768 * 1024;
const RETRY_MS = 500;

/** Watches the nodes until the process stops, and keeps the ledger whenever this process leads. */
export async function runManager(context: ServiceContext<Config>): Promise<void> {
  const { config, logger, signal, instance } = context;
  let losses = 0;
  await using bus = await connectService(context, (status) => {
    if (status === "disconnected") losses += 1;
  });
  await bus.ensureStream(streams.events);
  await using nodes = await openViewOf(context, bus, buckets.nodes, nodeCodec);
  // Load the scalings before the first decision. Otherwise a request may be refused permanently because its scaled pool is not known yet.
  await using scalings = await openViewOf(context, bus, buckets.pools, scalingCodec);
  // Load the queues before the first decision, so that no request is refused because its queue is not known yet.
  await using queues = await openViewOf(context, bus, buckets.queues, queueCodec);
  context.readyWhen("nodes", () => (nodes.ageMs() === 0 ? undefined : "the view of the nodes is not current"));
  context.readyWhen("pools", () => (scalings.ageMs() === 0 ? undefined : "the view of the pools is not current"));
  context.readyWhen("queues", () => (queues.ageMs() === 0 ? undefined : "the view of the queues is not current"));

  let manager: Manager | undefined;
  using metrics = startMetrics(() => manager?.keeper?.count());
  const managed: Manager = (manager = {
    context,
    bus,
    nodes: makeNodeView(nodes, config, () => performance.now()),
    scalings,
    queues,
    metrics,
    losses: () => losses,
    keeper: undefined,
  });
  await runWhileLeader(
    bus.connection,
    {
      lock: "reservation-manager",
      holder: instance,
      ttlMs: config.lockTtlMs,
      signal,
      onChange: holdLogger(logger, "leadership of the ledger"),
      onProblem: (error) => {
        logger.warn({ err: error }, "cannot acquire the free lock of the ledger");
      },
    },
    (leadership) => keepLedger(managed, leadership),
  );
}

async function openViewOf<Value>(
  { logger, signal }: ServiceContext<Config>,
  bus: NatsBus,
  name: string,
  codec: Codec<Value>,
): Promise<View<Value>> {
  const bucket = await openBucket(bus.connection, {
    name,
    codec,
    onDecodeError: (problem) => {
      logger.warn({ err: problem, bucket: name }, "skipping an unreadable entry");
    },
  });
  const onProblem = (error: unknown, retryInMs: number): void => {
    logger.warn({ err: error, bucket: name, retryInMs }, "a watch is interrupted, and is retried");
  };
  return openView(bucket, { signal, onProblem });
}

/** Runs one leadership and returns when it ends. It ends without NATS as well, so that the replica that reconnects first takes over. */
async function keepLedger(manager: Manager, leadership: Leadership): Promise<void> {
  const { context, bus, nodes, scalings, metrics } = manager;
  const { config, logger } = context;
  try {
    await using log = await openLog(bus.connection, {
      stream: { name: streams.ledger.name, subject: streams.ledger.subjects[0] },
      events: entryCodec,
      snapshots: { bucket: buckets.snapshots, key: "reservation", codec: snapshotCodec },
      initial: emptyLedger,
      evolve: evolveOnce,
      token: leadership.token,
      signal: leadership.signal,
      isHeld: leadership.isHeld,
      maxEntryBytes: MAX_ENTRY_BYTES,
      onProblem: (problem) => {
        logger.warn({ err: problem }, "the log of the ledger reports a problem");
      },
    });
    await using announcer = makeAnnouncer(bus, {
      pause,
      losses: manager.losses,
      dropped: (count) => {
        logger.warn({ count }, "dropped announcements because too many wait");
      },
      failed: ({ kind, reservation }, error) => {
        const news = { reservation: getReservationId(reservation.sequence), kind };
        logger.warn({ ...news, err: error }, "an announcement failed and is retried");
      },
    });
    using stated = followQueues(manager.queues);
    const keeper = new LedgerKeeper(
      {
        log,
        nodes: nodes.list,
        scalings: () => scalings.entries().map(({ key, value }) => toScaling(key, value)),
        queues: stated.list,
        allNodesKnown: nodes.areAllKnown,
        now: Date.now,
        announce: announcer.announce,
        decided: metrics.decided,
        preemption: reportPreemptions(metrics, logger, () => performance.now()),
        pause,
      },
      config.policy,
    );
    using _following = follow(manager, keeper);
    manager.keeper = keeper;
    logger.info({ fencing: leadership.token, sequence: log.sequence, ...toCounts(log.state) }, "keeping the ledger");
    try {
      await using _served = await serveMethods(bus, ReservationService, makeHandlers(keeper, viewsOf(manager)), {
        version: context.version,
        description: "The ledger of machines",
        hotMethods: ["reserve", "checkReservation", "unreserve", "getReservation"],
        onDefect: (method, error) => {
          logger.error({ method, err: error }, "a request failed inside the service");
        },
      });
      await keeper.run(log.deposed);
      reportDeposed(logger, log.deposed.reason, context.signal.aborted);
    } finally {
      manager.keeper = undefined;
    }
  } catch (error) {
    const fault = findFault(error);
    if (fault === undefined || !isRetryable(fault)) throw error;
    logger.warn({ err: error }, "the leadership of the ledger ended after a temporary failure");
  }
}

function viewsOf({ scalings, queues }: Manager): ReportedViews {
  return {
    scaledAtMs: (pool) => scalings.get(pool)?.value.atMs ?? 0,
    namespacesOf: (queue) => queues.get(queue)?.value.namespaces,
  };
}

/** Forwards changes of nodes, scalings and queues to the keeper, until disposed. */
function follow({ nodes, scalings, queues }: Manager, keeper: LedgerKeeper): DisposableStack {
  const following = new DisposableStack();
  following.defer(nodes.follow(keeper));
  following.defer(
    scalings.onChange((pool) => {
      keeper.observePool(pool, scalingOf(pool, scalings.get(pool)?.value));
    }),
  );
  following.defer(
    queues.onChange(() => {
      keeper.queuesChanged();
    }),
  );
  return following;
}

function scalingOf(pool: string, scaling: muster.node.v1.PoolScaling | undefined): PoolScaling | undefined {
  return scaling === undefined ? undefined : toScaling(pool, scaling);
}

function toCounts(ledger: Ledger): { reservations: number; waiting: number } {
  return { reservations: ledger.reservations.size, waiting: ledger.queue.places.size };
}

async function pause(signal: AbortSignal, ms: number = RETRY_MS): Promise<void> {
  await sleep(ms, undefined, { signal }).catch(() => undefined);
}
