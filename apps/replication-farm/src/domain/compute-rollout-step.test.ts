import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { computeRemainder, computeRolloutStep, type RolloutCounts } from "./compute-rollout-step.ts";

const counts = (...given: readonly [number, number, number, number, number]): RolloutCounts => {
  const [newHealthy, oldDesired, newDesired, target, minimum] = given;
  return { newHealthy, oldDesired, newDesired, target, minimum };
};

describe("one step of a rolling update", () => {
  it.each([
    ["no replica is left to add", counts(3, 0, 3, 3, 2), 0, 0],
    ["the new set has more than it should", counts(4, 2, 4, 3, 2), 0, 0],
    ["the minimum leaves room for one", counts(0, 3, 0, 3, 2), 1, 1],
    ["the minimum leaves no room", counts(0, 3, 0, 3, 3), 0, 0],
    ["the minimum leaves no room, and the target is larger", counts(0, 3, 0, 5, 3), 2, 0],
    ["the new set alone has the minimum", counts(2, 2, 2, 4, 2), 2, 2],
    ["the minimum is 0: all move in one step", counts(0, 3, 0, 3, 0), 3, 3],
    ["a known bad version replaces another one", counts(0, 3, 0, 3, 0), 3, 3],
    ["new replicas that are not healthy yet do not count", counts(0, 2, 1, 3, 2), 0, 0],
    ["new replicas have become healthy", counts(1, 2, 1, 3, 2), 1, 1],
    ["old pods that terminate do not count", counts(0, 2, 3, 5, 2), 0, 0],
    ["no old replica is healthy, and those that hold the nodes are removed", counts(1, 4, 1, 5, 3), 2, 2],
    ["no replica is healthy, and those that the minimum needs may become healthy", counts(0, 3, 2, 5, 3), 0, 0],
    ["no old replica exists, and the minimum is above 0", counts(0, 0, 0, 3, 3), 3, 0],
    ["it begins below the minimum, and has more to add than to remove", counts(0, 1, 0, 2, 2), 1, 0],
    ["the target is below the present number", counts(0, 5, 0, 2, 4), 1, 1],
    ["more replicas are added than removed", counts(0, 1, 0, 4, 0), 4, 1],
  ])("%s", (_case, given, add, remove) => {
    expect(computeRolloutStep(given)).toEqual({ add, remove });
  });

  it.each([
    ["the new set has the minimum: all are removed", counts(2, 3, 2, 2, 2), 3],
    ["two can be spared", counts(1, 3, 2, 2, 2), 2],
    ["one can be spared", counts(0, 3, 2, 2, 2), 1],
    ["none can be spared", counts(0, 2, 2, 2, 2), 0],
    ["the minimum is 0", counts(0, 3, 2, 2, 0), 3],
  ])("the remainder of a larger old set: %s", (_case, given, remove) => {
    expect(computeRemainder(given)).toBe(remove);
  });
});

/** Pods of both sets in the world: requested pods appear later, become healthy later or never, and fail. */
type World = { old: boolean[]; fresh: boolean[]; oldDesired: number; newDesired: number };

const healthy = (pods: readonly boolean[]): number => pods.filter(Boolean).length;

const rollout = fc.record({
  old: fc.array(fc.boolean(), { maxLength: 12 }),
  target: fc.integer({ min: 0, max: 12 }),
  minimum: fc.integer({ min: 0, max: 12 }),
  events: fc.array(
    fc.record({
      what: fc.constantFrom(
        "step",
        "step",
        "step",
        "add",
        "add",
        "recover",
        "recover",
        "remove",
        "old-recovers",
        "old-falls-ill",
      ),
      which: fc.nat({ max: 23 }),
    }),
    { maxLength: 80 },
  ),
});

describe("a whole rolling update", () => {
  it("removes healthy replicas only if more than the minimum are healthy, and never exceeds the larger of target and start", () => {
    fc.assert(
      fc.property(rollout, ({ old, target, minimum, events }) => {
        const world: World = { old: [...old], fresh: [], oldDesired: old.length, newDesired: 0 };
        for (const { what, which } of events) {
          const floor = Math.min(minimum, healthy(world.old) + healthy(world.fresh));
          act(world, what, which, { target, minimum });
          const falls = what === "old-falls-ill" ? 1 : 0;
          expect(healthy(world.old) + healthy(world.fresh)).toBeGreaterThanOrEqual(floor - falls);
          expect(world.oldDesired + world.newDesired).toBeLessThanOrEqual(Math.max(old.length, target));
          expect(world.newDesired).toBeLessThanOrEqual(target);
          expect(world.oldDesired).toBeGreaterThanOrEqual(0);
        }
      }),
      { numRuns: 20_000 },
    );
  });

  it("ends with the target if the added replicas become healthy, whatever the old ones do", () => {
    fc.assert(
      fc.property(rollout, ({ old, target, minimum }) => {
        fc.pre(minimum < Math.max(old.length, target) || minimum === 0 || old.length === 0);
        const world: World = { old: [...old], fresh: [], oldDesired: old.length, newDesired: 0 };
        for (let round = 0; round < 200; round += 1) {
          act(world, "step", 0, { target, minimum });
          while (world.fresh.length < world.newDesired) world.fresh.push(true);
          world.old.length = Math.min(world.old.length, world.oldDesired);
        }
        expect(world.newDesired).toBe(target);
      }),
      { numRuns: 5000 },
    );
  });
});

function act(
  world: World,
  what: string,
  which: number,
  limits: { readonly target: number; readonly minimum: number },
): void {
  if (what === "add" && world.fresh.length < world.newDesired) world.fresh.push(false);
  else if (what === "recover" && world.fresh.length > 0) world.fresh[which % world.fresh.length] = true;
  else if (what === "old-recovers" && world.old.length > 0) world.old[which % world.old.length] = true;
  else if (what === "old-falls-ill" && world.old.length > 0) world.old[which % world.old.length] = false;
  // The owner of the old set removes unhealthy pods first, too.
  else if (what === "remove" && world.old.length > world.oldDesired) {
    const ill = world.old.indexOf(false);
    world.old.splice(ill < 0 ? which % world.old.length : ill, 1);
  } else if (what === "step" && world.old.length <= world.oldDesired) {
    const step = computeRolloutStep({
      newHealthy: healthy(world.fresh),
      oldDesired: world.oldDesired,
      newDesired: world.newDesired,
      ...limits,
    });
    world.oldDesired -= step.remove;
    world.newDesired += step.add;
  }
}
