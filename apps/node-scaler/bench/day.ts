import { compute } from "../src/domain/compute.ts";
import { simulateDay, type Day } from "./simulate-day.ts";
import { neverStop, oneNodeEach } from "./trivial-policies.ts";
import { HOUR_MS, workOfADay } from "./work-of-a-day.ts";

const SEED = 7;
const standby = (count: number) => ({ standby: [{ instanceType: "large", count, spot: false }] });

/** What a pool of at most 2,000 nodes costs in a day, and how long its work waits, beside what trivial policies would do. */
export function benchDay(): void {
  const work = workOfADay(SEED);
  const groups = new Set(work.map(({ demand }) => demand.group)).size;
  console.log(`A day of ${work.length} demands in ${groups} groups, seed ${SEED}`);
  const days: Readonly<Record<string, Day>> = {
    "never stop": simulateDay(work, {}, neverStop, SEED),
    "one node per demand": simulateDay(work, {}, oneNodeEach, SEED),
    "compute, idle 0": simulateDay(work, { idleMs: 0 }, compute, SEED),
    "compute, idle 5 min": simulateDay(work, {}, compute, SEED),
    "compute, idle 5 min, 50 on standby": simulateDay(work, standby(50), compute, SEED),
  };
  console.table(Object.entries(days).map(([policy, day]) => ({ policy, ...row(day) })));
}

function row({ paidMs, usedMs, waitsMs, boots, mostNodes, waiting }: Day): Readonly<Record<string, number>> {
  const sorted = waitsMs.toSorted((one, other) => one - other);
  const secondsAt = (share: number): number => Math.round((sorted[Math.floor(sorted.length * share)] ?? 0) / 1000);
  const sum = waitsMs.reduce((one, other) => one + other, 0);
  return {
    "paid node-hours": hours(paidMs),
    used: hours(usedMs),
    wasted: hours(paidMs - usedMs),
    "wasted %": Math.round(((paidMs - usedMs) / paidMs) * 1000) / 10,
    "wait mean s": Math.round(sum / waitsMs.length / 1000),
    "p50 s": secondsAt(0.5),
    "p99 s": secondsAt(0.99),
    boots,
    "most nodes": mostNodes,
    "left waiting": waiting,
  };
}

function hours(ms: number): number {
  return Math.round(ms / HOUR_MS);
}
