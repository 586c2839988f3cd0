import { makeMemoryBus } from "@muster/bus";
import { judgeRun, RESULT_RULE } from "@muster/chaos/judge-run";
import { DRIVERS, planSessionShapes, WORKERS, type SessionShape } from "@muster/chaos/plan-shapes";
import { makeRandom } from "@muster/chaos/random";
import { isFinished } from "@muster/session-controller/session";
import { startNemesis } from "./nemesis.ts";
import { observeWorld } from "./observe.ts";
import { endReplica, makeStarter, type Replica, type Role } from "./replicas/replica.ts";
import { runManager, type TamperNodes } from "./replicas/reservation-manager.ts";
import { runController, type RequestTargets, type Tamper } from "./replicas/session-controller.ts";
import { runWatcher, type InterruptibleInformers } from "./replicas/watcher.ts";
import { checkDecisions } from "./room-checks.ts";
import { isAllDone, judgeSharing, startSharing } from "./sharing.ts";
import { getSize } from "./foreign-pods.ts";
import { watchSteps, type Violation } from "./step-checks.ts";
import type { Trace } from "./trace.ts";
import { decodeRecord, readRecord, startUsers, type UserAnswers, type UserSession } from "./users.ts";
import type { FaultKind } from "./fault-risks.ts";
import { makeWorld, STREAMS, type World } from "./world.ts";

export type SimulationOptions = {
  readonly seed: number;
  readonly sessions: number;
  /** Owners that request parts of machines. With any, nodes have sizes, and foreign pods run on them. Default: 0. */
  readonly parts?: number;
  /** Plants a defect, for tests of the simulation itself. */
  readonly plant?: PlantedDefects;
  /** Calls `inspect` with the world, `ms` after the start. */
  readonly inspectAt?: { readonly ms: number; readonly inspect: (world: World) => void };
  readonly signal?: AbortSignal;
};

export type PlantedDefects = {
  /** Replaces the dependencies of the executor. */
  readonly executor?: Tamper;
  /** The ledger's stream accepts entries of a deposed leader, and leaders do not check their clocks. */
  readonly ledgerWithoutFence?: boolean;
  /** Replaces the ledger's view of the nodes. */
  readonly nodes?: TamperNodes;
  /** Sets the clocks of the watchers ahead by this time, and kills all watchers after 20 seconds. */
  readonly fastWatchersMs?: number;
};

export type Simulation = {
  readonly kind: "sessions" | "leases" | "queues";
  readonly seed: number;
  readonly violations: readonly Violation[];
  readonly trace: Trace;
  readonly startMs: number;
  readonly virtualMs: number;
  /** Owners of parts. */
  readonly parts: number;
  /** Number of sessions, leases or requests of queues. */
  readonly count: number;
  readonly outcomes: ReadonlyMap<string, number>;
  readonly faults: ReadonlyMap<FaultKind, number>;
  /** Total lifetime of all sessions, leases or requests. */
  readonly lifeMs: number;
};

const REPLICAS: readonly Role[] = [
  "session-controller",
  "session-controller",
  "reservation-manager",
  "reservation-manager",
  "watcher",
  "watcher",
];
const POOLS = { [DRIVERS]: 4, [WORKERS]: 12 };
const MS_PER_SESSION = 600;
/** Every third session has shared components if nodes have sizes. */
const SHARED_EVERY = 3;
/** Every third session has a driver that accepts a machine of the workers, too: the drivers run out first. */
const ACCEPTING_EVERY = 3;
/** All sessions must end within this time after the last submission and the last fault. A session may run for a quarter of an hour. */
const END_WITHIN_MS = 3 * 3_600_000;
/** Ended sessions are cleaned up within this additional time. */
const TIDY_MS = 100_000;
const CHECK_EVERY_STEPS = 500;
const WATCHERS_END_MS = 20_000;

/** Runs one seed: sessions with faults, then a time without faults, then the final checks. */
export async function runSimulation(options: SimulationOptions): Promise<Simulation> {
  const { seed, parts = 0 } = options;
  const windowMs = Math.max(10_000, options.sessions * MS_PER_SESSION);
  const shapes = planSessionShapes(seed, { sessions: options.sessions, windowMs, pools: POOLS });
  const world = makeWorld(seed, shapes);
  if (options.plant?.ledgerWithoutFence === true) {
    world.ledger.fenced = false;
    world.ledgerLock.holdersCheckClock = false;
  }
  const { time } = world;
  const violations: Violation[] = [];
  const answers: UserAnswers = { acknowledged: new Set(), refused: new Map() };
  const informers: InterruptibleInformers = new Map();
  const targets: RequestTargets = new Map();
  watchSteps(world, violations);
  const tamper = options.plant?.executor ?? ((deps) => deps);
  const { start, endAll } = makeStarter(world, {
    "session-controller": (_, replica) => runController(world, replica, targets, tamper),
    "reservation-manager": (_, replica) =>
      runManager(world, replica, { tamper: options.plant?.nodes, check: checkDecisions(world, violations) }),
    watcher: (_, replica) => runWatcher(world, replica, informers),
  });
  const replicas: Replica[] = [];
  const server = makeMemoryBus({ world: world.bus.memory });
  for (const stream of STREAMS) await time.as(undefined, () => server.ensureStream(stream));
  for (const [pool, count] of Object.entries(POOLS))
    for (let index = 0; index < count; index += 1)
      world.kubelets.addNode(`${pool}-${index}`, pool, parts === 0 ? undefined : getSize(index));
  const untilMs = world.startMs + windowMs + 30_000;
  const nemesis = startNemesis(world, replicas, { random: makeRandom(seed, "nemesis"), untilMs, informers, start });
  const sharing = parts === 0 ? undefined : startSharing(world, violations, { seed, parts, windowMs, untilMs });
  const observer = observeWorld(world, answers, nemesis.outages);
  for (const role of REPLICAS) replicas.push(start(role));
  if (options.plant?.fastWatchersMs !== undefined) plantFastWatchers(world, replicas, options.plant.fastWatchersMs);
  const sessions = shapes.map(acceptPools);
  startUsers(world, targets, parts === 0 ? sessions : sessions.map(withSharedComponents), answers);
  time.after(untilMs - time.nowMs + 5000, undefined, () => {
    nemesis.heal();
    sharing?.foreign.end();
  });
  if (options.inspectAt !== undefined) {
    const { ms, inspect } = options.inspectAt;
    time.after(ms, undefined, () => inspect(world));
  }
  const isSharingOver = (): boolean => sharing === undefined || isAllDone(sharing);
  await runToTheEnd(world, shapes, answers, { violations, untilMs, isSharingOver, signal: options.signal });
  if (violations.length === 0) violations.push(...world.defects.map((found) => buildDefect(world, found)));
  // After a violation the history may be impossible, so it is not judged.
  if (violations.length === 0)
    violations.push(...judgeSharing(world, sharing), ...judge(world, shapes, observer.observed()));
  sharing?.stop();
  endAll();
  const records = [...world.sessions.entries.values()].map(({ bytes }) => decodeRecord(bytes));
  return {
    kind: "sessions",
    seed,
    violations,
    trace: world.trace,
    startMs: world.startMs,
    virtualMs: time.nowMs - world.startMs,
    parts,
    count: shapes.length,
    outcomes: countOutcomes(records),
    faults: world.weather.faultCounts,
    lifeMs: records.reduce((sum, { createdAtMs, finishedAtMs }) => sum + Math.max(0, finishedAtMs - createdAtMs), 0),
  };
}

function acceptPools(shape: SessionShape, index: number): UserSession {
  return { ...shape, otherPools: index % ACCEPTING_EVERY === 1 ? [WORKERS] : [] };
}

/** Parts of a session that is too large for its pool could fit. */
function withSharedComponents(shape: UserSession, index: number): UserSession {
  return { ...shape, isShared: index % SHARED_EVERY === 0 && shape.intent !== "pool-too-small" };
}

function plantFastWatchers(world: World, replicas: Replica[], aheadMs: number): void {
  const watchers = replicas.filter(({ role }) => role === "watcher");
  for (const { process } of watchers) process.clockOffsetMs = aheadMs;
  world.time.after(WATCHERS_END_MS, undefined, () => {
    for (const watcher of watchers) {
      endReplica(world, watcher);
      replicas.splice(replicas.indexOf(watcher), 1);
    }
  });
}

async function runToTheEnd(
  world: World,
  shapes: readonly SessionShape[],
  answers: UserAnswers,
  until: {
    readonly violations: readonly Violation[];
    readonly untilMs: number;
    readonly isSharingOver: () => boolean;
    readonly signal: AbortSignal | undefined;
  },
): Promise<void> {
  const { time } = world;
  const limitMs = until.untilMs + END_WITHIN_MS;
  let tidyAtMs = Infinity;
  while (until.violations.length === 0 && world.defects.length === 0 && until.signal?.aborted !== true) {
    if (!(await time.step()) || time.nowMs > Math.min(limitMs, tidyAtMs)) return;
    if (time.steps % CHECK_EVERY_STEPS !== 0 || tidyAtMs < Infinity || time.nowMs < until.untilMs + 5000) continue;
    if (shapes.every(({ name }) => isOver(world, answers, name)) && until.isSharingOver())
      tidyAtMs = time.nowMs + TIDY_MS;
  }
}

function isOver(world: World, answers: UserAnswers, name: string): boolean {
  const record = readRecord(world, name);
  return answers.refused.has(name) || (record !== undefined && isFinished(record));
}

function buildDefect({ time }: World, found: string): Violation {
  return { atMs: time.nowMs, session: undefined, rule: "no code fails unexpectedly", found };
}

function judge(world: World, shapes: readonly SessionShape[], observed: Parameters<typeof judgeRun>[1]): Violation[] {
  const atMs = world.time.nowMs;
  return judgeRun({ shapes, jobs: [] }, observed)
    .filter(({ rule, work }) => !isExplained(rule, work, observed))
    .map(({ work, rule, expected, found }) => ({ atMs, session: work, rule, found: `${found}; expected ${expected}` }));
}

/** Accepts a lost result of an unreadable log: this rule of real runs is weaker here. */
function isExplained(rule: string, session: string | undefined, { sessions }: Parameters<typeof judgeRun>[1]): boolean {
  return rule === RESULT_RULE && (sessions.get(session ?? "")?.warnings.length ?? 0) > 0;
}

function countOutcomes(
  sessions: Iterable<{ readonly events: readonly { readonly kind: string; readonly reason: string }[] }>,
): ReadonlyMap<string, number> {
  const counts = new Map<string, number>();
  for (const { events } of sessions) {
    const last = events.at(-1);
    const outcome = last === undefined ? "none" : `${last.kind} ${last.reason}`.trim();
    counts.set(outcome, (counts.get(outcome) ?? 0) + 1);
  }
  return counts;
}
