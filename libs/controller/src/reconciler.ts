import { inSpan } from "@muster/tracing";
import type { Attributes, Context } from "@opentelemetry/api";
import type { Reconcile, ReconcileResult } from "./controller.ts";

/** A step of a round, and the reason for it; the span of the round lists it. */
export type PlannedStep = { readonly kind: string; readonly because: string };

export type PassSpan = { readonly name: string; readonly parent: Context; readonly attributes: Attributes };

/** `seen`: the input of a plan. Otherwise nothing can be planned now; `{}`: the key no longer has an object. */
export type ObservedInput<Seen> = { readonly seen: Seen } | ReconcileResult;

/** The parts of a controller that are its own. */
export type ControllerParts<Seen, Plan extends { readonly steps: readonly PlannedStep[] }> = {
  /** Names the tracer. */
  readonly tracer: string;
  readonly observe: (key: string, signal: AbortSignal) => Promise<ObservedInput<Seen>>;
  /** Plans the steps; pure. */
  readonly plan: (seen: Seen) => Plan;
  /** Carries out the plan. "again": observe immediately, because nothing else reports the changes of the steps. */
  readonly act: (seen: Seen, plan: Plan, round: PassRound) => Promise<ReconcileResult | "again">;
  /** The span of a round that changes state; undefined: the round changes nothing and has no span. */
  readonly span: (seen: Seen, plan: Plan) => PassSpan | undefined;
};

export type PassRound = {
  readonly key: string;
  /** 1 for the first round of a pass. */
  readonly number: number;
  readonly signal: AbortSignal;
};

/** Maximum rounds of a pass. A pass that changes state in each of them has failed, because its plan does not converge. */
const MAX_ROUNDS = 16;
/** Steps of a plan that its span lists. */
const MAX_LISTED_STEPS = 50;

/**
 * Runs one level-triggered pass: observes, plans and acts until only waiting is left. The next pass repairs a pass that was interrupted anywhere. A plan that
 * does not converge fails the pass.
 */
export function makeReconciler<Seen, Plan extends { readonly steps: readonly PlannedStep[] }>(
  passes: ControllerParts<Seen, Plan>,
): Reconcile {
  return async (key, signal) => {
    for (let number = 1; number <= MAX_ROUNDS && !signal.aborted; number += 1) {
      const observed = await passes.observe(key, signal);
      if (!("seen" in observed)) return observed;
      const { seen } = observed;
      const plan = passes.plan(seen);
      const act = (): Promise<ReconcileResult | "again"> => passes.act(seen, plan, { key, number, signal });
      const span = passes.span(seen, plan);
      const acted = await (span === undefined ? act() : runInPass(passes.tracer, span, plan.steps, act));
      if (acted !== "again") return acted;
    }
    if (signal.aborted) return {};
    return { isFailed: true, error: new Error(`the plan for ${key} has not converged after ${MAX_ROUNDS} rounds`) };
  };
}

/** Runs work under the span of a pass, which lists the planned steps. */
export function runInPass<Result>(
  tracer: string,
  { name, parent, attributes }: PassSpan,
  steps: readonly PlannedStep[],
  work: () => Promise<Result>,
): Promise<Result> {
  const plan = {
    "muster.plan": steps.slice(0, MAX_LISTED_STEPS).map((step) => `${step.kind}: ${step.because}`),
    "muster.plan.steps": steps.length,
  };
  return inSpan(tracer, name, { parent, attributes: { ...attributes, ...plan } }, work);
}
