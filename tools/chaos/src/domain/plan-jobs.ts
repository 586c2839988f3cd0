import { DRIVERS, PHASES, type Phase, WORKERS } from "./plan-session-shapes.ts";
import type { Quantities } from "./plan-foreign.ts";
import { planTeam } from "./plan-queues.ts";
import { type Random, makeRandom } from "./random.ts";

/** The intent of a job decides its outcome without faults. */
export const JOB_INTENTS = [
  "good",
  "flaky-beside",
  "member-fails",
  "permanent-code",
  "budget-spent",
  "gang-restarts",
  "deadline",
  "pool-too-small",
] as const;
export type JobIntent = (typeof JOB_INTENTS)[number];

export type RestartPolicy = "Always" | "OnFailure" | "Never" | "ExitCode";

/** One replica type; all its pods behave the same. */
export type ReplicaShape = {
  readonly type: string;
  readonly replicas: number;
  readonly pool: string;
  readonly restartPolicy: RestartPolicy;
  /** The type that must be ready first. */
  readonly after: string | undefined;
  readonly startMs: number;
  /** Undefined where the pod is ready when it runs. */
  readonly readyMs: number | undefined;
  /** Undefined where the pod runs until SIGTERM. */
  readonly ends: { readonly afterMs: number; readonly code: number } | undefined;
  /** Undefined where the pod ignores SIGTERM. */
  readonly termMs: number | undefined;
  /** Requests of its pods, which get parts of machines; undefined: whole machines. */
  readonly requests: Quantities | undefined;
};

export const USER_ACTIONS = ["cancel", "delete", "suspend"] as const;

/** The action of a job's user after it has reached the phase. A suspended job is resumed after `forMs`. */
export type UserAction = {
  readonly kind: (typeof USER_ACTIONS)[number];
  readonly phase: Phase;
  readonly afterMs: number;
  readonly forMs: number;
};

/** One drawn job. */
export type JobShape = {
  readonly name: string;
  readonly intent: JobIntent;
  /** Milliseconds after the start of the run. */
  readonly submitAtMs: number;
  readonly submitTwice: boolean;
  /** The replica types in the order of the spec. */
  readonly types: readonly ReplicaShape[];
  /** The job succeeds once all pods of this type have succeeded; undefined where all types must. */
  readonly winner: string | undefined;
  readonly backoffLimit: number;
  /** A failure restarts the whole gang. */
  readonly restartsAll: boolean;
  readonly deadlineS: number | undefined;
  readonly cleanPodPolicy: "None" | "Running" | "All";
  readonly ttlS: number | undefined;
  readonly userAction: UserAction | undefined;
  readonly queue: string;
};

type Drawn = Omit<JobShape, "queue">;

export type JobPolicy = {
  readonly jobs: number;
  /** Submissions are drawn within this window. */
  readonly windowMs: number;
  readonly pools: Readonly<Record<string, number>>;
};

const WEIGHTS: Readonly<Record<JobIntent, number>> = {
  good: 45,
  "flaky-beside": 8,
  "member-fails": 8,
  "permanent-code": 6,
  "budget-spent": 12,
  "gang-restarts": 8,
  deadline: 8,
  "pool-too-small": 5,
};
const WORKER = "worker";
export const FLAKY = "flaky";
/** Exceeds the restarts of a flaky member while the others work. */
const AMPLE_BACKOFF_LIMIT = 60;
/** Exit code for which a rule of the job restarts its gang. */
export const GANG_CODE = 42;

/** Plans the jobs of one run. The same seed and policy give the same jobs. */
export function planJobs(seed: number, policy: JobPolicy): JobShape[] {
  const random = makeRandom(seed, "jobs");
  const sharing = makeRandom(seed, "sharing");
  const jobs = Array.from({ length: policy.jobs }, (_, index) => {
    const name = `j${String(index + 1).padStart(3, "0")}`;
    // The first job passes through every phase, so that at least one does.
    return index === 0
      ? planJob(random, { name, intent: "good", userAction: undefined }, policy)
      : planJob(random, { name, intent: random.weighted(WEIGHTS), userAction: planUserAction(random) }, policy);
  });
  const teams = makeRandom(seed, "teams");
  return jobs.map((job) => {
    const queue = planTeam(teams, job.submitAtMs < policy.windowMs / 2);
    return { ...withSharing(sharing, job), queue };
  });
}

const SHARED_SHARE = 0.5;

/** Lets a part of the jobs request parts of machines. Its source is its own, so that the jobs of a seed are the same otherwise. */
function withSharing(random: Random, job: Drawn): Drawn {
  const isShared = random.chance(SHARED_SHARE) && job.intent !== "pool-too-small";
  const types = job.types.map((type) => {
    const requests = { cpu: `${random.integer(1, 10) * 250}m`, memory: `${random.integer(1, 12) * 256}Mi` };
    return isShared ? { ...type, requests } : type;
  });
  return { ...job, types };
}

function planUserAction(random: Random): UserAction | undefined {
  if (!random.chance(0.25)) return undefined;
  return {
    kind: random.pick(["cancel", "cancel", "delete", "suspend"] as const),
    phase: random.pick(PHASES),
    afterMs: random.chance(0.5) ? 0 : random.integer(0, 500),
    forMs: random.integer(0, 1500),
  };
}

function planJob(
  random: Random,
  { name, intent, userAction }: Pick<JobShape, "name" | "intent" | "userAction">,
  policy: JobPolicy,
): Drawn {
  const types = planTypes(random, intent, policy);
  // With policy None, all pods must end by themselves.
  const isShort = types.every(({ ends }) => ends !== undefined);
  return {
    name,
    intent,
    submitAtMs: random.integer(0, policy.windowMs),
    submitTwice: random.chance(0.1),
    types,
    winner: types.length > 1 && (intent === "good" || intent === "flaky-beside") ? WORKER : undefined,
    backoffLimit: planLimit(random, intent, types),
    restartsAll: intent === "gang-restarts",
    deadlineS: intent === "deadline" ? random.integer(1, 3) : undefined,
    cleanPodPolicy: random.pick(
      isShort ? (["Running", "Running", "All", "None"] as const) : (["Running", "All"] as const),
    ),
    ttlS: random.chance(0.15) ? random.integer(2, 3) : undefined,
    // Only its user ends a job that cannot start.
    userAction: intent === "pool-too-small" ? planEndingAction(random, userAction) : userAction,
  };
}

function planEndingAction(random: Random, userAction: UserAction | undefined): UserAction {
  const kind = userAction?.kind === "delete" ? "delete" : "cancel";
  return { kind, phase: "queued", afterMs: random.integer(0, 1000), forMs: 0 };
}

function planLimit(random: Random, intent: JobIntent, types: readonly ReplicaShape[]): number {
  if (intent === "flaky-beside") return AMPLE_BACKOFF_LIMIT;
  if (intent !== "budget-spent" && intent !== "gang-restarts") return random.integer(0, 3);
  // The kubelet restarts in place, with a back-off that is too long for a run.
  return types.some(({ type, restartPolicy }) => type === FLAKY && restartPolicy === "OnFailure")
    ? 0
    : random.integer(0, 2);
}

function planTypes(random: Random, intent: JobIntent, { pools }: JobPolicy): ReplicaShape[] {
  const worker = planWorkers(random);
  const bad = (restartPolicy: RestartPolicy, code: number): ReplicaShape[] => [
    { ...worker, ends: undefined },
    { ...planFlaky(random, code), restartPolicy },
  ];
  switch (intent) {
    case "good":
      return random.chance(0.3) ? withServer(random, worker) : [worker];
    case "flaky-beside":
      return [worker, planFlaky(random, random.integer(129, 143))];
    case "member-fails":
      return bad("Never", random.integer(1, 143));
    case "permanent-code":
      return bad("ExitCode", random.integer(1, 100));
    case "budget-spent":
      return random.chance(0.3) ? bad("OnFailure", random.integer(1, 143)) : bad("ExitCode", random.integer(129, 143));
    case "gang-restarts":
      return bad("Never", GANG_CODE);
    case "deadline":
      return [{ ...worker, ends: undefined }];
    case "pool-too-small":
      return [{ ...worker, pool: DRIVERS, replicas: (pools[DRIVERS] ?? 0) + 1 }];
  }
}

function planWorkers(random: Random): ReplicaShape {
  return {
    type: WORKER,
    replicas: random.chance(0.2) ? random.integer(6, 10) : random.integer(1, 5),
    pool: WORKERS,
    restartPolicy: random.pick(["OnFailure", "Never", "ExitCode"] as const),
    after: undefined,
    ...planTimes(random),
    requests: undefined,
    ends: { afterMs: random.integer(100, 3000), code: 0 },
  };
}

/** Servers run as long as the workers need them, whatever their restart policy. */
function withServer(random: Random, worker: ReplicaShape): ReplicaShape[] {
  const restartPolicy = random.pick(["Always", "OnFailure", "Never"] as const);
  const server = { ...worker, type: "server", replicas: random.integer(1, 2), pool: DRIVERS, restartPolicy };
  const after = random.chance(0.5) ? server.type : undefined;
  return [
    { ...server, ...planTimes(random), ends: undefined },
    { ...worker, after },
  ];
}

function planFlaky(random: Random, code: number): ReplicaShape {
  return {
    type: FLAKY,
    replicas: random.chance(0.7) ? 1 : 2,
    pool: WORKERS,
    restartPolicy: "ExitCode",
    after: undefined,
    ...planTimes(random),
    requests: undefined,
    ends: { afterMs: random.integer(0, 1000), code },
  };
}

function planTimes(random: Random): Pick<ReplicaShape, "startMs" | "readyMs" | "termMs"> {
  return {
    startMs: random.integer(0, 200),
    readyMs: random.chance(0.5) ? random.integer(0, 400) : undefined,
    termMs: random.chance(0.1) ? undefined : random.chance(0.5) ? 0 : random.integer(0, 600),
  };
}

/** The names of its members: `worker-3`. */
export function countMembers({ types }: JobShape): string[] {
  return types.flatMap(({ type, replicas }) => Array.from({ length: replicas }, (_, index) => `${type}-${index}`));
}
