import { evolveWorld, type World } from "../ledger/world.ts";
import { getReservation, type LedgerEvent } from "../ledger/ledger.ts";
import { assignMachines } from "./fit.ts";
import {
  chooseForBeneficiary,
  buildFutureWorld,
  arePlacesKept,
  buildWorldForOthers,
  withoutRequests,
} from "./future.ts";
import { buildGrantEvent, planGrants, type GrantPolicy, type GrantStep } from "./plan-grants.ts";
import { planPastUse } from "./plan-past-use.ts";
import { planPreemptions, planWithdrawals, type PreemptionLimit, type PreemptStep } from "./plan-preemptions.ts";

export type SettleStep = GrantStep | PreemptStep;

/** Events after which no waiting request fits. If `complete` is false, the plan reached its limit and more requests may fit. */
export type Settlement = {
  readonly steps: readonly SettleStep[];
  readonly complete: boolean;
  readonly world: World;
  readonly events: readonly LedgerEvent[];
  /** Time at which more becomes possible without another change: work becomes preemptible, or past use is counted. */
  readonly againAtMs: number | undefined;
  /** Limits that the search for victims reached. */
  readonly limits?: ReadonlySet<PreemptionLimit>;
};

/** Grants requests that fit: first beneficiaries, then requests that take nothing from waiting beneficiaries. */
export function settleGrants(start: World, policy: GrantPolicy, nowMs: number): Settlement {
  const first = grantBeneficiaries(start, policy, nowMs);
  if (!first.complete) return { ...first, againAtMs: undefined };
  const steps: GrantStep[] = [...first.steps];
  const events: LedgerEvent[] = [...first.events];
  const refused = new Set<number>();
  let { world } = first;
  for (;;) {
    const plan = planGrants(withoutRequests(buildWorldForOthers(world), refused), policy, nowMs);
    let isRefused = false;
    for (const step of plan.steps) {
      const event = buildGrantEvent(step, nowMs);
      isRefused = !arePlacesKept(world, [event]);
      if (isRefused) {
        refused.add(step.sequence);
        break;
      }
      steps.push(step);
      events.push(event);
      world = evolveWorld(world, [event]);
    }
    if (isRefused) continue;
    // A grant moves other placements, so a beneficiary may fit now.
    const mayFit = steps.length > 0 && world.ledger.beneficiaries.length > 0;
    return { steps, complete: plan.complete && !mayFit, world, events, againAtMs: undefined };
  }
}

/** Counts past use if that is due, then grants requests that fit. If no request fits, preempts work for requests that may preempt. */
export function settleStep(world: World, policy: GrantPolicy, nowMs: number): Settlement {
  const past = planPastUse(world, nowMs);
  if (past.events.length > 0) {
    const { events } = past;
    return { steps: [], complete: false, world: evolveWorld(world, events), events, againAtMs: undefined };
  }
  const settled = settleGrants(world, policy, nowMs);
  if (!settled.complete) return settled;
  const { steps, events, againAtMs, complete, limits } = planPreemptions(settled.world, policy, nowMs);
  return {
    steps: [...settled.steps, ...steps],
    complete,
    world: evolveWorld(settled.world, events),
    events: [...settled.events, ...events],
    againAtMs: earliest(againAtMs, past.againAtMs),
    limits,
  };
}

function earliest(a: number | undefined, b: number | undefined): number | undefined {
  return a === undefined || b === undefined ? (a ?? b) : Math.min(a, b);
}

type FirstGrants = {
  readonly steps: readonly GrantStep[];
  readonly events: readonly LedgerEvent[];
  readonly world: World;
  readonly complete: boolean;
};

/**
 * Grants beneficiaries in order. A grant requires that nothing is kept for an earlier beneficiary and that later ones keep their machines. A grant spares its
 * victims whose end has not begun, so it does not use their machines.
 */
function grantBeneficiaries(start: World, { machinesPerPlan }: GrantPolicy, nowMs: number): FirstGrants {
  const steps: GrantStep[] = [];
  const events: LedgerEvent[] = [];
  let world = start;
  const apply = (next: readonly LedgerEvent[]): void => {
    events.push(...next);
    world = evolveWorld(world, next);
  };
  apply(planWithdrawals(world, nowMs));
  let machines = 0;
  for (let index = 0; index < world.ledger.beneficiaries.length;) {
    const step = planFirstGrant(world, index);
    const next = step && planWithSpared(step, world, nowMs);
    if (step === undefined || next === undefined || !arePlacesKept(world, next)) {
      index += 1;
      continue;
    }
    steps.push(step);
    apply(next);
    machines += step.machines.length;
    if (machines >= machinesPerPlan) return { steps, events, world, complete: false };
    index = 0;
  }
  return { steps, events, world, complete: true };
}

/** The grant, and the withdrawals of preemptions that it makes unnecessary. */
function planWithSpared(step: GrantStep, world: World, nowMs: number): readonly LedgerEvent[] {
  const granted = buildGrantEvent(step, nowMs);
  return [granted, ...planWithdrawals(evolveWorld(world, [granted]), nowMs)];
}

function planFirstGrant(world: World, index: number): GrantStep | undefined {
  const { sequence = 0 } = world.ledger.beneficiaries[index] ?? {};
  const open = buildWorldForOthers(world, buildFutureWorld(world, { beneficiaries: index, without: sequence }));
  const reservation = getReservation(world.ledger, sequence);
  const option = chooseForBeneficiary(reservation, open);
  if (option === undefined) return undefined;
  const assigned = assignMachines({ ...reservation, needs: option.needs }, open.machines, undefined);
  return { kind: "grant", sequence, ...assigned, because: { code: "FIRST_IN_ORDER", ahead: 0 } };
}
