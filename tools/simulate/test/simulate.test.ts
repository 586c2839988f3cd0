import { expect, it } from "vitest";
import { simulate } from "../src/simulate.ts";
import type { FaultKind } from "../src/weather.ts";

it("gives the same trace, line by line, for the same seed", async () => {
  const [one, other] = [await simulate({ seed: 3, sessions: 10 }), await simulate({ seed: 3, sessions: 10 })];
  expect(one.trace.lines.length).toBeGreaterThan(500);
  expect(other.trace.lines).toEqual(one.trace.lines);
  expect(other.trace.hash()).toBe(one.trace.hash());
});

it("gives the same trace also while another simulation runs beside it", async () => {
  const alone = await simulate({ seed: 5, sessions: 5 });
  const [beside] = await Promise.all([simulate({ seed: 5, sessions: 5 }), simulate({ seed: 6, sessions: 5 })]);
  expect(beside.trace.hash()).toBe(alone.trace.hash());
});

it("30 seeds hold, and meet every kind of fault", async () => {
  const met = new Set<FaultKind>();
  for (let seed = 1; seed <= 30; seed += 1) {
    const { violations, faults } = await simulate({ seed, sessions: 20 });
    expect(violations, `seed ${seed}: npm run simulate -- --seed ${seed} --sessions 20`).toEqual([]);
    for (const kind of faults.keys()) met.add(kind);
  }
  expect([...met].sort()).toEqual([
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
