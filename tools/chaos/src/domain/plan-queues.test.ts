import { expect, it } from "vitest";
import { buildQueues, planQueues, planTeam } from "./plan-queues.ts";
import { makeRandom } from "./random.ts";

const seeds = Array.from({ length: 50 }, (_, seed) => seed);

it("plans teams that own only a part of the machines, and may borrow enough for the largest job", () => {
  for (const seed of seeds) {
    const teams = planQueues(seed);
    expect(planQueues(seed)).toEqual(teams);
    const owned = (pool: string): number => teams.reduce((sum, { quotas }) => sum + (quotas[pool]?.nominal ?? 0), 0);
    expect([owned("workers"), owned("drivers")]).toEqual([14, 4]);
    for (const { quotas } of teams)
      for (const [pool, { nominal, borrowingLimit }] of Object.entries(quotas)) {
        expect(nominal + borrowingLimit).toBeGreaterThanOrEqual(pool === "workers" ? 12 : 2);
        expect(nominal + borrowingLimit).toBeLessThanOrEqual(pool === "workers" ? 14 : 4);
      }
  }
  expect(new Set(seeds.map((seed) => planQueues(seed)[2]?.weight))).toEqual(new Set([0, 1]));
});

it("lets borrowing teams submit first, and the owner of most machines later", () => {
  const random = makeRandom(1, "teams");
  const count = (isFirstHalf: boolean): number => seeds.filter(() => planTeam(random, isFirstHalf) === "team-a").length;
  expect(count(true)).toBeLessThan(seeds.length / 3);
  expect(count(false)).toBeGreaterThan(seeds.length / 2);
});

it("builds the parent first, and the amounts of whole machines", () => {
  const quotas = { workers: { nominal: 2, borrowingLimit: 1 } };
  const [root, team, sessions] = buildQueues([{ name: "team-a", weight: 1, isReclaiming: true, quotas }]);
  expect(root).toMatchObject({ metadata: { name: "company" }, spec: {} });
  expect(sessions).toMatchObject({ metadata: { name: "sessions" }, spec: { namespaceSelector: {} } });
  expect(team).toMatchObject({
    spec: {
      parent: "company",
      preemption: { reclaim: "Any" },
      quotas: [
        {
          pool: "workers",
          resources: [
            { name: "cpu", nominal: 8, borrowingLimit: 4 },
            { name: "memory", nominal: "16Gi", borrowingLimit: "8Gi" },
          ],
        },
      ],
    },
  });
});
