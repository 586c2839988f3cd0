import { setTimeout as sleep } from "node:timers/promises";
import type { ApiServerKind } from "./api-server-process.ts";
import { judgeRun } from "./domain/judge-run.ts";
import type { Finding } from "./domain/finding.ts";
import type { FaultSeen, Observed, Outage, PodDeletion } from "./domain/observed.ts";
import { type Fault, planFaults } from "./domain/plan-faults.ts";
import { type JobShape, planJobs } from "./domain/plan-jobs.ts";
import { planShapes, type Shape } from "./domain/plan-shapes.ts";
import { injectFault, type Injection } from "./inject-fault.ts";
import { beJobUser } from "./job-users.ts";
import { awaitNothingLeft, listSessions, locksLeft, readAllPublished, readLedger } from "./look-back.ts";
import { followMilestones, type Milestones } from "./milestones.ts";
import { beUser, type Diary } from "./users.ts";
import { ACK_WAIT_MS, LOCK_TTL_MS, startWorld, type World } from "./world.ts";

export type ChaosOptions = {
  readonly seed: number;
  readonly sessions: number;
  readonly jobs: number;
  readonly faults: number;
  readonly apiServer: ApiServerKind;
  /** Everything is written below it; it has to be empty. */
  readonly directory: string;
  readonly env: Readonly<Record<string, string | undefined>>;
  readonly signal: AbortSignal;
  readonly onProgress: (progress: Progress) => void;
};

export type Progress = {
  readonly doing: string;
  /** How many sessions and jobs there will be. */
  readonly works: number;
  readonly counts: ReturnType<Milestones["count"]> | undefined;
  readonly faultsBegun: number;
  readonly faults: number;
  /** What is in force now. */
  readonly inForce: readonly string[];
};

/** What is drawn from the seed. */
export type Plan = {
  readonly shapes: readonly Shape[];
  readonly jobs: readonly JobShape[];
  readonly faults: readonly Fault[];
};

/** How a run went: judged, and what is needed to tell the story of a session or job. */
export type Run = {
  readonly plan: Plan;
  readonly observed: Observed;
  readonly findings: readonly Finding[];
  readonly diary: Diary;
  readonly tookMs: number;
};

export const POOLS = { drivers: 10, workers: 30 } as const;
const REPLICAS = 2;
/** More than have machines at most times, so that the limit is met as well as the pools' ends. */
const EXECUTORS = 9;
/** Sessions and jobs are submitted, and faults begin, within this time for each of them. */
const WINDOW_MS_PER_WORK = 280;
/** Without any work coming further, and without a fault in force, for so long nothing more is expected. */
const STUCK_AFTER_MS = 60_000;
const CLEAN_WITHIN_MS = 60_000;
/** The lock of sweeps lasts 10 seconds without its holder. */
const LOCK_NOTICED_MS = 20_000;
const TICK_MS = 200;

/** What a run of this seed does. Pure: the same arguments give the same plan. */
export function planChaos(options: Pick<ChaosOptions, "seed" | "sessions" | "jobs" | "faults">): Plan {
  const { seed, sessions, faults } = options;
  const windowMs = (sessions + options.jobs) * WINDOW_MS_PER_WORK;
  const shapes = planShapes(seed, { sessions, windowMs, pools: POOLS });
  const jobs = planJobs(seed, { jobs: options.jobs, windowMs, pools: POOLS });
  const patienceMs = Math.max(LOCK_TTL_MS, ACK_WAIT_MS);
  return {
    shapes,
    jobs,
    faults: planFaults(seed, { shapes, jobs }, { faults, windowMs, replicas: REPLICAS, pools: POOLS, patienceMs }),
  };
}

/** Starts a stack of its own, runs the sessions and jobs of the seed on it while its faults hit it, and judges what came of them. */
export async function runChaos(options: ChaosOptions): Promise<Run> {
  const { signal, onProgress } = options;
  const plan = planChaos(options);
  const beganMs = performance.now();
  const nothing = {
    works: options.sessions + options.jobs,
    counts: undefined,
    faultsBegun: 0,
    faults: options.faults,
    inForce: [],
  };
  await using world = await startWorld({
    ...options,
    pools: POOLS,
    replicas: REPLICAS,
    executors: EXECUTORS,
    onProgress: (doing) => onProgress({ ...nothing, doing }),
  });
  using milestones = followMilestones(world.records, world.jobs);
  const diary: Diary = { acknowledged: new Set(), refused: new Map(), entries: [] };
  const { faults, outages, podDeletions } = await runPlan(options, { world, milestones, diary, plan });
  signal.throwIfAborted();
  onProgress({ ...nothing, doing: "waiting until everything is clean" });
  const left = await awaitNothingLeft(world, { pools: POOLS, jobs: plan.jobs }, { limitMs: CLEAN_WITHIN_MS, signal });
  onProgress({ ...nothing, doing: "judging" });
  const sessions = await listSessions(world);
  const published = await readAllPublished(world);
  const ledger = await readLedger(world);
  const livingPids = (): number[] => world.stack.replicas.map((replica) => replica.current().pid);
  const lost = await locksLeft(world, { livingPids, limitMs: LOCK_NOTICED_MS });
  await world.stopServices();
  const kept = await locksLeft(world, { livingPids: () => [], limitMs: 0 });
  const observed: Observed = {
    sessions,
    jobs: world.jobs.ever(),
    acknowledged: diary.acknowledged,
    refused: diary.refused,
    published,
    pods: world.pods.ever(),
    ledger,
    outages,
    podDeletions,
    faults,
    left: { ...left, locks: [...lost, ...kept] },
  };
  const findings = judgeRun(plan, observed);
  return { plan, observed, findings, diary, tookMs: performance.now() - beganMs };
}

type Stage = {
  readonly world: World;
  readonly milestones: Milestones;
  readonly diary: Diary;
  readonly plan: Plan;
};

/** Until every session and job is over, or nothing moves any more. Whatever was broken works again afterwards. */
async function runPlan(
  { signal, onProgress, sessions, jobs, faults: faultCount }: ChaosOptions,
  { world, milestones, diary, plan }: Stage,
): Promise<{
  readonly faults: readonly FaultSeen[];
  readonly outages: readonly Outage[];
  readonly podDeletions: readonly PodDeletion[];
}> {
  const startedAtMs = performance.now();
  const calm = new AbortController();
  const works = sessions + jobs;
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
  const userDeps = { world, milestones, diary, startedAtMs, stop };
  const faults = Promise.all(plan.faults.map((fault) => injectFault(injection, fault)));
  const submitted = Promise.all([
    ...plan.shapes.map((shape) => beUser(userDeps, shape)),
    ...plan.jobs.map((shape) => beJobUser(userDeps, shape)),
  ]);
  const failed = Promise.all([faults, submitted]).then(() => undefined);
  const inForce = (): FaultSeen[] => [...seen.values()].filter(({ toMs }) => toMs === undefined);
  for (;;) {
    const counts = milestones.count();
    onProgress({
      doing: "running",
      works,
      counts,
      faultsBegun: seen.size,
      faults: faultCount,
      inForce: inForce().map(({ text }) => text),
    });
    if (counts.over === works || signal.aborted) break;
    const movedAtMs = Math.max(changedAtMs, milestones.movedAtMs());
    if (inForce().length === 0 && performance.now() - movedAtMs > STUCK_AFTER_MS) break;
    // A defect of ours in one of them ends the run at once.
    await Promise.race([sleep(TICK_MS), failed.then(() => sleep(TICK_MS))]);
  }
  calm.abort();
  const ended = await faults;
  // Users have things to do with work that is over, too.
  if (milestones.count().over === works)
    await Promise.race([submitted, sleep(STUCK_AFTER_MS, undefined, { ref: false })]);
  users.abort();
  await submitted;
  return { faults: ended, outages, podDeletions };
}
