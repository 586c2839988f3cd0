import { setTimeout as sleep } from "node:timers/promises";
import { serve } from "@muster/bus";
import { faultOf, isRetryable } from "@muster/faults";
import { bucketKeys, ReservationService } from "@muster/proto";
import { makeAnnouncer } from "@muster/reservation-manager/announcer";
import { readConfig } from "@muster/reservation-manager/config";
import { makeHandlers } from "@muster/reservation-manager/handlers";
import type { NodeFacts } from "@muster/reservation-manager/machines";
import { nodeCodec, toNodeFacts, type NodeEntry } from "@muster/reservation-manager/messages";
import { LedgerKeeper } from "@muster/reservation-manager/service";
import type { Leadership, View } from "@muster/store";
import { openSimLog } from "../sim-log.ts";
import { simLead } from "../sim-lead.ts";
import { traceLogger, type World } from "../world.ts";
import type { Replica } from "./replica.ts";
import { openBucketView } from "./views.ts";

const RETRY_MS = 500;
const CONFIG = readConfig({});

export async function runManager(world: World, replica: Replica): Promise<void> {
  const { gone, stop, process } = replica;
  const { view } = await openBucketView(world, world.nodeStates, nodeCodec, gone.signal);
  const election = { ...world, lock: world.ledgerLock, ttlMs: CONFIG.lockTtlMs };
  await simLead(election, process, stop.signal, (leadership) => keepLedger(world, replica, view, leadership));
}

async function keepLedger(
  world: World,
  { process, bus }: Replica,
  nodes: View<NodeEntry>,
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
    const live = (name: string): NodeFacts | undefined => {
      const entry = nodes.get(name)?.value;
      const facts = entry?.kind === "node" ? toNodeFacts(entry.state, CONFIG.poolLabel) : undefined;
      return facts && { ...facts, name };
    };
    const keeper = new LedgerKeeper(
      {
        log,
        nodes: () => nodes.entries().flatMap(({ key }) => live(key) ?? []),
        allNodesKnown: (nowMs) => {
          const mark = nodes.get(bucketKeys.nodesComplete)?.value;
          return mark?.kind === "complete" && nowMs - mark.atMs <= CONFIG.nodesFreshMs;
        },
        // No pool is scaled here.
        scalings: () => [],
        now: Date.now,
        announce: announcer.announce,
        decided: () => undefined,
        pause,
        until: (atMs, signal) => pause(signal, atMs - Date.now()),
      },
      CONFIG.policy,
    );
    const unlisten = nodes.onChange((name) => {
      if (name === bucketKeys.nodesComplete) keeper.nodesMarked();
      else keeper.observe(name, live(name));
    });
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
      unlisten();
    }
  } catch (error) {
    const fault = faultOf(error);
    if (fault === undefined || !isRetryable(fault)) throw error;
    logger.warn({ err: error }, "the ledger cannot be kept now");
  }
}

async function pause(signal: AbortSignal, ms: number = RETRY_MS): Promise<void> {
  await sleep(ms, undefined, { signal }).catch(() => undefined);
}
