import { evolveWorld, type World } from "../ledger/world.ts";
import { knownReservation, type LedgerEvent } from "../ledger/ledger.ts";
import { placeOf } from "../ledger/waiting-queue.ts";
import { assignMachines, obstacleToBeneficiary } from "./fit.ts";
import { demandOf, futureOf, isChanging, withoutKeptWork } from "./future.ts";
import { eventOf, planGrants, type GrantPolicy, type GrantStep } from "./plan-grants.ts";
import { planPreemptions, planWithdrawals, type PreemptStep } from "./plan-preemptions.ts";

export type SettleStep = GrantStep | PreemptStep;

/** How the world gets to where nothing that waits fits; not quite there when the plan was cut (`complete`). */
export type Settlement = {
  readonly steps: readonly SettleStep[];
  readonly complete: boolean;
  readonly world: World;
  readonly events: readonly LedgerEvent[];
  /** When work may be preempted that has had its machines for too short a time now; undefined: at no known time. */
  readonly againAtMs: number | undefined;
};

/** Grants what fits: first to the requests that work was preempted for. */
export function settleGrants(world: World, policy: GrantPolicy, nowMs: number): Settlement {
  const dropped = planWithdrawals(world, nowMs);
  const first = grantBeneficiaries(evolveWorld(world, dropped), nowMs);
  const { steps, complete } = planGrants(withoutKeptWork(first.world), policy, nowMs);
  const granted = steps.map((step) => eventOf(step, nowMs));
  const after = evolveWorld(first.world, granted);
  const spared = planWithdrawals(after, nowMs);
  return {
    steps: [...first.steps, ...steps],
    complete,
    world: evolveWorld(after, spared),
    events: [...dropped, ...first.steps.map((step) => eventOf(step, nowMs)), ...granted, ...spared],
    againAtMs: undefined,
  };
}

/** Grants what fits; where nothing more does, work is preempted for the requests that may preempt it. */
export function settle(world: World, policy: GrantPolicy, nowMs: number): Settlement {
  const settled = settleGrants(world, policy, nowMs);
  if (!settled.complete) return settled;
  const { steps, events, againAtMs, complete } = planPreemptions(settled.world, policy, nowMs);
  return {
    steps: [...settled.steps, ...steps],
    complete,
    world: evolveWorld(settled.world, events),
    events: [...settled.events, ...events],
    againAtMs,
  };
}

/** In their order, each where nothing is kept for an earlier one. */
function grantBeneficiaries(start: World, nowMs: number): { steps: readonly GrantStep[]; world: World } {
  const steps: GrantStep[] = [];
  let world = start;
  for (let index = 0; isChanging(world) && index < world.ledger.beneficiaries.length;) {
    const sequence = world.ledger.beneficiaries[index]?.sequence ?? 0;
    const open = withoutKeptWork(world, futureOf(world, index));
    const reservation = knownReservation(world.ledger, sequence);
    if (obstacleToBeneficiary(demandOf(reservation), placeOf(reservation), open) !== undefined) {
      index += 1;
      continue;
    }
    const assigned = assignMachines(reservation, open.machines, undefined);
    const step: GrantStep = { kind: "grant", sequence, ...assigned, because: { code: "FIRST_IN_ORDER", ahead: 0 } };
    steps.push(step);
    world = evolveWorld(world, [eventOf(step, nowMs)]);
  }
  return { steps, world };
}
