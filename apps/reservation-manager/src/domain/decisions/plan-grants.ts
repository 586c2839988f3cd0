import { findCandidateClasses } from "./find-candidate-classes.ts";
import { findHolds } from "./find-hold.ts";
import { assignMachines, holdAheadOf, type Hold, type HoldPolicy } from "./fit.ts";
import { knownReservation, type LedgerEvent } from "../ledger/ledger.ts";
import { shareBytes, type Grant } from "../ledger/reservation.ts";
import { countAhead, needsAt, nextRequestAfter, type Place } from "../ledger/waiting-queue.ts";
import { evolveWorld, type World } from "../ledger/world.ts";
import { takeFirst } from "./first-in-order.ts";

export type GrantStep = {
  readonly kind: "grant";
  readonly sequence: number;
  readonly because: GrantReason;
} & Omit<Grant, "atMs">;

/** `ahead`: requests of higher priority or age that do not fit and were overtaken. */
type GrantReason =
  | { readonly code: "FIRST_IN_ORDER"; readonly ahead: 0 }
  | { readonly code: "FITS_BEFORE_OTHERS"; readonly ahead: number };

/** `complete`: no waiting request would fit after the steps. Otherwise the plan was cut at the bound, and the next one continues. */
type GrantPlan = { readonly steps: readonly GrantStep[]; readonly complete: boolean };

export type GrantPolicy = HoldPolicy & {
  /** Limit of machines that one plan grants, so that one write fits an entry of the log. A single reservation may need more. */
  readonly machinesPerPlan: number;
};

/**
 * Plans the next grants: the first request in order (`takeFirst`: priority, age and arrival; between queues first quota and share) that nothing stands in the
 * way of (`findObstacle`: its concurrency limit, its queue, too few free machines, or machines held for an older request, which `findHolds` names). Planning
 * again after a complete plan plans nothing.
 *
 * The cost is that of the classes of requests that fit now or nearly so: without a queue those of `findCandidateClasses`, in queues those that `takeFirst` has
 * to visit. It is not that of the requests that wait.
 */
export function planGrants(world: World, policy: GrantPolicy, nowMs: number): GrantPlan {
  const steps: GrantStep[] = [];
  if (world.ledger.queue.places.size === 0) return { steps, complete: true };
  let budget = policy.machinesPerPlan;
  let after = world;
  for (;;) {
    const round = planRound(after, policy, nowMs, budget);
    steps.push(...round.steps);
    if (round.steps.length === 0) return { steps, complete: true };
    ({ budget } = round);
    if (budget <= 0) return { steps, complete: false };
    // A grant can lift another request's hold (it reached a concurrency limit), so requests that did not fit before may fit now.
    after = round.world;
  }
}

export function eventOf({ kind: _kind, because: _because, ...granted }: GrantStep, nowMs: number): LedgerEvent {
  return { kind: "granted", ...granted, atMs: nowMs };
}

/** One walk in queue order over the classes that may fit. `budget`: in machines of one plan; the result has the rest. */
function planRound(
  start: World,
  policy: HoldPolicy,
  nowMs: number,
  maxBudget: number,
): { steps: GrantStep[]; world: World; budget: number } {
  const steps: GrantStep[] = [];
  let budget = maxBudget;
  let world = start;
  let holds = findHolds(world, policy, nowMs);
  let candidates = findCandidateClasses(world, holds);
  while (budget > 0) {
    const { first, rest } = takeFirst(candidates, world, holds);
    if (first === undefined) break;
    const [place, waiting] = first;
    candidates = rest;
    const step = planGrant(place, world, holdAheadOf(waiting, place, world, holds.machines));
    steps.push(step);
    budget -= weigh(step);
    world = evolveWorld(world, [eventOf(step, nowMs)]);
    const heldBefore = holds.machines?.place.sequence;
    holds = findHolds(world, policy, nowMs);
    // Requests that were passed over may go without the hold, and come before the rest of this walk.
    if (heldBefore !== holds.machines?.place.sequence && heldBefore !== step.sequence) break;
    if (waiting.queue !== undefined) continue;
    // Its other options are among the candidates.
    if (place.option !== undefined) break;
    const next = waiting.places.first(nextRequestAfter(place));
    if (next !== undefined) candidates = candidates.set(next[0], waiting);
  }
  return { steps, world, budget };
}

/** Bytes that a machine with the longest names takes in the log. */
const BYTES_PER_MACHINE = 400;

/** How many machines with the longest names take as much of an entry of the log as these. */
function weigh({ machines, use }: GrantStep): number {
  const weightOfUse = shareBytes(use) / BYTES_PER_MACHINE;
  return machines.reduce((sum, { shared }) => sum + 1 + shareBytes(shared) / BYTES_PER_MACHINE, weightOfUse);
}

function planGrant(place: Place, { ledger, machines }: World, holdAhead: Hold | undefined): GrantStep {
  const reservation = knownReservation(ledger, place.sequence);
  const ahead = countAhead(reservation, ledger.queue);
  return {
    kind: "grant",
    sequence: reservation.sequence,
    ...assignMachines({ ...reservation, needs: needsAt(reservation, place) }, machines, holdAhead),
    because: ahead === 0 ? { code: "FIRST_IN_ORDER", ahead } : { code: "FITS_BEFORE_OTHERS", ahead },
  };
}
