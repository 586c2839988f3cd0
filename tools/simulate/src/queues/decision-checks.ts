import { isDeepStrictEqual } from "node:util";
import { evolve, restoreLedger, type Ledger, type LedgerEvent } from "@muster/reservation-manager/ledger";
import { buildMachines, withCompleteness } from "@muster/reservation-manager/machines";
import {
  compareRequests,
  firstOf,
  fits,
  isLimited,
  levelOf,
  lineOf,
  pathOf,
  problemOf,
  totalOf,
  upOf,
  usedOf,
  withKept,
  withUse,
  type Forest,
  type QueuedRequest,
} from "@muster/reservation-manager/naive-quota";
import { planGrants } from "@muster/reservation-manager/plan-grants";
import type { PairAmounts } from "@muster/reservation-manager/queue";
import { finish } from "@muster/reservation-manager/steps";
import type { CheckDecision, KnownNodes, ReservationPolicy } from "../replicas/reservation-manager.ts";
import { violateInto, type Violation } from "../step-checks.ts";
import type { World } from "../world.ts";
import { forestOf, hasRoom, isPossible, useOfMachines, waitingOf, type NaiveWorld } from "./naive-world.ts";

/** One decision of a ledger, before it is written. */
export type Decision = KnownNodes & {
  readonly before: Ledger;
  readonly events: readonly LedgerEvent[];
  readonly nowMs: number;
  readonly policy: ReservationPolicy;
};

type Granted = Extract<LedgerEvent, { kind: "granted" }>;

/** A rule of decisions. Returns what breaks it. */
type Property = { readonly rule: string; readonly findBroken: (decision: Decision) => string | undefined };

/** By the numbers of the properties that must always hold; `checkDecisions` has the first one. Each is checked at every decision with events. */
const PROPERTIES: readonly Property[] = [
  { rule: "2: a grant is within what its queue owns, borrows and is lent", findBroken: findExceeded },
  { rule: "3: the ledger grants what the naive ledger grants, until nothing that waits fits", findBroken: findUnlike },
  { rule: "6: a ledger that is rebuilt from its reservations decides the same", findBroken: findOtherDecision },
];

/** Checks every decision. The number of the decision is in the violation. */
export function checkQueueDecisions(world: World, violations: Violation[], policy: ReservationPolicy): CheckDecision {
  const violate = violateInto(world, violations);
  let count = 0;
  return (before, events, known) => {
    if (events.length === 0) return;
    count += 1;
    const decision = { ...known, before, events, nowMs: Date.now(), policy };
    for (const { rule, findBroken } of PROPERTIES) {
      const found = findBroken(decision);
      if (found !== undefined) violate(undefined, rule, `decision ${count} (${describeEvents(events)}): ${found}`);
    }
  };
}

function describeEvents(events: readonly LedgerEvent[]): string {
  return events
    .map((event) => {
      if (event.kind === "requested") return `requested r-${event.reservation.sequence}`;
      return "sequence" in event ? `${event.kind} r-${event.sequence}` : event.kind;
    })
    .join(", ");
}

/** The world before each grant of the decision. */
function* eachGrant({ before, events, nodes }: Decision): Generator<{ event: Granted; world: NaiveWorld }> {
  let ledger = before;
  for (const event of events) {
    if (event.kind === "granted") yield { event, world: { ledger, nodes } };
    ledger = evolve(ledger, event);
  }
}

function findExceeded(decision: Decision): string | undefined {
  for (const { event, world } of eachGrant(decision)) {
    const queue = world.ledger.reservations.get(event.sequence)?.queue;
    if (queue === undefined) continue;
    const forest = forestOf(world);
    const use = useOfMachines(event.machines, world.nodes);
    const broken = findBrokenGrant(forest, queue, use, event.use ?? new Map());
    if (broken !== undefined) return `r-${event.sequence} in ${queue}: ${broken}`;
  }
  return undefined;
}

function findBrokenGrant(forest: Forest, queue: string, use: PairAmounts, recorded: PairAmounts): string | undefined {
  if (!isDeepStrictEqual(sorted(use), sorted(recorded)))
    return `it uses ${print(use)}, and the ledger records ${print(recorded)}`;
  const problem = problemOf(forest, queue);
  if (problem !== undefined) return `the queue admits nothing: ${problem}`;
  if (!fits(forest, queue, use)) return `${print(use)} does not fit`;
  for (const pair of use.keys()) {
    const broken = isLimited(forest, queue, pair)
      ? findAboveLimit(forest, withUse(forest, queue, use), queue, pair)
      : undefined;
    if (broken !== undefined) return broken;
  }
  return undefined;
}

/** The first queue on the way to the root that uses more than it owns and may borrow, of those that the grant changes. */
function findAboveLimit(before: Forest, after: Forest, queue: string, pair: string): string | undefined {
  for (const { name, parent, quotas } of pathOf(after, queue) ?? []) {
    const [used, total] = [usedOf(after, name, pair), totalOf(after, name, pair)];
    const limit = parent === undefined ? 0 : quotas.get(pair)?.borrowingLimit;
    if (limit !== undefined && used > total + BigInt(limit))
      return `${name} uses ${used} ${pair} of ${total}, and may borrow ${limit}`;
    if (upOf(after, name, pair) === upOf(before, name, pair)) return undefined;
  }
  return undefined;
}

function findUnlike(decision: Decision): string | undefined {
  const { events, nodes, areAllKnown, before } = decision;
  // Changes of queues are a decision of their own, before the next pass.
  if (!areAllKnown || events.some(({ kind }) => kind === "queueChanged" || kind === "queueRemoved")) return undefined;
  const after = { ledger: events.reduce(evolve, before), nodes };
  if (isHoldPossible({ ledger: before, nodes }, decision) || isHoldPossible(after, decision)) return undefined;
  for (const { event, world } of eachGrant(decision)) {
    if (!waitingOf(world).every(({ isExact }) => isExact)) continue;
    const next = nextGrant(world);
    if (next?.sequence !== event.sequence)
      return `r-${event.sequence} is granted, the naive ledger grants ${next === undefined ? "none" : `r-${next.sequence}`}`;
  }
  const next = nextGrant(after);
  return next && `r-${next.sequence} waits, and the naive ledger grants it`;
}

/** What is kept for requests that have waited too long is not part of the naive ledger. */
function isHoldPossible(world: NaiveWorld, { policy, nowMs }: Decision): boolean {
  return waitingOf(world).some(({ createdAtMs }) => createdAtMs < nowMs - policy.holdAfterMs);
}

/** The request that the naive ledger grants next, of the trees in which all is exact. */
export function nextGrant(world: NaiveWorld): QueuedRequest | undefined {
  const forest = forestOf(world);
  const waiting = waitingOf(world);
  const rootOf = ({ queue }: QueuedRequest): string | undefined =>
    queue === undefined ? undefined : (pathOf(forest, queue)?.at(-1)?.name ?? queue);
  const inexact = new Set(waiting.filter(({ isExact, queue }) => !isExact && queue !== undefined).map(rootOf));
  const exact = waiting.filter((request) => request.isExact && !inexact.has(rootOf(request)));
  const possible = exact.filter((request) => isPossible(request, world));
  const needs = new Map(possible.map((request) => [request.sequence, request]));
  const mayStart = ({ sequence }: QueuedRequest): boolean => {
    const request = needs.get(sequence);
    return request !== undefined && hasRoom(request, world);
  };
  const kept = withKept(forest, possible);
  const candidates = forest.queues.flatMap(({ name }) => {
    const first = lineOf(forest, name, possible).find(
      (request) =>
        fits(forest, name, request.ask) &&
        (levelOf(forest, name, request.ask) === 0 || fits(kept, name, request.ask)) &&
        mayStart(request),
    );
    return first ?? [];
  });
  const free = possible.filter(({ queue }) => queue === undefined).sort(compareRequests);
  return firstOf(forest, [...candidates, ...free.filter(mayStart).slice(0, 1)]);
}

function findOtherDecision({ before, events, nodes, areAllKnown, nowMs, policy }: Decision): string | undefined {
  const first = events.findIndex(({ kind }) => kind === "granted");
  const causes = first === -1 ? events : events.slice(0, first);
  const grants = events.slice(causes.length);
  if (causes.some(({ kind }) => kind === "queueChanged" || kind === "queueRemoved")) return undefined;
  const ledger = rebuild(causes.reduce(evolve, before));
  const machines = withCompleteness(buildMachines(nodes, ledger), areAllKnown);
  const planned = planGrants({ ledger, machines }, policy, nowMs).steps.map(({ sequence, machines: chosen }) => {
    return describeGrant(sequence, chosen);
  });
  const decided = grants.map((event) =>
    event.kind === "granted" ? describeGrant(event.sequence, event.machines) : event.kind,
  );
  if (isDeepStrictEqual(planned, decided)) return undefined;
  return `it grants ${decided.join("; ") || "nothing"}, a rebuilt one ${planned.join("; ") || "nothing"}`;
}

function describeGrant(sequence: number, machines: readonly { readonly node: string }[]): string {
  return `r-${sequence} ${machines.map(({ node }) => node).join(" ")}`;
}

/** The ledger without any of what it has computed. */
export function rebuild({ reservations, nextSequence, limits, queues }: Ledger): Ledger {
  return finish(restoreLedger([...reservations.values()], nextSequence, limits.entries(), queues.values()));
}

function sorted(amounts: PairAmounts): readonly (readonly [string, number])[] {
  return [...amounts].filter(([, amount]) => amount > 0).sort(([a], [b]) => (a < b ? -1 : 1));
}

function print(amounts: PairAmounts): string {
  return sorted(amounts)
    .map(([pair, amount]) => `${amount} ${pair}`)
    .join(", ");
}
