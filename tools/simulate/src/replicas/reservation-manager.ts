import { setTimeout as sleep } from "node:timers/promises";
import { serve } from "@muster/bus";
import { faultOf, isRetryable } from "@muster/faults";
import { ReservationService } from "@muster/proto";
import { makeAnnouncer } from "@muster/reservation-manager/announcer";
import { readConfig } from "@muster/reservation-manager/config";
import { makeHandlers } from "@muster/reservation-manager/handlers";
import { nodeCodec } from "@muster/reservation-manager/messages";
import { nodeView, type NodeView } from "@muster/reservation-manager/node-view";
import type { NodeFacts } from "@muster/reservation-manager/machines";
import { LedgerKeeper } from "@muster/reservation-manager/ledger-keeper";
import type { Ledger, LedgerEvent } from "@muster/reservation-manager/ledger";
import type { Leadership } from "@muster/store";
import type { LogWriter } from "@muster/store/log-writer";
import { openSimLog } from "../sim-log.ts";
import { simLead } from "../sim-lead.ts";
import { traceLogger, type World } from "../world.ts";
import type { Replica } from "./replica.ts";
import { openBucketView } from "./views.ts";

const NO_QUEUES: readonly never[] = [];
const RETRY_MS = 500;
const CONFIG = readConfig({});

/** Plants a defect for a test. */
export type TamperNodes = (nodes: NodeView) => NodeView;

/** Checks a decision of a ledger against the nodes as its replica knows them at that moment. */
export type CheckDecision = (ledger: Ledger, events: readonly LedgerEvent[], nodes: readonly NodeFacts[]) => void;

export type ManagerOptions = { readonly tamper?: TamperNodes | undefined; readonly check: CheckDecision };

export const NODES_FRESH_MS = CONFIG.nodesFreshMs;

export async function runManager(
  world: World,
  replica: Replica,
  { tamper = (nodes) => nodes, check }: ManagerOptions,
): Promise<void> {
  const { gone, stop, process } = replica;
  const { view } = await openBucketView(world, world.nodeStates, nodeCodec, gone.signal);
  const known = tamper(nodeView(view, CONFIG, () => performance.now()));
  const election = { ...world, lock: world.ledgerLock, ttlMs: CONFIG.lockTtlMs };
  await simLead(election, process, stop.signal, (leadership) =>
    keepLedger(world, replica, { nodes: known, check }, leadership),
  );
}

async function keepLedger(
  world: World,
  { process, bus }: Replica,
  { nodes, check }: { readonly nodes: NodeView; readonly check: CheckDecision },
  leadership: Leadership,
): Promise<void> {
  const logger = traceLogger(world, process);
  try {
    await using log = await openSimLog(world.ledger, world, leadership);
    await using announcer = makeAnnouncer(bus, {
      pause,
      losses: () => 0,
      dropped: () => undefined,
      failed: () => undefined,
    });
    const keeper = new LedgerKeeper(
      {
        log: checkedLog(log, (ledger, events) => check(ledger, events, nodes.list())),
        nodes: nodes.list,
        allNodesKnown: nodes.areAllKnown,
        // No pool is elastic here.
        scalings: () => [],
        queues: () => NO_QUEUES,
        now: Date.now,
        announce: announcer.announce,
        decided: () => undefined,
        pause,
      },
      CONFIG.policy,
    );
    const unfollow = nodes.follow(keeper);
    try {
      await using _served = await serve(
        bus,
        ReservationService,
        makeHandlers(keeper, () => 0),
        {
          version: "0",
          description: "",
          onDefect: (method, error) => logger.error({ method, err: error }, "a request failed inside the service"),
        },
      );
      await keeper.run(log.deposed);
    } finally {
      unfollow();
    }
  } catch (error) {
    const fault = faultOf(error);
    if (fault === undefined || !isRetryable(fault)) throw error;
    logger.warn({ err: error }, "the ledger cannot be kept now");
  }
}

type KeptLog = Pick<LogWriter<Ledger, LedgerEvent>, "state" | "transact" | "onCommit">;

/** Checks each decision before it is written. */
function checkedLog(log: KeptLog, check: (ledger: Ledger, events: readonly LedgerEvent[]) => void): KeptLog {
  return {
    get state() {
      return log.state;
    },
    onCommit: (listener) => log.onCommit(listener),
    transact: (decide) =>
      log.transact((ledger) => {
        const decided = decide(ledger);
        check(ledger, decided.events);
        return decided;
      }),
  };
}

async function pause(signal: AbortSignal, ms: number = RETRY_MS): Promise<void> {
  await sleep(ms, undefined, { signal }).catch(() => undefined);
}
