import type { LedgerEvent } from "./ledger.ts";
import { expiryEvent, planExpiry, type ExpiryPolicy, type ExpiryStep } from "./plan-expiry.ts";
import { eventOf, planGrants, type GrantPolicy, type GrantStep } from "./plan-grants.ts";
import { evolveWorld, type World } from "./world.ts";

/** How the world gets to where nothing is overdue and nothing that waits fits; not quite there when the plan was cut (`complete`). */
export type Settlement<Step> = {
  readonly steps: readonly Step[];
  readonly complete: boolean;
  readonly world: World;
  readonly events: readonly LedgerEvent[];
};

/** Ends what is overdue, and grants what fits then. */
export function planSettlement(
  world: World,
  policy: GrantPolicy & ExpiryPolicy,
  nowMs: number,
  expireFromMs: number,
): Settlement<GrantStep | ExpiryStep> {
  const overdue = planExpiry(world.ledger, policy, nowMs, expireFromMs);
  const expired = overdue.map((step) => expiryEvent(step, nowMs));
  const granted = settleGrants(evolveWorld(world, expired), policy, nowMs);
  return {
    steps: [...overdue, ...granted.steps],
    complete: granted.complete && overdue.length < policy.expiriesPerPlan,
    world: granted.world,
    events: [...expired, ...granted.events],
  };
}

/** The same where nothing ends: grants what fits. */
export function settleGrants(world: World, policy: GrantPolicy, nowMs: number): Settlement<GrantStep> {
  const { steps, complete } = planGrants(world, policy, nowMs);
  const events = steps.map((step) => eventOf(step, nowMs));
  return { steps, complete, world: evolveWorld(world, events), events };
}
