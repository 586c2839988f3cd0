import type { NodeFacts } from "../src/domain/ledger/machines.ts";
import { evolveLedger, type Ledger, type LedgerEvent } from "../src/domain/ledger/ledger.ts";
import type { Queue } from "../src/domain/ledger/queue.ts";
import { isTooMany } from "./naive-preemption.ts";
import {
  admit,
  futureOf,
  isNotPreemptible,
  isServed,
  isServedWithout,
  naiveWorldOf,
  withoutLeaving,
  type PreemptionWorld,
  type Work,
} from "./naive-world.ts";

/** A decision of a ledger, and the facts that it had. */
export type Decision = {
  readonly before: Ledger;
  readonly events: readonly LedgerEvent[];
  readonly nodes: readonly NodeFacts[];
  /** If false, nothing may be granted. */
  readonly areAllKnown: boolean;
  readonly nowMs: number;
};

/** A rule of decisions. It returns a description of the violation. */
export type Property<Of extends Decision = Decision> = {
  readonly rule: string;
  readonly findBroken: (decision: Of) => string | undefined;
  /** The rule holds only while no machines are held for an overdue request, because the reference holds none. */
  readonly isWithoutHolds?: boolean;
};

/** Rules for each decision that preempts work, or that is made while work leaves. */
export const PREEMPTION_PROPERTIES: readonly Property[] = [
  { rule: "5: work is preempted only where the policy of a queue allows that", findBroken: findUnlawful },
  { rule: "5: what is preempted is enough for the request that it is preempted for", findBroken: findNotEnough },
  { rule: "5: none of the victims of a request can be left out", findBroken: findTooMany, isWithoutHolds: true },
  { rule: "5: what is kept for a request goes to no other", findBroken: findTaken },
  { rule: "5: a preemption is withdrawn only where it serves nothing any more", findBroken: findWithdrawn },
];

/** Follows beneficiaries: their promise holds until nodes or queues change. */
export function followBeneficiaries(): Property {
  /** The nodes and queues when the request had machines in the future, by sequence. */
  const known = new Map<number, string>();
  const findBroken = (decision: Decision): string | undefined => {
    const { before, events } = decision;
    const after = events.reduce(evolveLedger, before);
    // Grants that a change of queues permits follow in this decision or the next one.
    if (events.some(({ kind }) => kind === "queueChanged" || kind === "queueRemoved")) return undefined;
    const [was, is] = [printSurroundings(decision, before), printSurroundings(decision, after)];
    for (const [index, event] of events.entries()) {
      if (event.kind !== "beneficiaryDropped") continue;
      const isNew = events
        .slice(0, index)
        .some((each) => each.kind === "preempted" && each.beneficiary === event.sequence);
      if (isNew || known.get(event.sequence) === was) return `r-${event.sequence} is dropped, and nothing has changed`;
    }
    known.clear();
    // Once a node is lost, one beneficiary may depend on the victims of another.
    const world = worldOf(decision, after);
    for (const { sequence } of after.beneficiaries) if (isServedWithout(world, sequence)) known.set(sequence, is);
    return undefined;
  };
  return { rule: "5: a request keeps what work is preempted for until nodes or queues change", findBroken };
}

/** Prints the queues, and the nodes without the pods of their holders. */
function printSurroundings({ nodes }: Decision, { reservations, queues }: Ledger): string {
  const held = [...reservations.values()].flatMap(({ owner, grant }) =>
    (grant?.machines ?? []).map(({ node }) => `${node} ${owner.id}`),
  );
  const others = nodes.map(({ occupants, ownerUses, ...facts }) => ({
    ...facts,
    occupants: occupants.filter(({ id }) => !held.includes(`${facts.name} ${id}`)),
    ownerUses: ownerUses.filter(({ owner }) => !held.includes(`${facts.name} ${owner.id}`)),
  }));
  return JSON.stringify([others, [...queues.values()]], (_key, value: unknown) =>
    value instanceof Map ? [...(value as ReadonlyMap<unknown, unknown>)] : value,
  );
}

type Preempted = Extract<LedgerEvent, { kind: "preempted" }>;

function findUnlawful(decision: Decision): string | undefined {
  let ledger = decision.before;
  for (const event of decision.events) {
    if (event.kind === "preempted") {
      const problem = problemOfVictim(event, worldOf(decision, ledger));
      if (problem !== undefined) return `r-${event.sequence} for r-${event.beneficiary ?? 0}: ${problem}`;
    }
    ledger = evolveLedger(ledger, event);
  }
  return undefined;
}

function problemOfVictim({ sequence, beneficiary, reason }: Preempted, world: PreemptionWorld): string | undefined {
  const { queues, nowMs } = world;
  const victim = workIn(world, sequence);
  if (victim?.grant === undefined || victim.grant.leaving !== undefined) return "it is not granted, or leaves already";
  if (isNotPreemptible(world, victim)) return "it is not to be preempted";
  const ownQueue = queues.find(({ name }) => name === victim.queue);
  if (reason === "DRAIN") {
    const isDrained = knownPathOf(queues, victim.queue).some(({ stopPolicy }) => stopPolicy === "HoldAndDrain");
    return isDrained && beneficiary === undefined ? undefined : "its queue is not drained";
  }
  const work = beneficiary === undefined ? undefined : workIn(world, beneficiary);
  if (work === undefined || work.grant !== undefined) return "its beneficiary does not wait";
  if (work.preemptedFor === sequence) return "its beneficiary was preempted for it";
  if (nowMs - victim.grant.atMs < (ownQueue?.minRunTimeMs ?? 0)) return "it has not run for its minimum time";
  const policy = queues.find(({ name }) => name === work.queue);
  return mayPreempt(policy, work, victim, reason) ? undefined : `${work.queue ?? "no queue"} does not allow ${reason}`;
}

/** Lists the queue and its ancestors, up to a missing parent or a cycle. A queue with such a problem can still be drained. */
function knownPathOf(queues: readonly Queue[], name: string | undefined): readonly Queue[] {
  const path: Queue[] = [];
  for (let next = name; next !== undefined; next = path.at(-1)?.parent) {
    const queue = queues.find((other) => other.name === next);
    if (queue === undefined || path.includes(queue)) break;
    path.push(queue);
  }
  return path;
}

function mayPreempt(policy: Queue | undefined, work: Work, victim: Work, reason: Preempted["reason"]): boolean {
  const isLower = victim.priority < work.priority;
  switch (reason) {
    case "WITHIN_QUEUE": {
      const isNewer = victim.priority === work.priority && victim.sequence > work.sequence;
      const which = policy?.withinQueue;
      return victim.queue === work.queue && which !== undefined && (isLower || (which === "Any" && isNewer));
    }
    case "RECLAIM":
      return victim.queue !== work.queue && (policy?.reclaim === "Any" || (policy?.reclaim !== undefined && isLower));
    case "FAIR_SHARING":
      return (
        victim.queue !== work.queue &&
        work.preemptedFor === undefined &&
        (policy?.fairSharing === "Any" || (policy?.fairSharing !== undefined && isLower))
      );
    case "DRAIN":
      return false;
  }
}

/** All victims of one request, and the ledgers before and after. */
type VictimSet = {
  readonly beneficiary: number;
  readonly victims: readonly number[];
  readonly before: Ledger;
  readonly after: Ledger;
};

function* eachVictimSet(decision: Decision): Generator<VictimSet> {
  let [before, after] = [decision.before, decision.before];
  let victims: number[] = [];
  for (const [index, event] of decision.events.entries()) {
    after = evolveLedger(after, event);
    if (event.kind === "preempted" && event.beneficiary !== undefined) {
      const { beneficiary } = event;
      victims.push(event.sequence);
      const next = decision.events[index + 1];
      if (next?.kind === "preempted" && next.beneficiary === beneficiary) continue;
      yield { beneficiary, victims, before, after };
    }
    [before, victims] = [after, []];
  }
}

function findNotEnough(decision: Decision): string | undefined {
  for (const { beneficiary, after } of eachVictimSet(decision)) {
    const broken = findShort(beneficiary, worldOf(decision, after));
    if (broken !== undefined) return `r-${beneficiary} ${broken}`;
  }
  return undefined;
}

function findTooMany(decision: Decision): string | undefined {
  for (const { beneficiary, victims, before } of eachVictimSet(decision)) {
    const world = worldOf(decision, before);
    if (isTooMany(world, beneficiary, victims) === true)
      return `r-${beneficiary} does not need all of ${victims.map((each) => `r-${each}`).join(", ")}`;
  }
  return undefined;
}

function findShort(beneficiary: number, world: PreemptionWorld): string | undefined {
  const work = workIn(world, beneficiary);
  if (work === undefined || work.grant !== undefined) return "does not wait";
  if (admit(withoutLeaving(world), work) === undefined) return "does not fit once all has left";
  return isServed(futureOf(world), work) ? undefined : "does not fit beside the requests before it";
}

const WITHDRAWALS: ReadonlySet<string> = new Set<LedgerEvent["kind"]>(["preemptionWithdrawn", "beneficiaryDropped"]);

/** After each grant, every beneficiary must still have its machines and quota, as the reference places the requests. */
function findTaken(decision: Decision): string | undefined {
  if (!decision.areAllKnown) return undefined;
  let ledger = decision.before;
  for (const [index, event] of decision.events.entries()) {
    const before = ledger;
    ledger = evolveLedger(ledger, event);
    if (event.kind !== "granted" || before.beneficiaries.length === 0) continue;
    const next = decision.events.findIndex(({ kind }, at) => at > index && !WITHDRAWALS.has(kind));
    const withdrawn = decision.events.slice(index + 1, next === -1 ? undefined : next);
    const [was, is] = [before, withdrawn.reduce(evolveLedger, ledger)].map((each) => futureOf(worldOf(decision, each)));
    for (const { sequence } of before.beneficiaries) {
      if (sequence === event.sequence || was === undefined || is === undefined) continue;
      const [then, now] = [was, is].map((future) => workIn(future, sequence)?.grant);
      if (then !== undefined && now === undefined) return `r-${event.sequence} takes what is kept for r-${sequence}`;
    }
  }
  return undefined;
}

function findWithdrawn({ events, before }: Decision): string | undefined {
  let ledger = before;
  for (const event of events) {
    if (event.kind === "preemptionWithdrawn") {
      const { isAccepted, beneficiary } = ledger.reservations.get(event.sequence)?.grant?.preemption ?? {};
      if (isAccepted !== false) return `r-${event.sequence} has accepted it`;
      if (ledger.beneficiaries.some(({ sequence }) => sequence === beneficiary))
        return `r-${beneficiary ?? 0} waits for what r-${event.sequence} leaves`;
    }
    ledger = evolveLedger(ledger, event);
  }
  return undefined;
}

function worldOf({ nodes, nowMs }: Decision, ledger: Ledger): PreemptionWorld {
  return naiveWorldOf({ ledger, nodes, nowMs });
}

function workIn({ work }: PreemptionWorld, sequence: number): Work | undefined {
  return work.find((each) => each.sequence === sequence);
}
