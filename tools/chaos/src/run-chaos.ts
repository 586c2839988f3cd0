import { setTimeout as sleep } from "node:timers/promises";
import type { ApiServerKind } from "./api-server-process.ts";
import { judgeRun } from "./domain/judge-run.ts";
import type { Finding } from "./domain/finding.ts";
import type { FaultSeen, RunObservations, Outage, PodDeletion } from "./domain/observed.ts";
import { type Fault, planFaults } from "./domain/plan-faults.ts";
import { type JobShape, planJobs } from "./domain/plan-jobs.ts";
import { type ForeignPlan, planForeign } from "./domain/plan-foreign.ts";
import { endResidents, runForeignPod, startResidents } from "./foreign-users.ts";
import { planQueues, type TeamQueue } from "./domain/plan-queues.ts";
import { planSessionShapes, type SessionShape } from "./domain/plan-session-shapes.ts";
import { startQueues } from "./queue-observer.ts";
import { injectFault, type Injection } from "./inject-fault.ts";
import { runJobUser } from "./job-users.ts";
import { waitForCleanUp, listSessions, listLocksLeft, readAllPublished, readLedger } from "./collect-results.ts";
import { followMilestones, type Milestones } from "./milestones.ts";
import { runUser, type UserLog } from "./users.ts";
import { ACK_WAIT_MS, LOCK_TTL_MS, startWorld, waitForPools, type World } from "./world.ts";

export type ChaosOptions = {
  readonly seed: number;
  readonly sessions: number;
  readonly jobs: number;
  readonly faults: number;
  readonly apiServer: ApiServerKind;
  /** An empty directory for all files of the run. */
  readonly directory: string;
  readonly env: Readonly<Record<string, string | undefined>>;
  readonly signal: AbortSignal;
  readonly onProgress: (progress: Progress) => void;
};

export type Progress = {
  readonly doing: string;
  /** Number of sessions and jobs. */
  readonly total: number;
  readonly counts: ReturnType<Milestones["count"]> | undefined;
  readonly faultsBegun: number;
  readonly faults: number;
  /** Descriptions of the faults in force. */
  readonly inForce: readonly string[];
};

/** The sessions, jobs and faults that are drawn from the seed. */
export type ChaosPlan = {
  readonly shapes: readonly SessionShape[];
  readonly jobs: readonly JobShape[];
  readonly faults: readonly Fault[];
  readonly foreign: ForeignPlan;
  /** The queues of the jobs. */
  readonly teams: readonly TeamQueue[];
};

/** The result of a run: its violations, and the observations for the story of a session or job. */
export type ChaosRun = {
  readonly plan: ChaosPlan;
  readonly observed: RunObservations;
  readonly findings: readonly Finding[];
  readonly userLog: UserLog;
  readonly tookMs: number;
};

export const POOLS = { drivers: 10, workers: 30 } as const;
const REPLICAS = 2;
/** Exceeds the usual number of machine holders, so that runs reach this limit as well as the capacity of the pools. */
const MAX_EXECUTORS = 9;
/** Milliseconds per session and job in which work is submitted and faults begin. */
const WINDOW_MS_PER_WORK = 280;
/** A run without progress and without a fault in force for this time is stuck. */
const STUCK_AFTER_MS = 60_000;
const CLEAN_WITHIN_MS = 60_000;
const QUEUES_TIMEOUT_MS = 30_000;
/** Longer than the longest TTL of a lock, 10 seconds for sweeps. */
const LOCK_RELEASE_MS = 20_000;
const TICK_MS = 200;

/** Plans the run of a seed. Pure: the same arguments give the same plan. */
export function planChaos(options: Pick<ChaosOptions, "seed" | "sessions" | "jobs" | "faults">): ChaosPlan {
  const { seed, sessions, faults } = options;
  const windowMs = (sessions + options.jobs) * WINDOW_MS_PER_WORK;
  const shapes = planSessionShapes(seed, { sessions, windowMs, pools: POOLS });
  const jobs = planJobs(seed, { jobs: options.jobs, windowMs, pools: POOLS });
  const patienceMs = Math.max(LOCK_TTL_MS, ACK_WAIT_MS);
  return {
    shapes,
    jobs,
    teams: planQueues(seed),
    foreign: planForeign(seed, { windowMs, pools: POOLS }),
    faults: planFaults(seed, { shapes, jobs }, { faults, windowMs, replicas: REPLICAS, pools: POOLS, patienceMs }),
  };
}

/** Starts a new stack, runs the sessions and jobs of the seed with its faults, and checks the outcomes. */
export async function runChaos(options: ChaosOptions): Promise<ChaosRun> {
  const { signal, onProgress } = options;
  const plan = planChaos(options);
  const beganMs = performance.now();
  const nothing = {
    total: options.sessions + options.jobs,
    counts: undefined,
    faultsBegun: 0,
    faults: options.faults,
    inForce: [],
  };
  await using world = await startWorld({
    ...options,
    pools: POOLS,
    replicas: REPLICAS,
    executors: MAX_EXECUTORS,
    onProgress: (doing) => onProgress({ ...nothing, doing }),
  });
  using milestones = followMilestones(world.records, world.jobs);
  await placeResidents(world, plan.foreign, signal);
  if (plan.jobs.length > 0)
    await startQueues(world.calls, world.queues, plan.teams, { signal, timeoutMs: QUEUES_TIMEOUT_MS });
  const userLog: UserLog = { acknowledged: new Set(), refused: new Map(), entries: [] };
  const { faults, outages, podDeletions } = await runPlan(options, { world, milestones, userLog, plan });
  signal.throwIfAborted();
  onProgress({ ...nothing, doing: "waiting for the clean-up" });
  const left = await waitForCleanUp(world, { pools: POOLS, jobs: plan.jobs }, { limitMs: CLEAN_WITHIN_MS, signal });
  onProgress({ ...nothing, doing: "checking the outcomes" });
  const sessions = await listSessions(world);
  const published = await readAllPublished(world);
  const ledger = await readLedger(world);
  const livingPids = (): number[] => world.stack.replicas.map((replica) => replica.current().pid);
  const lost = await listLocksLeft(world, { livingPids, limitMs: LOCK_RELEASE_MS });
  await world.stopServices();
  const kept = await listLocksLeft(world, { livingPids: () => [], limitMs: 0 });
  const observed: RunObservations = {
    sessions,
    jobs: world.jobs.history(),
    acknowledged: userLog.acknowledged,
    refused: userLog.refused,
    published,
    pods: world.pods.history(),
    ledger,
    outages,
    podDeletions,
    faults,
    room: world.room.seen(),
    queues: world.queues.seen(),
    left: { ...left, locks: [...lost, ...kept] },
  };
  const findings = judgeRun(plan, observed);
  return { plan, observed, findings, userLog, tookMs: performance.now() - beganMs };
}

/** Resolves when the ledger counts the residents: their nodes are not available as a whole. */
async function placeResidents(world: World, foreign: ForeignPlan, signal: AbortSignal): Promise<void> {
  await startResidents(world.calls, foreign, world.nodes.names);
  const free = Object.entries(POOLS).map(([pool, nodes]) => {
    const taken = foreign.residents.filter(({ node }) => node.startsWith(`${pool}-`)).length;
    return [pool, nodes - taken] as const;
  });
  await waitForPools(world.ledger, Object.fromEntries(free), signal);
}

type Stage = {
  readonly world: World;
  readonly milestones: Milestones;
  readonly userLog: UserLog;
  readonly plan: ChaosPlan;
};

/** Runs until every session and job has ended, or the run is stuck. All faults have ended then. */
async function runPlan(
  { signal, onProgress, sessions, jobs, faults: faultCount }: ChaosOptions,
  { world, milestones, userLog, plan }: Stage,
): Promise<{
  readonly faults: readonly FaultSeen[];
  readonly outages: readonly Outage[];
  readonly podDeletions: readonly PodDeletion[];
}> {
  const startedAtMs = performance.now();
  const calm = new AbortController();
  const total = sessions + jobs;
  const outages: Outage[] = [];
  const podDeletions: PodDeletion[] = [];
  const seen = new Map<string, FaultSeen>();
  let changedAtMs = startedAtMs;
  const injection: Injection = {
    world,
    milestones,
    startedAtMs,
    calm: AbortSignal.any([calm.signal, signal]),
    outages,
    podDeletions,
    onChange: (fault) => {
      seen.set(fault.id, fault);
      changedAtMs = performance.now();
    },
  };
  const users = new AbortController();
  const stop = AbortSignal.any([users.signal, signal]);
  const userDeps = { world, milestones, userLog, startedAtMs, stop };
  const faults = Promise.all(plan.faults.map((fault) => injectFault(injection, fault)));
  const submitted = Promise.all([
    ...plan.shapes.map((shape) => runUser(userDeps, shape)),
    ...plan.jobs.map((shape) => runJobUser(userDeps, shape)),
  ]);
  const foreignDeps = { calls: world.calls, startedAtMs, calm: calm.signal, stop: signal };
  const foreign = Promise.all(plan.foreign.pods.map((pod) => runForeignPod(foreignDeps, pod)));
  const failed = Promise.all([faults, submitted, foreign]).then(() => undefined);
  const inForce = (): FaultSeen[] => [...seen.values()].filter(({ toMs }) => toMs === undefined);
  for (;;) {
    const counts = milestones.count();
    onProgress({
      doing: "running",
      total,
      counts,
      faultsBegun: seen.size,
      faults: faultCount,
      inForce: inForce().map(({ text }) => text),
    });
    if (counts.over === total || signal.aborted) break;
    const progressedAtMs = Math.max(changedAtMs, milestones.progressedAtMs());
    if (inForce().length === 0 && performance.now() - progressedAtMs > STUCK_AFTER_MS) break;
    // An error in a user or a fault ends the run immediately.
    await Promise.race([sleep(TICK_MS), failed.then(() => sleep(TICK_MS))]);
  }
  calm.abort();
  const ended = await faults;
  // Users also act on ended work.
  if (milestones.count().over === total)
    await Promise.race([submitted, sleep(STUCK_AFTER_MS, undefined, { ref: false })]);
  users.abort();
  await submitted;
  await foreign;
  await endResidents(world.calls, plan.foreign, signal);
  return { faults: ended, outages, podDeletions };
}
