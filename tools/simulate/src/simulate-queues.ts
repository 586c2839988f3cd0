import { makeMemoryBus } from "@muster/bus";
import { makeRandom } from "@muster/chaos/random";
import { startNemesis } from "./nemesis.ts";
import { checkQueueDecisions } from "./queues/decision-checks.ts";
import { drawForest, drawPreempting } from "./queues/draw-queues.ts";
import { drawWork } from "./queues/draw-work.ts";
import { startEvents } from "./queues/events.ts";
import { checkRecovered, judgeEnd } from "./queues/log-checks.ts";
import { startMachines } from "./queues/machines.ts";
import { startOwners, type Owners } from "./queues/owners.ts";
import { makeStarter, type Replica } from "./replicas/replica.ts";
import { POLICY, runManager, type CheckDecision, type TamperEvents } from "./replicas/reservation-manager.ts";
import { checkDecisions } from "./room-checks.ts";
import type { Simulation } from "./simulate.ts";
import type { Violation } from "./step-checks.ts";
import { makeWorld, STREAMS, type World } from "./world.ts";

export type QueueSimulationOptions = {
  readonly seed: number;
  /** Requests of all teams. */
  readonly queues: number;
  /** Plants a defect, for tests of the simulation itself. */
  readonly plant?: PlantedQueueDefects;
  readonly signal?: AbortSignal;
};

export type PlantedQueueDefects = {
  readonly events?: TamperEvents;
  /** The ledger's stream accepts entries of a deposed leader, and leaders do not check their clocks. */
  readonly ledgerWithoutFence?: boolean;
};

const REPLICAS = 2;
const MS_PER_REQUEST = 700;
/** Share of seeds without faults. There the ledger always decides soon, so that many requests wait only for quota and machines. */
const FAULTLESS_SEEDS = 0.3;
const SNAPSHOT_EVERY_ENTRIES = 20;
/** Waiting time after which some seeds hold machines and quota for a request. */
const HOLD_AFTER_MS = 20_000;
/** All work must be over within this time after the last event and the last fault. */
const END_WITHIN_MS = 3_600_000;
/** The ledger has decided all that it can within this time without a change of its log. */
const QUIET_MS = 60_000;
const CHECK_EVERY_STEPS = 200;

/** Runs one seed: requests of teams whose queues and machines change, with faults, then a time without, then the final checks. */
export async function simulateQueues(options: QueueSimulationOptions): Promise<Simulation> {
  const { seed, queues: count, plant } = options;
  const windowMs = Math.max(20_000, count * MS_PER_REQUEST);
  const withPolicies = drawPreempting(makeRandom(seed, "preemption"));
  const forest = drawForest(makeRandom(seed, "queues")).map(withPolicies);
  const sources = {
    random: makeRandom(seed, "work"),
    leaving: makeRandom(seed, "leaving"),
    kinds: makeRandom(seed, "kinds"),
  };
  const plans = drawWork(sources, forest, count, windowMs);
  const world = makeWorld(seed, []);
  const { time } = world;
  world.ledger.snapshotEveryEntries = SNAPSHOT_EVERY_ENTRIES;
  if (plant?.ledgerWithoutFence === true) {
    world.ledger.fenced = false;
    world.ledgerLock.holdersCheckClock = false;
  }
  const random = makeRandom(seed, "events");
  const policy = { ...POLICY, holdAfterMs: random.chance(0.3) ? HOLD_AFTER_MS : END_WITHIN_MS + 2 * windowMs };
  const violations: Violation[] = [];
  const check = combineChecks(checkDecisions(world, violations), checkQueueDecisions(world, violations, policy));
  const onRecovered = checkRecovered(world, violations);
  const { start, endAll } = makeStarter(world, {
    "reservation-manager": (_, replica) =>
      runManager(world, replica, { tamperEvents: plant?.events, check, hasQueues: true, policy, onRecovered }),
  });
  const server = makeMemoryBus({ world: world.bus.memory });
  for (const stream of STREAMS) await time.as(undefined, () => server.ensureStream(stream));
  const machines = startMachines(world);
  const untilMs = world.startMs + windowMs;
  const replicas: Replica[] = [];
  const faultsUntilMs = random.chance(FAULTLESS_SEEDS) ? world.startMs : untilMs;
  const nemesis = startNemesis(world, replicas, {
    random: makeRandom(seed, "nemesis"),
    untilMs: faultsUntilMs,
    informers: new Map(),
    start,
  });
  startEvents({ world, machines, forest, stated: new Map(), random, withPolicies }, untilMs);
  for (let replica = 0; replica < REPLICAS; replica += 1) replicas.push(start("reservation-manager"));
  const stop = new AbortController();
  const owners = startOwners(world, {
    machines,
    plans,
    random: makeRandom(seed, "owners"),
    untilMs: faultsUntilMs,
    end: stop.signal,
  });
  time.after(windowMs + 5000, undefined, () => nemesis.heal());
  await runUntilQuiet(world, owners, { violations, untilMs, signal: options.signal });
  violations.push(...world.defects.map((found) => buildDefect(world, found)));
  // After a violation the history may be impossible, so it is not judged.
  if (violations.length === 0) violations.push(...judgeEnd(world, owners));
  stop.abort();
  endAll();
  return {
    kind: "queues",
    seed,
    violations,
    trace: world.trace,
    startMs: world.startMs,
    virtualMs: time.nowMs - world.startMs,
    parts: 0,
    count,
    outcomes: countOutcomes(owners),
    faults: world.weather.faultCounts,
    lifeMs: plans.reduce((sum, { id, runMs }) => sum + (owners.outcomes.get(id) === "done" ? runMs : 0), 0),
  };
}

function combineChecks(one: CheckDecision, other: CheckDecision): CheckDecision {
  return (...decision) => {
    one(...decision);
    other(...decision);
  };
}

async function runUntilQuiet(
  world: World,
  { plans, outcomes }: Owners,
  until: {
    readonly violations: readonly Violation[];
    readonly untilMs: number;
    readonly signal: AbortSignal | undefined;
  },
): Promise<void> {
  const { time, ledger, defects } = world;
  let changedAtMs = time.nowMs;
  let overAtMs: number | undefined;
  ledger.onEntry.push((events) => {
    if (events.length > 0) changedAtMs = time.nowMs;
  });
  const isFine = (): boolean => until.violations.length + defects.length === 0 && until.signal?.aborted !== true;
  while (isFine() && (await time.step()) && time.nowMs < until.untilMs + END_WITHIN_MS) {
    if (time.steps % CHECK_EVERY_STEPS !== 0 || time.nowMs < until.untilMs + QUIET_MS) continue;
    if (overAtMs === undefined && plans.every(({ id }) => outcomes.has(id))) overAtMs = time.nowMs;
    // Work that has just ended still releases its machines.
    const sinceMs = time.nowMs - Math.max(changedAtMs, overAtMs ?? 0);
    if (sinceMs > (overAtMs === undefined ? QUIET_MS : QUIET_MS / 4)) return;
  }
}

function buildDefect({ time }: World, found: string): Violation {
  return { atMs: time.nowMs, session: undefined, rule: "no code fails unexpectedly", found };
}

function countOutcomes({ plans, outcomes }: Owners): ReadonlyMap<string, number> {
  const counts = new Map<string, number>();
  for (const { id } of plans) {
    const outcome = outcomes.get(id) ?? "waits";
    counts.set(outcome, (counts.get(outcome) ?? 0) + 1);
  }
  return counts;
}
