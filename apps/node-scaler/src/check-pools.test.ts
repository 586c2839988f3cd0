import { expect, it } from "vitest";
import { buildPolicy } from "../test/build-node.ts";
import { ScalerWorld } from "../test/scaler-world.ts";
import { checkPools } from "./check-pools.ts";
import { buildPoolTroubles } from "./domain/build-pool-troubles.ts";

/** Runs the check; before each further check `between` changes the world. */
async function check(world: ScalerWorld, between: readonly (() => void)[]) {
  const reports: string[] = [];
  const { report } = world.scaler;
  const scaler = {
    ...world.scaler,
    report: {
      ...report,
      poolIsWrong: (pool: string, problems: readonly string[]) => reports.push(`${pool}: ${problems.join(" and ")}`),
      failed: (_: string, doing: string) => reports.push(`not done: ${doing}`),
    },
  };
  const troubles: (readonly string[])[] = [];
  const left = between.values();
  const pausesMs: number[] = [];
  await checkPools(scaler, (delayMs) => {
    pausesMs.push(delayMs);
    const found = buildPoolTroubles({ ...scaler.memory, policies: scaler.policies, nowMs: world.nowMs });
    troubles.push(found.map(({ pool, message }) => `${pool}: ${message}`));
    left.next().value?.();
    return Promise.resolve();
  });
  return { reports, troubles, pausesMs };
}

it("reports an invalid pool once, lists it among the troubles until it is valid, and then stops checking", async () => {
  const world = new ScalerWorld(buildPolicy());
  world.cloud.faults.wrong = ["there is no small", "there is no zone x"];
  const right = () => (world.cloud.faults.wrong = []);
  const { reports, troubles } = await check(world, [() => undefined, right]);
  expect(reports).toEqual(["a: there is no small and there is no zone x"]);
  expect(troubles).toEqual(Array(2).fill(["a: there is no small; there is no zone x"]));
  expect(world.scaler.memory.invalidPools.size).toBe(0);
});

it("checks with growing pauses of at most ten minutes", async () => {
  const world = new ScalerWorld(buildPolicy());
  world.cloud.faults.wrong = ["there is no small"];
  const right = () => (world.cloud.faults.wrong = []);
  const { pausesMs } = await check(world, [...Array<() => void>(7).fill(() => undefined), right]);
  const most = [30_000, 60_000, 120_000, 240_000, 480_000, 600_000, 600_000, 600_000];
  expect(pausesMs).toHaveLength(most.length);
  for (const [look, maxMs] of most.entries()) {
    expect(pausesMs[look]).toBeGreaterThanOrEqual(maxMs / 2);
    expect(pausesMs[look]).toBeLessThanOrEqual(maxMs);
  }
});

it("reports that a provider does not answer, and retries", async () => {
  const world = new ScalerWorld(buildPolicy());
  world.cloud.faults.rateLimited = { times: 2, retryAfterMs: 0 };
  const { reports, troubles } = await check(world, [() => undefined, () => undefined]);
  expect(reports).toEqual(Array(2).fill("not done: checking pool a"));
  expect(troubles).toEqual([[], []]);
});
