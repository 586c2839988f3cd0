import { expect, it } from "vitest";
import { runSimulation } from "../src/simulate.ts";
import type { FaultKind } from "../src/fault-risks.ts";

it("gives the same trace, line by line, for the same seed", async () => {
  const [one, other] = [await runSimulation({ seed: 3, sessions: 10 }), await runSimulation({ seed: 3, sessions: 10 })];
  expect(one.trace.lines.length).toBeGreaterThan(500);
  expect(other.trace.lines).toEqual(one.trace.lines);
  expect(other.trace.hash()).toBe(one.trace.hash());
});

it("gives the same trace while another simulation runs concurrently", async () => {
  const alone = await runSimulation({ seed: 5, sessions: 5 });
  const [concurrent] = await Promise.all([
    runSimulation({ seed: 5, sessions: 5 }),
    runSimulation({ seed: 6, sessions: 5 }),
  ]);
  expect(concurrent.trace.hash()).toBe(alone.trace.hash());
});

it("all rules hold for 30 seeds, which have every kind of fault", async () => {
  const faultKinds = new Set<FaultKind>();
  for (let seed = 1; seed <= 30; seed += 1) {
    const { violations, faults } = await runSimulation({ seed, sessions: 20 });
    expect(violations, `seed ${seed}: npm run simulate -- --seed ${seed} --sessions 20 --parts 0`).toEqual([]);
    for (const kind of faults.keys()) faultKinds.add(kind);
  }
  expect([...faultKinds].sort()).toEqual([
    "answer lost",
    "call lost",
    "clock set",
    "delivered twice",
    "dependency away",
    "hint lost",
    "leader changed",
    "node gone",
    "node off",
    "replica frozen",
    "replica killed",
    "replica stopped",
    "slow message",
    "watch interrupted",
  ]);
}, 120_000);
