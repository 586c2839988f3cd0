import { expect, it } from "vitest";
import type { TamperEvents } from "../src/replicas/reservation-manager.ts";
import { simulateQueues, type QueuePlant } from "../src/simulate-queues.ts";

const REQUESTS = 30;
const SEEDS = 6;

it("6 seeds of requests of queues hold, and the same seed gives the same trace", async () => {
  const seen = new Set<string>();
  for (let seed = 1; seed <= SEEDS; seed += 1) {
    const run = await simulateQueues({ seed, queues: REQUESTS });
    expect(run.violations, `npm run simulate -- --seed ${seed} --queues ${REQUESTS}`).toEqual([]);
    for (const kind of [...run.faults.keys(), ...run.outcomes.keys()]) seen.add(kind);
    for (const line of run.trace.lines) seen.add(/ event \d+: (\w+)/.exec(line)?.[1] ?? "");
    if (seed > 1) continue;
    const repeated = await simulateQueues({ seed, queues: REQUESTS });
    expect(repeated.trace.lines).toEqual(run.trace.lines);
  }
  for (const kind of ["replica killed", "replica frozen", "leader changed", "call lost", "node gone", "foreign pod"])
    expect(seen).toContain(kind);
  for (const outcome of ["done", "cancelled", "quota_exceeded"]) expect(seen).toContain(outcome);
  for (const verb of ["puts", "removes", "cordons", "breaks", "loses", "resizes", "repairs"])
    expect(seen).toContain(verb);
}, 120_000);

it("compares shares of pods in one pool where the pods of another pool are not limited", async () => {
  expect((await simulateQueues({ seed: 295, queues: 40 })).violations).toEqual([]);
}, 60_000);

/** A ledger that grants no request immediately. */
const grantsLate: TamperEvents = (events) =>
  events.some(({ kind }) => kind === "requested") ? events.filter(({ kind }) => kind !== "granted") : events;

/** A ledger that counts no use of queues. */
const countsNoUse: TamperEvents = (events) =>
  events.map((event) => (event.kind === "granted" ? { ...event, use: new Map() } : event));

/** A ledger that gives all parts to the first machine of their pool. */
const packsAll: TamperEvents = (events) =>
  events.map((event) => {
    if (event.kind !== "granted") return event;
    const machines = event.machines.map((machine) =>
      machine.shared === undefined ? machine : { ...machine, node: `${machine.pool}-0` },
    );
    return { ...event, machines };
  });

/** A ledger that answers requests that wait and forgets them. */
const forgetsRequests: TamperEvents = (events) =>
  events.some(({ kind }) => kind === "granted") ? events : events.filter(({ kind }) => kind !== "requested");

it.each<{ title: string; plant: QueuePlant; rule: RegExp }>([
  { title: "that grants late", plant: { events: grantsLate }, rule: /^3: the ledger grants/ },
  { title: "that counts no use", plant: { events: countsNoUse }, rule: /^2: a grant is within/ },
  { title: "that packs all parts", plant: { events: packsAll }, rule: /exceed no node|^6: a ledger that is rebuilt/ },
  { title: "that forgets requests", plant: { events: forgetsRequests }, rule: /^4: / },
  { title: "without a fence", plant: { ledgerWithoutFence: true }, rule: /unexpectedly|^6: the log/ },
])("finds a ledger $title", async ({ plant, rule }) => {
  const found: string[] = [];
  for (let seed = 1; seed <= SEEDS && found.length === 0; seed += 1) {
    const { violations } = await simulateQueues({ seed, queues: REQUESTS, plant });
    found.push(...violations.map((each) => each.rule));
  }
  expect(found[0]).toMatch(rule);
});
