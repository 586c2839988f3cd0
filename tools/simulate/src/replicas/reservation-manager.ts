import { setTimeout as sleep } from "node:timers/promises";
import { serveMethods } from "@muster/bus";
import { findFault, isRetryable } from "@muster/faults";
import { ReservationService } from "@muster/proto";
import { makeAnnouncer } from "@muster/reservation-manager/announcer";
import { readConfig } from "@muster/reservation-manager/config";
import { makeHandlers } from "@muster/reservation-manager/handlers";
import { nodeCodec } from "@muster/reservation-manager/messages";
import { makeNodeView, type NodeView } from "@muster/reservation-manager/node-view";
import { queueCodec } from "@muster/reservation-manager/queue-messages";
import { followQueues } from "@muster/reservation-manager/queue-view";
import type { NodeFacts } from "@muster/reservation-manager/machines";
import { LedgerKeeper } from "@muster/reservation-manager/ledger-keeper";
import type { Ledger, LedgerEvent } from "@muster/reservation-manager/ledger";
import type { Leadership } from "@muster/store";
import type { LogWriter } from "@muster/store/log-writer";
import { openSimLog } from "../sim-log.ts";
import { runSimLead } from "../sim-leader-election.ts";
import { makeTraceLogger, type World } from "../world.ts";
import type { Replica } from "./replica.ts";
import { openBucketView } from "./views.ts";

const NO_QUEUES: readonly never[] = [];
const RETRY_MS = 500;
const CONFIG = readConfig({});

/** Plants a defect for a test. */
export type TamperNodes = (nodes: NodeView) => NodeView;
/** Plants a defect into the decisions of a ledger, for a test. */
export type TamperEvents = (events: readonly LedgerEvent[]) => readonly LedgerEvent[];

/** The nodes that a replica knows when it decides. */
export type KnownNodes = {
  readonly nodes: readonly NodeFacts[];
  /** Whether all nodes are known; otherwise nothing may be granted. */
  readonly areAllKnown: boolean;
};

/** Checks a decision of a ledger before it is written, against the nodes that its replica knows at that moment. */
export type CheckDecision = (ledger: Ledger, events: readonly LedgerEvent[], known: KnownNodes) => void;

export type ReservationPolicy = typeof CONFIG.policy;

export type ManagerOptions = {
  readonly tamper?: TamperNodes | undefined;
  readonly tamperEvents?: TamperEvents | undefined;
  readonly check: CheckDecision;
  /** Whether the replica follows queues; otherwise none exist. */
  readonly hasQueues?: boolean;
  /** Default: the policy of the configuration. */
  readonly policy?: ReservationPolicy;
  /** Called with the ledger that a new leader has read, and the sequence of its last entry. */
  readonly onRecovered?: (ledger: Ledger, sequence: number) => void;
};

export const POLICY = CONFIG.policy;
export const NODES_FRESH_MS = CONFIG.nodesFreshMs;

export async function runManager(world: World, replica: Replica, options: ManagerOptions): Promise<void> {
  const { gone, stop, process } = replica;
  const { tamper = (nodes) => nodes } = options;
  const { view } = await openBucketView(world, world.nodeStates, nodeCodec, gone.signal);
  const nodes = tamper(makeNodeView(view, CONFIG, () => performance.now()));
  const queues =
    options.hasQueues === true
      ? (await openBucketView(world, world.queueStates, queueCodec, gone.signal)).view
      : undefined;
  const election = { ...world, lock: world.ledgerLock, ttlMs: CONFIG.lockTtlMs };
  await runSimLead(election, process, stop.signal, (leadership) =>
    keepLedger(world, replica, { ...options, nodes, queues }, leadership),
  );
}

type Keeping = ManagerOptions & {
  readonly nodes: NodeView;
  readonly queues: Parameters<typeof followQueues>[0] | undefined;
};

async function keepLedger(
  world: World,
  { process, bus }: Replica,
  { nodes, queues, check, tamperEvents, policy = CONFIG.policy, onRecovered }: Keeping,
  leadership: Leadership,
): Promise<void> {
  const logger = makeTraceLogger(world, process);
  try {
    await using log = await openSimLog(world.ledger, world, leadership);
    onRecovered?.(log.state, log.sequence);
    using stated = queues && followQueues(queues);
    await using announcer = makeAnnouncer(bus, {
      pause,
      losses: () => 0,
      dropped: () => undefined,
      failed: () => undefined,
    });
    const keeper = new LedgerKeeper(
      {
        log: checkedLog(log, {
          tamper: tamperEvents ?? ((events) => events),
          check: (ledger, events) =>
            check(ledger, events, { nodes: nodes.list(), areAllKnown: nodes.areAllKnown(Date.now()) }),
        }),
        nodes: nodes.list,
        allNodesKnown: nodes.areAllKnown,
        // No pool is elastic here.
        scalings: () => [],
        queues: stated?.list ?? (() => NO_QUEUES),
        now: Date.now,
        announce: announcer.announce,
        decided: () => undefined,
        preemption: () => undefined,
        pause,
      },
      policy,
    );
    using following = new DisposableStack();
    following.defer(nodes.follow(keeper));
    if (queues !== undefined) following.defer(queues.onChange(() => keeper.queuesChanged()));
    await using _served = await serveMethods(
      bus,
      ReservationService,
      makeHandlers(keeper, { scaledAtMs: () => 0, namespacesOf: () => undefined }),
      {
        version: "0",
        description: "",
        onDefect: (method, error) => logger.error({ method, err: error }, "a request failed inside the service"),
      },
    );
    await keeper.run(log.deposed);
  } catch (error) {
    const fault = findFault(error);
    if (fault === undefined || !isRetryable(fault)) throw error;
    logger.warn({ err: error }, "the leadership of the ledger ended after a temporary failure");
  }
}

type KeptLog = Pick<LogWriter<Ledger, LedgerEvent>, "state" | "transact" | "onCommit">;

/** Checks each decision before it is written. */
function checkedLog(
  log: KeptLog,
  {
    tamper,
    check,
  }: {
    readonly tamper: TamperEvents;
    readonly check: (ledger: Ledger, events: readonly LedgerEvent[]) => void;
  },
): KeptLog {
  return {
    get state() {
      return log.state;
    },
    onCommit: (listener) => log.onCommit(listener),
    transact: (decide) =>
      log.transact((ledger) => {
        const decided = decide(ledger);
        const events = tamper(decided.events);
        check(ledger, events);
        return { ...decided, events };
      }),
  };
}

async function pause(signal: AbortSignal, ms: number = RETRY_MS): Promise<void> {
  await sleep(ms, undefined, { signal }).catch(() => undefined);
}
