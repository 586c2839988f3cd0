import { expect, it } from "vitest";
import { planForeign } from "./plan-foreign.ts";
import { planJobs } from "./plan-jobs.ts";

const POOLS = { drivers: 4, workers: 12 };

it("plans the same foreign pods for the same seed, and residents on different nodes", () => {
  const plan = planForeign(3, { windowMs: 10_000, pools: POOLS });
  expect(planForeign(3, { windowMs: 10_000, pools: POOLS })).toEqual(plan);
  expect(plan.pods.length).toBe(20);
  expect(new Set(plan.residents.map(({ node }) => node)).size).toBe(plan.residents.length);
});

it("lets a part of the jobs request parts of machines, all types of a job or none", () => {
  const jobs = planJobs(3, { jobs: 60, windowMs: 10_000, pools: POOLS });
  const shared = jobs.filter(({ types }) => types.some(({ requests }) => requests !== undefined));
  expect(shared.length).toBeGreaterThan(10);
  expect(shared.length).toBeLessThan(50);
  for (const { types } of shared) expect(types.every(({ requests }) => requests !== undefined)).toBe(true);
});
