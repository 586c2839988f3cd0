import { expect, it } from "vitest";
import { buildPolicy } from "../test/build-node.ts";
import { ScalerWorld } from "../test/scaler-world.ts";
import { checkPools } from "./check-pools.ts";
import { buildPoolTroubles } from "./domain/build-pool-troubles.ts";

/** Runs the check; before each further look `between` changes the world. */
async function check(world: ScalerWorld, between: readonly (() => void)[]) {
  const told: string[] = [];
  const { tell } = world.scaler;
  const scaler = {
    ...world.scaler,
    tell: {
      ...tell,
      wrong: (pool: string, problems: readonly string[]) => told.push(`${pool}: ${problems.join(" and ")}`),
      failed: (_: string, doing: string) => told.push(`not done: ${doing}`),
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
  return { told, troubles, pausesMs };
}

it("tells once what is wrong with a pool, keeps it among its troubles until it is right, and then looks no more", async () => {
  const world = new ScalerWorld(buildPolicy());
  world.cloud.faults.wrong = ["there is no small", "there is no zone x"];
  const right = () => (world.cloud.faults.wrong = []);
  const { told, troubles } = await check(world, [() => undefined, right]);
  expect(told).toEqual(["a: there is no small and there is no zone x"]);
  expect(troubles).toEqual(Array(2).fill(["a: there is no small; there is no zone x"]));
  expect(world.scaler.memory.wrongPools.size).toBe(0);
});

it("looks less and less often, at least every ten minutes", async () => {
  const world = new ScalerWorld(buildPolicy());
  world.cloud.faults.wrong = ["there is no small"];
  const right = () => (world.cloud.faults.wrong = []);
  const { pausesMs } = await check(world, [...Array<() => void>(7).fill(() => undefined), right]);
  const most = [30_000, 60_000, 120_000, 240_000, 480_000, 600_000, 600_000, 600_000];
  expect(pausesMs).toHaveLength(most.length);
  for (const [look, mostMs] of most.entries()) {
    expect(pausesMs[look]).toBeGreaterThanOrEqual(mostMs / 2);
    expect(pausesMs[look]).toBeLessThanOrEqual(mostMs);
  }
});

it("says that a provider cannot be asked, and asks again", async () => {
  const world = new ScalerWorld(buildPolicy());
  world.cloud.faults.rateLimited = { times: 2, retryAfterMs: 0 };
  const { told, troubles } = await check(world, [() => undefined, () => undefined]);
  expect(told).toEqual(Array(2).fill("not done: checking pool a"));
  expect(troubles).toEqual([[], []]);
});
