import { setTimeout as sleep } from "node:timers/promises";
import { planPass, type PassPlan, type WatcherPolicy, type WatcherSnapshot } from "./domain/plan-pass.ts";
import type { MarkStep } from "./domain/plan-mark.ts";
import type { NodeState } from "./domain/node-state.ts";
import type { PublishStep } from "./domain/plan-publish.ts";
import type { PodState } from "./domain/pod-state.ts";

/** How much a pass looks at. */
export type Scope = "all" | "changed";

export type WatcherDeps = {
  /** The world now, or that part of it which was touched since the last time; or what is missing to see it. */
  observe: (scope: Scope) => WatcherSnapshot | { readonly blind: string };
  writePod: (step: PublishStep<PodState>) => Promise<WriteOutcome>;
  writeNode: (step: PublishStep<NodeState>) => Promise<WriteOutcome>;
  writeMark: (step: MarkStep) => Promise<WriteOutcome>;
  /** Runs the writes of a plan that is not empty, under one span. */
  recorded: (plan: PassPlan, write: () => Promise<readonly WriteOutcome[]>) => Promise<readonly WriteOutcome[]>;
  /** Told when the watcher begins to be unable to see. */
  blind: (reason: string) => void;
  /** Resolves when something has changed, at the latest after the time, or at the signal. */
  wait: (longestMs: number, signal: AbortSignal) => Promise<unknown>;
  monotonicMs: () => number;
};

/**
 * lost: somebody else wrote first, and the next pass sees what. failed: the store did not take it, for a reason that time may heal. refused: it never will;
 * trying again soon helps nobody.
 */
export type WriteOutcome = "written" | "lost" | "failed" | "refused";

export type PassResult = {
  /** Why nothing could be looked at. */
  readonly blind?: string;
  readonly written: number;
  readonly failed: number;
  /** After this time something may have to be done even if nothing happens. */
  readonly nextMs: number;
};

/** Looks at everything at least this often: a resource version that advances touches nothing, and may be all that was missing. */
const TICK_MS = 30_000;
/** Looks at everything at most this often, however many pods have something due: what depends on time alone is late by no more. */
const WHOLE_PAUSE_MS = 1000;
/** A view that has been heard of again has not necessarily changed, and wakes nobody. */
const BLIND_PAUSE_MS = 1000;
/** Writes under way at once. */
const WRITES_AT_ONCE = 256;
const BACKOFF_MIN_MS = 250;
const BACKOFF_MAX_MS = 10_000;

/** One pass: observe, decide, act. Idempotent, so a crash anywhere is mended by the next pass of any replica. */
export async function pass(deps: WatcherDeps, policy: WatcherPolicy, scope: Scope): Promise<PassResult> {
  const world = deps.observe(scope);
  if ("blind" in world) return { blind: world.blind, written: 0, failed: 0, nextMs: BLIND_PAUSE_MS };
  const plan = planPass(world, policy);
  const outcomes = await write(deps, plan);
  const count = (wanted: WriteOutcome): number => outcomes.filter((outcome) => outcome === wanted).length;
  return { written: count("written"), failed: count("failed"), nextMs: plan.nextMs - world.nowMs };
}

/** The mark comes last: it says that everything before it is written. What is refused for good is not waited for. */
async function write(deps: WatcherDeps, plan: PassPlan): Promise<readonly WriteOutcome[]> {
  const { pods, nodes, mark } = plan;
  const told =
    pods.length + nodes.length === 0
      ? []
      : await deps.recorded(plan, async () => [
          ...(await writeAll(pods, deps.writePod)),
          ...(await writeAll(nodes, deps.writeNode)),
        ]);
  const missing = told.slice(pods.length).some((outcome) => outcome === "lost" || outcome === "failed");
  return missing || mark === undefined ? told : [...told, await deps.writeMark(mark)];
}

/** Passes until the signal: over what was touched at every change, over everything when time alone changes something, and now and then. */
export async function keepPublished(deps: WatcherDeps, policy: WatcherPolicy, signal: AbortSignal): Promise<void> {
  let failures = 0;
  let sees = true;
  let wholeAtMs = -Infinity;
  while (!signal.aborted) {
    const scope = deps.monotonicMs() >= wholeAtMs ? "all" : "changed";
    const { blind, failed, nextMs } = await pass(deps, policy, scope);
    const nowMs = deps.monotonicMs();
    if (blind === undefined) {
      const dueMs = nowMs + Math.max(WHOLE_PAUSE_MS, Math.min(TICK_MS, nextMs));
      wholeAtMs = scope === "all" ? dueMs : Math.min(wholeAtMs, dueMs);
    } else if (sees) deps.blind(blind);
    sees = blind === undefined;
    failures = failed > 0 ? failures + 1 : 0;
    const backoffMs = Math.min(BACKOFF_MAX_MS, BACKOFF_MIN_MS * 2 ** (failures - 1));
    if (failures > 0) await sleep(backoffMs, undefined, { signal }).catch(() => undefined);
    else await deps.wait(sees ? Math.max(0, wholeAtMs - nowMs) : nextMs, signal);
  }
}

/** The next one starts as soon as one has ended: a slow answer holds up itself alone. Outcomes are in the order of the steps. */
async function writeAll<Step>(
  steps: readonly Step[],
  write: (step: Step) => Promise<WriteOutcome>,
): Promise<readonly WriteOutcome[]> {
  const outcomes: WriteOutcome[] = [];
  const left = steps.entries();
  const worker = async (): Promise<void> => {
    for (const [at, step] of left) outcomes[at] = await write(step);
  };
  await Promise.all(Array.from({ length: Math.min(WRITES_AT_ONCE, steps.length) }, worker));
  return outcomes;
}
