import { type Random, makeRandom } from "./random.ts";

/** Phases in the order in which a session passes through them. */
export const PHASES = ["queued", "accepted", "provisioning", "running", "cleaning-up"] as const;
export type Phase = (typeof PHASES)[number];

/** The intent of a session decides its outcome without faults. */
export const INTENTS = [
  "good",
  "driver-fails",
  "worker-fails",
  "image-missing",
  "never-ready",
  "time-limit",
  "queue-limit",
  "pool-unknown",
  "pool-too-small",
] as const;
export type SessionIntent = (typeof INTENTS)[number];

export type PodShape = {
  readonly name: string;
  readonly kind: "driver" | "server" | "client";
  readonly pool: string;
  readonly startMs: number;
  /** Undefined where the pod is ready when it runs. */
  readonly readyMs: number | undefined;
  /** Undefined where the pod runs until SIGTERM. */
  readonly ends: { readonly afterMs: number; readonly code: number } | undefined;
  /** Undefined where the pod ignores SIGTERM. */
  readonly termMs: number | undefined;
  readonly imageMissing: boolean;
};

/** One drawn session: its behaviour, its submission, and the actions of its user. */
export type SessionShape = {
  readonly name: string;
  readonly intent: SessionIntent;
  /** Milliseconds after the start of the run. */
  readonly submitAtMs: number;
  /** The user sends the same submission twice concurrently. */
  readonly submitTwice: boolean;
  readonly priority: number;
  readonly pods: readonly PodShape[];
  /** 0 for the default of the service. */
  readonly timeoutMs: number;
  readonly queueTimeoutMs: number;
  readonly cancel: { readonly phase: Phase; readonly afterMs: number } | undefined;
};

export type ShapePolicy = {
  readonly sessions: number;
  /** Submissions are drawn within this window. */
  readonly windowMs: number;
  readonly pools: Readonly<Record<string, number>>;
};

export const DRIVERS = "drivers";
export const WORKERS = "workers";
const NEVER_MS = 3_600_000;

const WEIGHTS: Readonly<Record<SessionIntent, number>> = {
  good: 55,
  "driver-fails": 8,
  "worker-fails": 7,
  "image-missing": 4,
  "never-ready": 5,
  "time-limit": 7,
  "queue-limit": 6,
  "pool-unknown": 4,
  "pool-too-small": 4,
};

/** Plans the sessions of one run. The same seed and policy give the same sessions. */
export function planSessionShapes(seed: number, policy: ShapePolicy): SessionShape[] {
  const random = makeRandom(seed, "shapes");
  return Array.from({ length: policy.sessions }, (_, index) => {
    const name = `s${String(index + 1).padStart(3, "0")}`;
    // The first session passes through every phase, so that at least one does.
    if (index === 0) return planShape(random, { name, intent: "good", cancel: undefined }, policy);
    return planShape(random, { name, intent: random.weighted(WEIGHTS), cancel: planCancel(random) }, policy);
  });
}

function planCancel(random: Random): SessionShape["cancel"] {
  if (!random.chance(0.12)) return undefined;
  return { phase: random.pick(PHASES), afterMs: random.chance(0.5) ? 0 : random.integer(0, 500) };
}

function planShape(
  random: Random,
  { name, intent, cancel }: Pick<SessionShape, "name" | "intent" | "cancel">,
  policy: ShapePolicy,
): SessionShape {
  const workers = Array.from({ length: random.integer(1, 5) }, (_, index) => planWorker(random, index));
  const driver = planDriver(random, intent);
  const endless = cancel !== undefined && cancel.phase !== "cleaning-up" && intent === "good" && random.chance(0.7);
  return {
    name,
    intent,
    submitAtMs: random.integer(0, policy.windowMs),
    submitTwice: random.chance(0.1),
    priority: random.chance(0.1) ? random.integer(1, 3) : 0,
    pods: applyIntent(random, intent, [...workers, endless ? { ...driver, ends: undefined } : driver], policy),
    timeoutMs: intent === "never-ready" || intent === "time-limit" ? random.integer(1000, 3000) : 0,
    queueTimeoutMs: intent === "queue-limit" ? random.integer(1000, 4000) : 0,
    cancel,
  };
}

function planWorker(random: Random, index: number): PodShape {
  const kind = index === 0 || random.chance(0.4) ? "server" : "client";
  // A worker that succeeds before the driver ends is ignored.
  const ends = random.chance(0.1) ? { afterMs: random.integer(0, 1500), code: 0 } : undefined;
  return { name: `${kind}-${index}`, kind, pool: WORKERS, ...planTimes(random), ends, imageMissing: false };
}

function planDriver(random: Random, intent: SessionIntent): PodShape {
  const endless = intent === "worker-fails" || intent === "time-limit";
  const ends = { afterMs: random.integer(100, 3000), code: intent === "driver-fails" ? random.integer(1, 100) : 0 };
  return {
    name: "driver",
    kind: "driver",
    pool: DRIVERS,
    ...planTimes(random),
    ends: endless ? undefined : ends,
    imageMissing: false,
  };
}

function planTimes(random: Random): Pick<PodShape, "startMs" | "readyMs" | "termMs"> {
  return {
    startMs: random.integer(0, 200),
    readyMs: random.chance(0.5) ? random.integer(0, 400) : undefined,
    termMs: random.chance(0.1) ? undefined : random.chance(0.5) ? 0 : random.integer(0, 600),
  };
}

/** Applies the failure of the intent to a random pod. */
function applyIntent(
  random: Random,
  intent: SessionIntent,
  pods: readonly PodShape[],
  policy: ShapePolicy,
): PodShape[] {
  const worker = random.integer(0, pods.length - 2);
  const any = random.integer(0, pods.length - 1);
  const change = (at: number, changes: Partial<PodShape>): PodShape[] =>
    pods.map((pod, index) => (index === at ? { ...pod, ...changes } : pod));
  switch (intent) {
    case "worker-fails":
      return change(worker, { ends: { afterMs: random.integer(0, 1500), code: random.integer(1, 100) } });
    case "image-missing":
      return change(any, { imageMissing: true });
    case "never-ready":
      return change(any, { readyMs: NEVER_MS, ends: undefined });
    case "pool-unknown":
      return change(any, { pool: "nowhere" });
    case "pool-too-small": {
      const more = (policy.pools[DRIVERS] ?? 0) + 1;
      const extra = Array.from({ length: more }, (_, index) => ({
        ...planWorker(random, pods.length + index),
        pool: DRIVERS,
      }));
      return [...pods, ...extra];
    }
    case "good":
    case "driver-fails":
    case "time-limit":
    case "queue-limit":
      return [...pods];
  }
}
