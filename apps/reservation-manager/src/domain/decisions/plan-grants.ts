import { findCandidateClasses } from "./find-candidate-classes.ts";
import { findHolds } from "./find-hold.ts";
import { assignMachines, findHoldAhead, type MachineHold, type HoldPolicy } from "./fit.ts";
import { getReservation, type LedgerEvent } from "../ledger/ledger.ts";
import { shareBytes, type Grant } from "../ledger/reservation.ts";
import { countAhead, getNeedsAt, findNextRequest, type QueuePosition } from "../ledger/waiting-queue.ts";
import { evolveWorld, type World } from "../ledger/world.ts";
import { takeFirst } from "./first-in-order.ts";

export type GrantStep = {
  readonly kind: "grant";
  readonly sequence: number;
  readonly because: GrantReason;
} & Omit<Grant, "atMs">;

/** `ahead`: requests of higher priority or age that were overtaken because they do not fit. */
type GrantReason =
  | { readonly code: "FIRST_IN_ORDER"; readonly ahead: 0 }
  | { readonly code: "FITS_BEFORE_OTHERS"; readonly ahead: number };

/** `complete`: no waiting request fits after these steps. Otherwise the plan reached its limit, and the next one continues. */
type GrantPlan = { readonly steps: readonly GrantStep[]; readonly complete: boolean };

export type GrantPolicy = HoldPolicy & {
  /** Limit of machines per plan, so that the log entry fits. A single reservation may have more. */
  readonly machinesPerPlan: number;
};

/**
 * Plans the next grants: the first in order (`takeFirst`) of the requests without an obstacle (`findObstacle`). Planning after a complete plan plans nothing.
 *
 * The cost grows with the classes of requests that fit or nearly fit: those of `findCandidateClasses` without a queue, and those that `takeFirst` visits in
 * queues. It does not grow with all waiting requests.
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
    // A grant can end a hold by reaching a concurrency limit, so requests that did not fit before may fit now.
    after = round.world;
  }
}

export function buildGrantEvent({ kind: _kind, because: _because, ...granted }: GrantStep, nowMs: number): LedgerEvent {
  return { kind: "granted", ...granted, atMs: nowMs };
}

/** Walks once in queue order over the classes that may fit. `budget`: machines left in this plan; the result has the rest. */
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
    const step = planGrant(place, world, findHoldAhead(waiting, place, world, holds.machines));
    steps.push(step);
    budget -= weigh(step);
    world = evolveWorld(world, [buildGrantEvent(step, nowMs)]);
    const heldBefore = holds.machines?.place.sequence;
    holds = findHolds(world, policy, nowMs);
    // Skipped requests may fit without the hold, and come before the rest of this walk.
    if (heldBefore !== holds.machines?.place.sequence && heldBefore !== step.sequence) break;
    if (waiting.queue !== undefined) continue;
    // Begin the next round, because the candidates still contain the request's other options.
    if (place.option !== undefined) break;
    const next = waiting.places.first(findNextRequest(place));
    if (next !== undefined) candidates = candidates.set(next[0], waiting);
  }
  return { steps, world, budget };
}

/** Bytes in the log of a machine with the longest names. */
const BYTES_PER_MACHINE = 400;

/** The number of machines with the longest names that take as much of a log entry as these. */
function weigh({ machines, use }: GrantStep): number {
  const weightOfUse = shareBytes(use) / BYTES_PER_MACHINE;
  return machines.reduce((sum, { shared }) => sum + 1 + shareBytes(shared) / BYTES_PER_MACHINE, weightOfUse);
}

function planGrant(place: QueuePosition, { ledger, machines }: World, holdAhead: MachineHold | undefined): GrantStep {
  const reservation = getReservation(ledger, place.sequence);
  const ahead = countAhead(reservation, ledger.queue);
  return {
    kind: "grant",
    sequence: reservation.sequence,
    ...assignMachines({ ...reservation, needs: getNeedsAt(reservation, place) }, machines, holdAhead),
    because: ahead === 0 ? { code: "FIRST_IN_ORDER", ahead } : { code: "FITS_BEFORE_OTHERS", ahead },
  };
}
