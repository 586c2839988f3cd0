import { expect, it } from "vitest";
import { simulateDay, type Day } from "../bench/simulate-day.ts";
import { neverStop, oneNodeEach, type DayPolicy } from "../bench/trivial-policies.ts";
import { drawWorkOfDay } from "../bench/work-of-a-day.ts";
import { computeScaling, type ScalingSnapshot } from "../src/domain/compute.ts";

const SEED = 3;
/** One group in eight, with a smaller pool, gives the same kind of day. */
const work = drawWorkOfDay(SEED).filter(({ demand }) => Number(/\d+/.exec(demand.name)?.[0]) % 8 === 0);
const pool = { max: 300 };

const wasted = ({ paidMs, usedMs }: Day) => paidMs - usedMs;
const meanWait = ({ waitsMs }: Day) => waitsMs.reduce((one, other) => one + other, 0) / waitsMs.length;

it("wastes much less over a day than without any stops, and lets work wait much less than with a node for each demand", () => {
  const ours = simulateDay(work, pool, computeScaling, SEED);
  const never = simulateDay(work, pool, neverStop, SEED);
  const each = simulateDay(work, pool, oneNodeEach, SEED);
  expect(wasted(ours)).toBeLessThan(0.6 * wasted(never));
  expect(meanWait(ours)).toBeLessThan(0.8 * meanWait(each));
  expect(wasted(ours)).toBeLessThan(1.5 * wasted(each));
});

it("serves all of a day's work through lost spot nodes, failed boots and shortages, in the same way each time", () => {
  const days = [1, 2].map(() => simulateDay(work, pool, computeScaling, SEED));
  expect(days[0]).toEqual(days[1]);
  const [day] = days;
  expect(day?.waitsMs.length).toBeGreaterThanOrEqual(work.length - (day?.waiting ?? 0));
  // The rest arrived in the last minutes of the day.
  expect(day?.waiting).toBeLessThan(70);
  expect(day?.maxNodes).toBeLessThanOrEqual(pool.max);
});

it("keeps its guarantees in each of the twelve thousand rounds of a day", () => {
  const watched: DayPolicy = (snapshot: ScalingSnapshot) => {
    const plan = computeScaling(snapshot);
    expect(plan.start.length).toBeLessThanOrEqual(snapshot.limits.bootsPerRound);
    expect(new Set(plan.bindings.values()).size).toBe(plan.bindings.size);
    const phases = new Map(snapshot.nodes.map(({ name, status }) => [name, status.phase]));
    for (const { name } of plan.stop) expect(["Creating", "Available"]).toContain(phases.get(name));
    return plan;
  };
  expect(simulateDay(work, pool, watched, SEED).waitsMs.length).toBeGreaterThan(work.length / 2);
});
