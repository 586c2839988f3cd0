import { isDeepStrictEqual } from "node:util";
import { evolveLedger, restoreLedger, type Ledger, type LedgerEvent } from "@muster/reservation-manager/ledger";
import { buildMachines, withCompleteness } from "@muster/reservation-manager/machines";
import {
  fits,
  isLimited,
  pathOf,
  problemOf,
  totalOf,
  countedByParent,
  usedOf,
  withUse,
  type Forest,
} from "@muster/reservation-manager/naive-quota";
import { planGrant } from "@muster/reservation-manager/naive-preemption";
import {
  forestIn,
  mayBorrow,
  mayHave,
  naiveWorldOf,
  useOn,
  type KnownWorld,
} from "@muster/reservation-manager/naive-world";
import {
  followBeneficiaries,
  PREEMPTION_PROPERTIES,
  type Decision,
  type Property,
} from "@muster/reservation-manager/preemption-rules";
import { settleStep, settleGrants } from "@muster/reservation-manager/plan-settlement";
import type { PairAmounts } from "@muster/reservation-manager/queue";
import { runToEnd } from "@muster/reservation-manager/steps";
import type { CheckDecision, ReservationPolicy } from "../replicas/reservation-manager.ts";
import { violateInto, type Violation } from "../step-checks.ts";
import type { World } from "../world.ts";

/** A decision of a ledger before it is written. */
type PolicyDecision = Decision & { readonly policy: ReservationPolicy };

type Granted = Extract<LedgerEvent, { kind: "granted" }>;

/** Properties that must always hold, by number; `checkDecisions` has the first one. Each is checked at every decision with events. */
const PROPERTIES: readonly Property<PolicyDecision>[] = [
  { rule: "2: a grant is within what its queue owns, borrows and is lent", findBroken: findExceeded },
  {
    rule: "2: what may not be preempted borrows nothing that another queue may reclaim",
    findBroken: findUnreclaimable,
  },
  {
    rule: "3: the ledger grants what the naive ledger grants, until nothing that waits fits",
    findBroken: findDifference,
  },
  ...PREEMPTION_PROPERTIES,
  { rule: "6: a ledger that is rebuilt from its reservations decides the same", findBroken: findOtherDecision },
];

/** Checks every decision. The number of the decision is in the violation. */
export function checkQueueDecisions(world: World, violations: Violation[], policy: ReservationPolicy): CheckDecision {
  const violate = violateInto(world, violations);
  const properties = [...PROPERTIES, followBeneficiaries()];
  let count = 0;
  return (before, events, known) => {
    if (events.length === 0) return;
    count += 1;
    const decision = { ...known, before, events, nowMs: Date.now(), policy };
    for (const { rule, findBroken, isWithoutHolds = false } of properties) {
      if (isWithoutHolds && isHoldPossible(decision.before, decision)) continue;
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
function* eachGrant({
  before,
  events,
  nodes,
  nowMs,
}: PolicyDecision): Generator<{ event: Granted; known: KnownWorld }> {
  let ledger = before;
  for (const event of events) {
    if (event.kind === "granted") yield { event, known: { ledger, nodes, nowMs } };
    ledger = evolveLedger(ledger, event);
  }
}

function findExceeded(decision: PolicyDecision): string | undefined {
  for (const { event, known } of eachGrant(decision)) {
    const world = naiveWorldOf(known);
    const work = world.work.find(({ sequence }) => sequence === event.sequence);
    if (work?.queue === undefined) continue;
    const use = useOn(
      world,
      work,
      event.machines.map(({ node }) => node),
    );
    const broken = findBrokenGrant(forestIn(world), work.queue, use, event.use ?? new Map());
    if (broken !== undefined) return `r-${event.sequence} in ${work.queue}: ${broken}`;
  }
  return undefined;
}

function findUnreclaimable(decision: PolicyDecision): string | undefined {
  for (const { event, known } of eachGrant(decision)) {
    const world = naiveWorldOf(known);
    const work = world.work.find(({ sequence }) => sequence === event.sequence);
    if (work !== undefined && !mayBorrow(world, work)) return `r-${work.sequence} in ${work.queue ?? "no queue"}`;
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
    if (countedByParent(after, name, pair) === countedByParent(before, name, pair)) return undefined;
  }
  return undefined;
}

function findDifference(decision: PolicyDecision): string | undefined {
  const { events, nodes, areAllKnown, before, nowMs } = decision;
  // Changes of queues are a decision of their own, before the next pass.
  if (!areAllKnown || events.some(({ kind }) => kind === "queueChanged" || kind === "queueRemoved")) return undefined;
  const after = { ledger: events.reduce(evolveLedger, before), nodes, nowMs };
  if (isHoldPossible(before, decision) || isHoldPossible(after.ledger, decision)) return undefined;
  for (const { event, known } of eachGrant(decision)) {
    const next = nextGrant(known);
    if (next !== event.sequence && (next !== undefined || !isWithinRules(event, known)))
      return `r-${event.sequence} is granted, the naive ledger grants ${next === undefined ? "none" : `r-${next}`}`;
  }
  if (isContinued(decision, after.ledger)) return undefined;
  const next = nextGrant(after);
  return next === undefined ? undefined : `r-${next} waits, and the naive ledger grants it`;
}

/** Whether the grant breaks no promise, where the naive ledger finds no nodes for it. */
function isWithinRules({ sequence, machines }: Granted, known: KnownWorld): boolean {
  const world = naiveWorldOf(known);
  const work = world.work.find((each) => each.sequence === sequence);
  if (work === undefined) return false;
  const nodes = work.needs.map(({ component }) => machines.find((each) => each.component === component)?.node ?? "");
  return mayHave(world, work, nodes);
}

/** Whether the next pass may grant more: a preemption, or a grant while work leaves, may let in another request. */
function isContinued({ events }: PolicyDecision, { beneficiaries }: Ledger): boolean {
  return events.some(({ kind }) => kind === "preempted" || (kind === "granted" && beneficiaries.length > 0));
}

/** The naive ledger does not hold machines for requests that have waited too long. */
function isHoldPossible({ reservations }: Ledger, { policy, nowMs }: PolicyDecision): boolean {
  return [...reservations.values()].some(({ grant, createdAtMs }) => {
    return grant === undefined && createdAtMs < nowMs - policy.holdAfterMs;
  });
}

/** The sequence of the request that the naive ledger grants next. */
export function nextGrant(known: KnownWorld): number | undefined {
  return planGrant(naiveWorldOf(known))?.sequence;
}

const CAUSES: ReadonlySet<LedgerEvent["kind"]> = new Set([
  ...(["requested", "released", "limited", "preemptionAccepted", "requeued"] as const),
]);

type Start = Parameters<typeof settleGrants>[0];

/** All grants, with as many passes as they take. */
function settleAllGrants(start: Start, policy: ReservationPolicy, nowMs: number): readonly LedgerEvent[] {
  const { events, complete, world } = settleGrants(start, policy, nowMs);
  return complete || events.length === 0 ? events : [...events, ...settleAllGrants(world, policy, nowMs)];
}

function findOtherDecision({ before, events, nodes, areAllKnown, nowMs, policy }: PolicyDecision): string | undefined {
  const first = events.findIndex(({ kind }) => !CAUSES.has(kind));
  const causes = first === -1 ? events : events.slice(0, first);
  const decided = events.slice(causes.length);
  if (events.some(({ kind }) => kind === "queueChanged" || kind === "queueRemoved")) return undefined;
  const ledger = rebuildLedger(causes.reduce(evolveLedger, before));
  const machines = withCompleteness(buildMachines(nodes, ledger), areAllKnown);
  const is = describePlan(decided);
  // Only passes preempt, and a pass has no cause.
  const plans = causes.length > 0 ? [settleGrants] : [settleStep, settleGrants];
  const start = { ledger, machines };
  const others = plans.map((plan) => describePlan(plan(start, policy, nowMs).events));
  if (others.includes(is)) return undefined;
  // A grant may let in a request that was refused before it: then the next pass grants that, or the decision whose request came with a grant of its own.
  const whole = describePlan(settleAllGrants(start, policy, nowMs));
  return whole === is ? undefined : `it decides ${is}, a rebuilt one ${[...others, whole].join(", or ")}`;
}

function describePlan(events: readonly LedgerEvent[]): string {
  const described = events.map((event) => {
    const sequence = "sequence" in event ? ` r-${event.sequence}` : "";
    const nodes = event.kind === "granted" ? ` ${event.machines.map(({ node }) => node).join(" ")}` : "";
    const target = event.kind === "preempted" ? ` for r-${event.beneficiary ?? 0} ${event.reason}` : "";
    return `${event.kind}${sequence}${nodes}${target}`;
  });
  return described.join("; ") || "nothing";
}

/** The ledger without its computed parts. */
export function rebuildLedger({ reservations, nextSequence, limits, queues, beneficiaries, pastUse }: Ledger): Ledger {
  const rest = { limits: limits.entries(), queues: queues.values(), beneficiaries, pastUse };
  return runToEnd(restoreLedger([...reservations.values()], nextSequence, rest));
}

function sorted(amounts: PairAmounts): readonly (readonly [string, number])[] {
  return [...amounts].filter(([, amount]) => amount > 0).sort(([a], [b]) => (a < b ? -1 : 1));
}

function print(amounts: PairAmounts): string {
  return sorted(amounts)
    .map(([pair, amount]) => `${amount} ${pair}`)
    .join(", ");
}
