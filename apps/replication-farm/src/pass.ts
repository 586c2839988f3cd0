import type { ControllerParts, ReconcileResult } from "@muster/controller";
import { findFault, isRetryable } from "@muster/faults";
import { actOnRollout } from "./act-on-rollout.ts";
import { actOnSet, type RoundResult } from "./act-on-set.ts";
import { planPass, type PassPlan } from "./domain/plan-pass.ts";
import { endOwnership, observeSet, type SeenSet } from "./observe-set.ts";
import type { SetOwnership, PassDeps } from "./pass-deps.ts";
import { buildPassSpan, TRACER } from "./pass-trace.ts";

/** The passes over the sets that a farm owns. */
export function makeSetPasses(
  deps: PassDeps,
  ownedOf: (name: string) => SetOwnership | undefined,
): ControllerParts<SeenSet, PassPlan> {
  const policy = { ...deps.policy, unhealthyMs: deps.unhealthyMs };
  return {
    tracer: TRACER,
    observe: async (name) => {
      const owned = ownedOf(name);
      return owned === undefined ? {} : observeSet(deps, owned);
    },
    plan: (seen) => planPass(seen, policy),
    act: async (seen, plan) => decideNext(deps, seen.owned, await act(deps, seen, plan)),
    span: ({ owned }, { steps, under }) => (steps.length === 0 ? undefined : buildPassSpan(owned.name, under)),
  };
}

/** Handles a pass that threw; rethrows a defect. */
export function requeueLater(
  deps: Pick<PassDeps, "report">,
  owned: Pick<SetOwnership, "name">,
  error: unknown,
): ReconcileResult {
  const fault = findFault(error);
  if (fault === undefined) throw error;
  // After a conflict the next pass decides on the record of the other writer.
  if (fault.code !== "conflict") deps.report.failed(owned.name, isRetryable(fault) ? "pass" : "refused", error);
  return { isFailed: true };
}

async function act(deps: PassDeps, seen: SeenSet, plan: PassPlan): Promise<RoundResult> {
  const ofRollout =
    seen.rollout && plan.rollout ? await actOnRollout(deps, seen.owned, seen.rollout, plan.rollout) : "none";
  if (ofRollout === "again" || ofRollout === "lost") return ofRollout;
  if (seen.stored !== undefined && plan.set !== undefined) return actOnSet(deps, seen, seen.stored, plan.set);
  // Only the rolling update exists.
  return { atMs: Infinity, failed: ofRollout === "failed" };
}

function decideNext(deps: PassDeps, owned: SetOwnership, acted: RoundResult): ReconcileResult | "again" {
  if (acted === "gone" || acted === "lost") return endOwnership(owned, acted);
  if (acted === "again") return acted;
  if (acted.failed) return { isFailed: true };
  return Number.isFinite(acted.atMs) ? { requeueAfterMs: Math.max(0, acted.atMs - deps.now()) } : {};
}
