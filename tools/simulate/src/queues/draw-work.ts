import type { Random } from "@muster/chaos/random";
import type { Queue } from "@muster/reservation-manager/queue";
import type { Need } from "@muster/reservation-manager/reservation";
import { MISSING } from "./draw-queues.ts";

/** One request and the life of its work, with times in milliseconds. */
export type WorkPlan = {
  /** Sessions do not leave when they are preempted. */
  readonly kind: "job" | "session";
  readonly id: string;
  readonly submitAfterMs: number;
  /** Undefined: no quota concerns it. */
  readonly queue: string | undefined;
  readonly needs: readonly Need[];
  readonly priority: number;
  readonly wait: boolean;
  readonly runMs: number;
  /** Milliseconds after submission at which waiting work is cancelled; undefined: never. */
  readonly cancelAfterMs: number | undefined;
  /** Milliseconds that its pods exist after its end. */
  readonly lingerMs: number;
} & Leaving;

/** The end of preempted work. */
type Leaving = {
  readonly notPreemptible: boolean;
  /** The time that its pods have, from the preemption on. */
  readonly graceMs: number;
  /** Milliseconds after the preemption at which its controller accepts it. */
  readonly acceptAfterMs: number;
  /** Milliseconds from acceptance to the removal of its pods; pods beyond their grace period are deleted by force. */
  readonly leaveMs: number;
};

const SESSIONS = 0.15;
const MAX_RUN_MS = 20_000;
const MAX_GRACE_MS = 15_000;

/** `leaving` and `kinds`: random sources of their own, for the way in which work leaves, and for its kind. */
export function drawWork(
  { random, leaving, kinds }: Readonly<Record<"random" | "leaving" | "kinds", Random>>,
  queues: readonly Queue[],
  count: number,
  windowMs: number,
): WorkPlan[] {
  const leaves = queues.filter(({ name }) => queues.every(({ parent }) => parent !== name));
  const [first = MISSING, ...others] = leaves.map(({ name }) => name);
  // The first team requests more than its part, so it borrows quota that others miss later.
  const drawQueue = (): string | undefined => {
    if (random.chance(0.35)) return first;
    if (random.chance(0.08)) return undefined;
    if (random.chance(0.05)) return random.pick([MISSING, ...queues.map(({ name }) => name)]);
    return random.pick([first, ...others]);
  };
  return Array.from({ length: count }, (_, index): WorkPlan => ({
    kind: kinds.chance(SESSIONS) ? "session" : "job",
    id: `w${String(index + 1).padStart(3, "0")}`,
    submitAfterMs: random.integer(0, windowMs),
    queue: drawQueue(),
    needs: drawNeeds(random),
    priority: random.pick([-1, 0, 0, 0, 0, 1, 2]),
    wait: random.chance(0.95),
    runMs: random.integer(200, MAX_RUN_MS),
    cancelAfterMs: random.chance(0.12) ? random.integer(0, 15_000) : undefined,
    lingerMs: random.chance(0.2) ? random.integer(500, 5000) : 0,
    ...drawLeaving(leaving),
  }));
}

/** Immediately, late, or not before the deadline. */
function drawLeaving(random: Random): Leaving {
  const late = random.chance(0.3) ? random.integer(500, 20_000) : random.integer(0, 300);
  return {
    notPreemptible: random.chance(0.15),
    graceMs: random.integer(1000, MAX_GRACE_MS),
    acceptAfterMs: random.chance(0.1) ? 2 * MAX_GRACE_MS : late,
    leaveMs: random.chance(0.2) ? 2 * MAX_GRACE_MS : random.integer(0, 5000),
  };
}

function drawNeeds(random: Random): readonly Need[] {
  const pool = random.chance(0.75) ? "a" : "b";
  const part = { pool, shared: drawShare(random) };
  switch (random.weighted({ one: 8, alike: 4, whole: 3, pools: 1, mixed: 1 })) {
    case "one":
      return named([part]);
    case "alike":
      return named(Array.from({ length: random.integer(2, 4) }, () => part));
    case "whole":
      return named(Array.from({ length: random.chance(0.7) ? 1 : 2 }, () => ({ pool })));
    case "pools":
      return named([
        { pool: "a", shared: drawShare(random) },
        { pool: "b", shared: drawShare(random) },
      ]);
    case "mixed":
      return named([part, { pool, shared: drawShare(random) }, ...(random.chance(0.3) ? [{ pool }] : [])]);
  }
}

function named(needs: readonly Omit<Need, "component">[]): readonly Need[] {
  return needs.map((need, index) => ({ component: `c${index}`, ...need }));
}

function drawShare(random: Random): ReadonlyMap<string, number> {
  const cpu = random.pick([1, 1, 1, 2, 2, 3, 4, 6]);
  return new Map([["cpu", cpu], ...(random.chance(0.3) ? [["memory", random.integer(1, 8)] as const] : [])]);
}
