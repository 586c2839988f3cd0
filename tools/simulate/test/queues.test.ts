import { expect, it } from "vitest";
import type { LedgerEvent } from "@muster/reservation-manager/ledger";
import type { TamperEvents } from "../src/replicas/reservation-manager.ts";
import { simulateQueues, type PlantedQueueDefects } from "../src/simulate-queues.ts";

const REQUESTS = 30;
const SEEDS = 6;
const MAX_PLANTED_SEEDS = 40;

it("6 seeds of requests of queues hold, and the same seed gives the same trace", async () => {
  const seen = new Set<string>();
  for (let seed = 1; seed <= SEEDS; seed += 1) {
    const run = await simulateQueues({ seed, queues: REQUESTS });
    expect(run.violations, `npm run simulate -- --seed ${seed} --queues ${REQUESTS}`).toEqual([]);
    for (const kind of [...run.faults.keys(), ...run.outcomes.keys()]) seen.add(kind);
    for (const line of run.trace.lines) {
      seen.add(/ event \d+: (\w+)/.exec(line)?.[1] ?? "");
      seen.add(/receives muster\.req\.reservation\.([\w-]+)/.exec(line)?.[1] ?? "");
    }
    if (seed > 1) continue;
    const repeated = await simulateQueues({ seed, queues: REQUESTS });
    expect(repeated.trace.lines).toEqual(run.trace.lines);
  }
  for (const kind of [
    "replica killed",
    "replica frozen",
    "leader changed",
    "call lost",
    "node gone",
    "foreign pod",
    "controller killed",
  ])
    expect(seen).toContain(kind);
  for (const outcome of ["done", "cancelled", "quota_exceeded"]) expect(seen).toContain(outcome);
  for (const call of ["accept-preemption", "requeue"]) expect(seen).toContain(call);
  for (const verb of ["puts", "removes", "cordons", "breaks", "loses", "resizes", "repairs"])
    expect(seen).toContain(verb);
}, 120_000);

it("compares shares of pods in one pool where the pods of another pool are not limited", async () => {
  expect((await simulateQueues({ seed: 295, queues: 40 })).violations).toEqual([]);
}, 60_000);

it("ends after the last release is answered, though its work ended long after the last change of the log", async () => {
  expect((await simulateQueues({ seed: 30_835, queues: 60 })).violations).toEqual([]);
}, 60_000);

it("takes a rebuilt ledger for the same that grants in one pass less or more", async () => {
  expect((await simulateQueues({ seed: 346, queues: 60 })).violations).toEqual([]);
}, 60_000);

it("expects more victims where machines are held for a request that has waited too long", async () => {
  expect((await simulateQueues({ seed: 461, queues: 60 })).violations).toEqual([]);
}, 60_000);

/** A ledger that grants no request immediately. */
const grantsLate: TamperEvents = (events) =>
  events.some(({ kind }) => kind === "requested") ? events.filter(({ kind }) => kind !== "granted") : events;

/** A ledger that counts no use of queues. */
const countsNoUse: TamperEvents = (events) =>
  events.map((event) => (event.kind === "granted" ? { ...event, use: new Map() } : event));

/** A ledger that grants all parts on the first machine of their pool. */
const packsAll: TamperEvents = (events) =>
  events.map((event) => {
    if (event.kind !== "granted") return event;
    const machines = event.machines.map((machine) =>
      machine.shared === undefined ? machine : { ...machine, node: `${machine.pool}-0` },
    );
    return { ...event, machines };
  });

/** A ledger that reports a wrong reason. */
const mistakes: TamperEvents = (events) =>
  events.map((event) =>
    event.kind === "preempted" && event.reason === "RECLAIM" ? { ...event, reason: "WITHIN_QUEUE" } : event,
  );

/** A ledger that preempts one work only. */
const preemptsOne: TamperEvents = (events) => {
  const first = events.find(({ kind }) => kind === "preempted");
  return events.filter((event) => event.kind !== "preempted" || event === first);
};

/** Builds a ledger that forgets the beneficiary of leaving work as soon as the owner of that work has accepted its preemption. */
function forgetsBeneficiaries(): TamperEvents {
  const beneficiaries = new Map<number, number>();
  return (events) =>
    events.flatMap((event): readonly LedgerEvent[] => {
      if (event.kind === "preempted") beneficiaries.set(event.sequence, event.beneficiary ?? 0);
      if (event.kind !== "preemptionAccepted") return [event];
      const sequence = beneficiaries.get(event.sequence) ?? 0;
      return [event, { kind: "beneficiaryDropped", sequence, atMs: event.atMs }];
    });
}

/** A ledger that withdraws a preemption which its owner has accepted. */
const withdrawsAccepted: TamperEvents = (events) =>
  events.flatMap((event): readonly LedgerEvent[] =>
    event.kind === "preemptionAccepted" ? [event, { ...event, kind: "preemptionWithdrawn" }] : [event],
  );

it.each<{ title: string; plant: PlantedQueueDefects; rule: RegExp }>([
  { title: "that grants late", plant: { events: grantsLate }, rule: /^3: the ledger grants/ },
  { title: "that counts no use", plant: { events: countsNoUse }, rule: /^2: a grant is within/ },
  { title: "that packs all parts", plant: { events: packsAll }, rule: /exceed no node|^6: a ledger that is rebuilt/ },
  { title: "that mistakes a reason", plant: { events: mistakes }, rule: /^5: work is preempted only/ },
  {
    title: "that preempts too little",
    plant: { events: preemptsOne },
    rule: /^5: (what is preempted is enough|a request keeps)/,
  },
  {
    title: "that forgets beneficiaries",
    plant: { events: forgetsBeneficiaries() },
    rule: /^5: a request keeps|^6: a ledger that is rebuilt/,
  },
  { title: "that withdraws too much", plant: { events: withdrawsAccepted }, rule: /^5: a preemption is withdrawn/ },
  { title: "without a fence", plant: { ledgerWithoutFence: true }, rule: /unexpectedly|^6: the log/ },
])(
  "finds a ledger $title",
  async ({ plant, rule }) => {
    const found: string[] = [];
    for (let seed = 1; seed <= MAX_PLANTED_SEEDS && found.length === 0; seed += 1) {
      const { violations } = await simulateQueues({ seed, queues: REQUESTS, plant });
      found.push(...violations.map((each) => each.rule));
    }
    expect(found[0]).toMatch(rule);
  },
  120_000,
);
