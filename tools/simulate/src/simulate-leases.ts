import { makeMemoryBus } from "@muster/bus";
import { makeRandom } from "@muster/chaos/random";
import { streams } from "@muster/proto";
import { watchLeases, findLease } from "./lease-checks.ts";
import { MAX_DURATION_MS, drawLeases, LEASE_MACHINES, LEASE_POOL, startLeaseUsers } from "./lease-users.ts";
import { startNemesis } from "./nemesis.ts";
import { runProvisionEngine, type TamperEngine } from "./replicas/provision-engine.ts";
import { makeStarter, type Replica, type Role } from "./replicas/replica.ts";
import { runManager } from "./replicas/reservation-manager.ts";
import { checkDecisions } from "./room-checks.ts";
import { runWatcher, type InterruptibleInformers } from "./replicas/watcher.ts";
import type { Simulation } from "./simulate.ts";
import { watchSteps, type Violation } from "./step-checks.ts";
import { makeWorld, STREAMS } from "./world.ts";

export type LeaseSimulationOptions = {
  readonly seed: number;
  readonly leases: number;
  /** Plants a defect in the engine, for tests of the simulation itself. */
  readonly plant?: TamperEngine;
  readonly signal?: AbortSignal;
};

const REPLICAS: readonly Role[] = [
  "provision-engine",
  "provision-engine",
  "reservation-manager",
  "reservation-manager",
  "watcher",
];
const MS_PER_LEASE = 2000;
/** Long enough without faults that clean-up has run twice since the last end. */
const TIDY_MS = 60_000;

/** Runs one seed: leases with faults, then a time without faults, then the final checks. */
export async function simulateLeases(options: LeaseSimulationOptions): Promise<Simulation> {
  const { seed, leases } = options;
  const windowMs = Math.max(20_000, leases * MS_PER_LEASE);
  const plans = drawLeases(makeRandom(seed, "leases"), leases, windowMs);
  const world = makeWorld(seed, []);
  const { time } = world;
  // The engine trusts answers of the ledger. For an answer without a write, only its own clock stops a deposed leader.
  world.ledgerLock.holdersCheckClock = true;
  const violations: Violation[] = [];
  const informers: InterruptibleInformers = new Map();
  watchSteps(world, violations);
  const checks = watchLeases(world, violations);
  const watched = { tamper: options.plant ?? ((ops) => ops), watch: checks.watchWorkload };
  const { start, endAll } = makeStarter(world, {
    "provision-engine": (_, replica) => runProvisionEngine(world, replica, watched),
    "reservation-manager": (_, replica) => runManager(world, replica, { check: checkDecisions(world, violations) }),
    watcher: (_, replica) => runWatcher(world, replica, informers),
  });
  const server = makeMemoryBus({ world: world.bus.memory });
  for (const stream of [...STREAMS, streams.audit, streams.leaseOrders])
    await time.as(undefined, () => server.ensureStream(stream));
  for (let index = 0; index < LEASE_MACHINES; index += 1) world.kubelets.addNode(`node-${index}`, LEASE_POOL);
  const untilMs = world.startMs + windowMs;
  const replicas: Replica[] = [];
  const nemesis = startNemesis(world, replicas, { random: makeRandom(seed, "nemesis"), untilMs, informers, start });
  for (const role of REPLICAS) replicas.push(start(role));
  const endMs = untilMs + 2 * MAX_DURATION_MS + TIDY_MS;
  startLeaseUsers(world, plans, endMs);
  time.after(windowMs + 5000, undefined, () => nemesis.heal());
  const isFine = (): boolean => violations.length === 0 && world.defects.length === 0;
  while (isFine() && options.signal?.aborted !== true && time.nowMs < endMs) if (!(await time.step())) break;
  for (const found of world.defects)
    violations.push({
      atMs: time.nowMs,
      session: undefined,
      rule: "no code fails unexpectedly",
      found,
    });
  // After a violation the history may be impossible, so it is not judged.
  if (isFine()) checks.judge();
  endAll();
  const records = plans.flatMap(({ id }) => findLease(world, id) ?? []);
  return {
    kind: "leases",
    seed,
    violations,
    trace: world.trace,
    startMs: world.startMs,
    virtualMs: time.nowMs - world.startMs,
    parts: 0,
    count: leases,
    outcomes: countOutcomes(records),
    faults: world.weather.faultCounts,
    lifeMs: records.reduce((sum, { order, endedAtNs = order.createdNs }) => sum + toMs(endedAtNs - order.createdNs), 0),
  };
}

function countOutcomes(records: readonly NonNullable<ReturnType<typeof findLease>>[]): ReadonlyMap<string, number> {
  const counts = new Map<string, number>();
  for (const { order, phase, ending } of records) {
    const outcome = `${order.type} ${phase} ${ending?.cause ?? ""}`.trim();
    counts.set(outcome, (counts.get(outcome) ?? 0) + 1);
  }
  return counts;
}

function toMs(ns: bigint): number {
  return Number(ns / 1_000_000n);
}
