import { findFault } from "@muster/faults";
import type { EngineOps } from "@muster/provision-engine/engine-ops";
import { expect, it } from "vitest";
import type { TamperEngine } from "../src/replicas/provision-engine.ts";
import { simulateLeases } from "../src/simulate-leases.ts";

const LEASES = 15;
const SEEDS = 8;

it("8 seeds of leases hold, and the same seed gives the same trace", async () => {
  const faultKinds = new Set<string>();
  const outcomes = new Set<string>();
  for (let seed = 1; seed <= SEEDS; seed += 1) {
    const run = await simulateLeases({ seed, leases: LEASES });
    expect(run.violations, `npm run simulate -- --seed ${seed} --leases ${LEASES}`).toEqual([]);
    for (const kind of run.faults.keys()) faultKinds.add(kind);
    for (const outcome of run.outcomes.keys()) outcomes.add(outcome);
    if (seed > 1) continue;
    const repeated = await simulateLeases({ seed, leases: LEASES });
    expect(repeated.trace.lines).toEqual(run.trace.lines);
  }
  for (const kind of ["call lost", "answer lost", "delivered twice", "replica killed", "replica frozen"] as const)
    expect(faultKinds).toContain(kind);
  expect(faultKinds).toContain("leader changed");
  for (const type of ["debug", "container", "network", "machine"]) expect(outcomes).toContain(`${type} ENDED EXPIRED`);
  for (const type of ["container", "machine"]) expect(outcomes).toContain(`${type} ENDED MIGRATED`);
}, 120_000);

it("an order that is refused for lack of capacity is logged with its amounts", async () => {
  const run = await simulateLeases({ seed: 700521, leases: 30 });
  expect(run.violations).toEqual([]);
  expect(run.trace.lines.join("\n")).toMatch(/planned .*not enough free resources/);
}, 60_000);

/** An engine that overwrites every conflicting write: its fence stops no other leader. */
const ignoresConflicts: TamperEngine = (ops) => ({
  ...ops,
  records: {
    ...ops.records,
    own: async (stored, next, fence) => {
      try {
        return await ops.records.own(stored, next, fence);
      } catch (error) {
        const now = findFault(error)?.code === "conflict" ? await ops.records.get(next.order.id) : undefined;
        if (now === undefined) throw error;
        return ops.records.change(now, { ...next, fence });
      }
    },
  },
});

/** An engine that reports a decommission without removing anything. */
const removesNothing: TamperEngine = (ops) => ({
  ...ops,
  workloads: new Map(
    [...ops.workloads].map(([type, each]) => [type, { ...each, decommission: () => Promise.resolve() }]),
  ),
});

/** An engine whose clock is three seconds late. */
const isLate: TamperEngine = (ops) => ({ ...ops, nowNs: () => ops.nowNs() - 3_000_000_000n });

/** An engine that does not count the capacity of other leases. */
const ignoresHoldings: TamperEngine = (ops) => ({ ...ops, holdings: withoutHeld(ops.holdings) });

function withoutHeld(holdings: EngineOps["holdings"]): EngineOps["holdings"] {
  return {
    ...holdings,
    around: (order) => ({ ...holdings.around(order), held: { cru: 0n, mru: 0n, sru: 0n, hru: 0n } }),
  };
}

/** An engine that takes a workload over before the older lease hands it over. */
const takesEarly: TamperEngine = (ops) => ({
  ...ops,
  records: {
    ...ops.records,
    own: (stored, next, fence) => {
      const { takesOver } = next;
      const taken =
        takesOver === undefined ? next : { ...next, takesOver: undefined, madeFor: { id: takesOver, run: 1 } };
      return ops.records.own(stored, taken, fence);
    },
  },
});

/** An engine that forgets the origin of a lease's workload. */
const forgetsOrigin: TamperEngine = (ops) => ({
  ...ops,
  records: {
    ...ops.records,
    own: (stored, next, fence) => ops.records.own(stored, { ...next, madeFor: undefined }, fence),
  },
});

/** An engine that records answers as sent without sending them. */
const sendsNoAnswer: TamperEngine = (ops) => ({ ...ops, feedback: () => Promise.resolve() });

it.each<{ title: string; plant: TamperEngine; rule: RegExp }>([
  { title: "overwrites conflicting writes", plant: ignoresConflicts, rule: /fence|phases|history|runs again/ },
  { title: "removes nothing", plant: removesNothing, rule: /nothing is left/ },
  { title: "is late", plant: isLate, rule: /within a second/ },
  { title: "ignores the capacity of other leases", plant: ignoresHoldings, rule: /within the capacity/ },
  { title: "takes over a workload early", plant: takesEarly, rule: /every workload belongs to one lease/ },
  { title: "forgets the origin of a workload", plant: forgetsOrigin, rule: /heir has the workload of its predecessor/ },
  { title: "sends no answers", plant: sendsNoAnswer, rule: /answers agree/ },
])("finds an engine that $title", async ({ plant, rule }) => {
  const found: string[] = [];
  for (let seed = 1; seed <= SEEDS && found.length === 0; seed += 1) {
    const { violations } = await simulateLeases({ seed, leases: LEASES, plant });
    found.push(...violations.map((each) => each.rule));
  }
  expect(found[0]).toMatch(rule);
});
