import { setTimeout as sleep } from "node:timers/promises";
import { planPass, type PassPlan, type WatcherPolicy, type WatcherSnapshot } from "./domain/plan-pass.ts";
import type { MarkStep } from "./domain/plan-mark.ts";
import type { PostponedWrite } from "./domain/postpone-short-lived.ts";
import type { NodeState } from "./domain/node-state.ts";
import type { PublishStep } from "./domain/plan-publish.ts";
import type { PodState } from "./domain/pod-state.ts";

/** The extent of a pass. */
type Scope = "all" | "changed";

export type WatcherDeps = {
  /** Takes a snapshot of all objects, or of the changes since the last snapshot; or returns why no snapshot is possible. */
  observe: (scope: Scope) => WatcherSnapshot | { readonly blind: string };
  writePod: (step: PublishStep<PodState>) => Promise<WriteOutcome>;
  writeNode: (step: PublishStep<NodeState>) => Promise<WriteOutcome>;
  writeMark: (step: MarkStep) => Promise<WriteOutcome>;
  /** Puts the pod into the first snapshot from this time on. */
  postpone: (pod: PostponedWrite) => void;
  /** Time until a postponed pod is due; Infinity: none is postponed. */
  dueInMs: () => number;
  /** Runs the writes of a non-empty plan under one span. */
  recorded: (plan: PassPlan, write: () => Promise<readonly WriteOutcome[]>) => Promise<readonly WriteOutcome[]>;
  /** Called when the watcher's view becomes outdated. */
  blind: (reason: string) => void;
  /** Resolves after a change, after the time, or at the signal. */
  wait: (longestMs: number, signal: AbortSignal) => Promise<unknown>;
  monotonicMs: () => number;
};

/**
 * lost: another writer was faster, and the next pass observes its write. failed: the store did not accept the write, and a retry may succeed. refused: an early
 * retry cannot succeed.
 */
export type WriteOutcome = "written" | "lost" | "failed" | "refused";

type PassResult = {
  /** The reason why no snapshot was possible. */
  readonly blind?: string;
  readonly written: number;
  readonly failed: number;
  /** Time until the next pass is due if no event arrives. */
  readonly nextMs: number;
};

/** Maximum interval of full passes. A new resource version alone changes no object, but a write may wait for it. */
const MAX_FULL_PASS_INTERVAL_MS = 30_000;
/** Minimum interval of full passes, however many pods are due: it limits the delay of time-based changes. */
const MIN_FULL_PASS_INTERVAL_MS = 1000;
/** Retry interval while blind: a view that recovers without a change sends no event. */
const BLIND_PAUSE_MS = 1000;
/** Limit of concurrent writes to one bucket. */
const MAX_WRITES_IN_FLIGHT = 256;
const MIN_BACKOFF_MS = 250;
const MAX_BACKOFF_MS = 10_000;

/** Runs one pass: observes, decides, acts. It is idempotent, so the next pass of any replica completes the pass of a crashed replica. */
export async function runPass(deps: WatcherDeps, policy: WatcherPolicy, scope: Scope): Promise<PassResult> {
  const world = deps.observe(scope);
  if ("blind" in world) return { blind: world.blind, written: 0, failed: 0, nextMs: BLIND_PAUSE_MS };
  const plan = planPass(world, policy);
  plan.postponed.forEach(deps.postpone);
  const outcomes = await write(deps, plan);
  const count = (wanted: WriteOutcome): number => outcomes.filter((outcome) => outcome === wanted).length;
  return { written: count("written"), failed: count("failed"), nextMs: plan.nextMs - world.nowMs };
}

/** Writes the plan. The mark is written last, because it states that all nodes before it are written. Refused writes do not delay it. */
async function write(deps: WatcherDeps, plan: PassPlan): Promise<readonly WriteOutcome[]> {
  const { pods, nodes, mark } = plan;
  const outcomes =
    pods.length + nodes.length === 0
      ? []
      : await deps.recorded(plan, async () => {
          const written = await Promise.all([writeAll(pods, deps.writePod), writeAll(nodes, deps.writeNode)]);
          return written.flat();
        });
  const missing = outcomes.slice(pods.length).some((outcome) => outcome === "lost" || outcome === "failed");
  return missing || mark === undefined ? outcomes : [...outcomes, await deps.writeMark(mark)];
}

/** Runs passes until the signal: a partial one at every change, and a full one for time-based changes and at intervals. */
export async function keepPublished(deps: WatcherDeps, policy: WatcherPolicy, signal: AbortSignal): Promise<void> {
  let failures = 0;
  let sees = true;
  let nextFullPassAtMs = -Infinity;
  // `runPeriodically` does not fit: a partly failed pass backs off without an error, and time alone determines the scope of the next pass.
  while (!signal.aborted) {
    const scope = deps.monotonicMs() >= nextFullPassAtMs ? "all" : "changed";
    const { blind, failed, nextMs } = await runPass(deps, policy, scope);
    const nowMs = deps.monotonicMs();
    if (blind === undefined) {
      const dueMs = nowMs + Math.max(MIN_FULL_PASS_INTERVAL_MS, Math.min(MAX_FULL_PASS_INTERVAL_MS, nextMs));
      nextFullPassAtMs = scope === "all" ? dueMs : Math.min(nextFullPassAtMs, dueMs);
    } else if (sees) deps.blind(blind);
    sees = blind === undefined;
    failures = failed > 0 ? failures + 1 : 0;
    const backoffMs = Math.min(MAX_BACKOFF_MS, MIN_BACKOFF_MS * 2 ** (failures - 1));
    if (failures > 0) await sleep(backoffMs, undefined, { signal }).catch(() => undefined);
    else await deps.wait(sees ? Math.max(0, Math.min(nextFullPassAtMs - nowMs, deps.dueInMs())) : nextMs, signal);
  }
}

/**
 * Runs the writes concurrently. The next write starts as soon as one has ended, so that a slow answer delays no other write. Returns the outcomes in the order
 * of the steps.
 */
async function writeAll<Step>(
  steps: readonly Step[],
  write: (step: Step) => Promise<WriteOutcome>,
): Promise<readonly WriteOutcome[]> {
  const outcomes: WriteOutcome[] = [];
  const left = steps.entries();
  const worker = async (): Promise<void> => {
    for (const [at, step] of left) outcomes[at] = await write(step);
  };
  await Promise.all(Array.from({ length: Math.min(MAX_WRITES_IN_FLIGHT, steps.length) }, worker));
  return outcomes;
}
