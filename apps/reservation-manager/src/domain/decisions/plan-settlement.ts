import type { LedgerEvent } from "../ledger/ledger.ts";
import { eventOf, planGrants, type GrantPolicy, type GrantStep } from "./plan-grants.ts";
import { evolveWorld, type World } from "../ledger/world.ts";

/** How the world gets to where nothing that waits fits; not quite there when the plan was cut (`complete`). */
export type Settlement = {
  readonly steps: readonly GrantStep[];
  readonly complete: boolean;
  readonly world: World;
  readonly events: readonly LedgerEvent[];
};

/** Grants what fits. */
export function settleGrants(world: World, policy: GrantPolicy, nowMs: number): Settlement {
  const { steps, complete } = planGrants(world, policy, nowMs);
  const events = steps.map((step) => eventOf(step, nowMs));
  return { steps, complete, world: evolveWorld(world, events), events };
}
