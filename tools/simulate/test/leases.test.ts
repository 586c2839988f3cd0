import { faultOf } from "@muster/faults";
import type { EngineOps } from "@muster/provision-engine/engine";
import { expect, it } from "vitest";
import type { TamperEngine } from "../src/replicas/provision-engine.ts";
import { simulateLeases } from "../src/simulate-leases.ts";

const LEASES = 15;
const SEEDS = 8;

it("8 seeds of leases hold, and the same seed gives the same trace", async () => {
  const met = new Set<string>();
  const outcomes = new Set<string>();
  for (let seed = 1; seed <= SEEDS; seed += 1) {
    const run = await simulateLeases({ seed, leases: LEASES });
    expect(run.violations, `npm run simulate -- --seed ${seed} --leases ${LEASES}`).toEqual([]);
    for (const kind of run.faults.keys()) met.add(kind);
    for (const outcome of run.outcomes.keys()) outcomes.add(outcome);
    if (seed > 1) continue;
    const again = await simulateLeases({ seed, leases: LEASES });
    expect(again.trace.lines).toEqual(run.trace.lines);
  }
  for (const kind of ["call lost", "answer lost", "delivered twice", "replica killed", "replica frozen"] as const)
    expect(met).toContain(kind);
  expect(met).toContain("leader changed");
  for (const type of ["debug", "container", "network", "machine"]) expect(outcomes).toContain(`${type} ENDED EXPIRED`);
  for (const type of ["container", "machine"]) expect(outcomes).toContain(`${type} ENDED MIGRATED`);
}, 120_000);

/** An engine that writes over whatever is there: its fence keeps nobody out. */
const ignoresOthers: TamperEngine = (ops) => ({
  ...ops,
  records: {
    ...ops.records,
    own: async (stored, next, fence) => {
      try {
        return await ops.records.own(stored, next, fence);
      } catch (error) {
        const now = faultOf(error)?.code === "conflict" ? await ops.records.get(next.order.id) : undefined;
        if (now === undefined) throw error;
        return ops.records.change(now, { ...next, fence });
      }
    },
  },
});

/** An engine that says that all is taken down, and takes nothing down. */
const leavesAll: TamperEngine = (ops) => ({
  ...ops,
  workloads: new Map(
    [...ops.workloads].map(([type, each]) => [type, { ...each, decommission: () => Promise.resolve() }]),
  ),
});

/** An engine whose clock is three seconds late. */
const isLate: TamperEngine = (ops) => ({ ...ops, nowNs: () => ops.nowNs() - 3_000_000_000n });

/** An engine that sees nothing of what others hold. */
const seesNobody: TamperEngine = (ops) => ({ ...ops, holdings: withoutHeld(ops.holdings) });

function withoutHeld(holdings: EngineOps["holdings"]): EngineOps["holdings"] {
  return {
    ...holdings,
    around: (order) => ({ ...holdings.around(order), held: { cru: 0n, mru: 0n, sru: 0n, hru: 0n } }),
  };
}

/** An engine that takes what nobody has handed over. */
const takesAlone: TamperEngine = (ops) => ({
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

/** An engine that forgets whose workload a lease has. */
const forgetsOlder: TamperEngine = (ops) => ({
  ...ops,
  records: {
    ...ops.records,
    own: (stored, next, fence) => ops.records.own(stored, { ...next, madeFor: undefined }, fence),
  },
});

/** An engine that believes that it has told what it has not. */
const tellsNobody: TamperEngine = (ops) => ({ ...ops, feedback: () => Promise.resolve() });

it.each<{ title: string; plant: TamperEngine; rule: RegExp }>([
  { title: "writes over others", plant: ignoresOthers, rule: /fence|phases|history|runs again/ },
  { title: "leaves all that it has made", plant: leavesAll, rule: /nothing is left/ },
  { title: "comes late", plant: isLate, rule: /within a second/ },
  { title: "sees nobody else", plant: seesNobody, rule: /no more is leased/ },
  { title: "takes what nobody has handed over", plant: takesAlone, rule: /one lease has what is there/ },
  { title: "forgets whose workload it has", plant: forgetsOlder, rule: /heir has what was handed over/ },
  { title: "tells nobody", plant: tellsNobody, rule: /what was told/ },
])("finds an engine that $title", async ({ plant, rule }) => {
  const found: string[] = [];
  for (let seed = 1; seed <= SEEDS && found.length === 0; seed += 1) {
    const { violations } = await simulateLeases({ seed, leases: LEASES, plant });
    found.push(...violations.map((each) => each.rule));
  }
  expect(found[0]).toMatch(rule);
});
