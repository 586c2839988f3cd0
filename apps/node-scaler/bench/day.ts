import { selectSize } from "@muster/testkit";
import { computeScaling } from "../src/domain/compute.ts";
import { simulateDay, type Day } from "./simulate-day.ts";
import { neverStop, oneNodeEach } from "./trivial-policies.ts";
import { DAY_MS, HOUR_MS, drawWorkOfDay } from "./work-of-a-day.ts";

const SEED = 7;
const WORK_UNTIL_MS = selectSize(DAY_MS, 2 * HOUR_MS);
const standby = (count: number) => ({ standby: [{ instanceType: "large", count, spot: false }] });

/** The cost of a pool of at most 2,000 nodes in a day, and the wait of its work, beside trivial policies. */
export function benchDay(): void {
  const work = drawWorkOfDay(SEED).filter(({ demand }) => demand.createdAtMs < WORK_UNTIL_MS);
  const groups = new Set(work.map(({ demand }) => demand.group)).size;
  console.log(`A day of ${work.length} demands in ${groups} groups, seed ${SEED}`);
  const days = {
    "never stop": simulateDay(work, {}, neverStop, SEED),
    "one node per demand": simulateDay(work, {}, oneNodeEach, SEED),
    "compute, idle 0": simulateDay(work, { idleMs: 0 }, computeScaling, SEED),
    "compute, idle 5 min": simulateDay(work, {}, computeScaling, SEED),
    "compute, idle 5 min, 50 on standby": simulateDay(work, standby(50), computeScaling, SEED),
  };
  const maxWaste = wasted(days["never stop"]);
  const maxWait = meanWait(days["one node per demand"]);
  console.table(
    Object.entries(days).map(([policy, day]) => ({
      policy,
      ...row(day),
      "waste, never stop is 1": hundredths(wasted(day) / maxWaste),
      "wait, one node per demand is 1": hundredths(meanWait(day) / maxWait),
    })),
  );
}

function row(day: Day): Readonly<Record<string, number>> {
  const { paidMs, usedMs, waitsMs, boots, maxNodes: mostNodes, waiting } = day;
  const sorted = waitsMs.toSorted((one, other) => one - other);
  const secondsAt = (share: number): number => Math.round((sorted[Math.floor(sorted.length * share)] ?? 0) / 1000);
  return {
    "paid node-hours": hours(paidMs),
    used: hours(usedMs),
    wasted: hours(wasted(day)),
    "wasted %": Math.round((wasted(day) / paidMs) * 1000) / 10,
    "wait mean s": Math.round(meanWait(day) / 1000),
    "p50 s": secondsAt(0.5),
    "p99 s": secondsAt(0.99),
    boots,
    "most nodes": mostNodes,
    "left waiting": waiting,
  };
}

function wasted({ paidMs, usedMs }: Day): number {
  return paidMs - usedMs;
}

function meanWait({ waitsMs }: Day): number {
  return waitsMs.reduce((one, other) => one + other, 0) / waitsMs.length;
}

function hundredths(value: number): number {
  return Math.round(value * 100) / 100;
}

function hours(ms: number): number {
  return Math.round(ms / HOUR_MS);
}
