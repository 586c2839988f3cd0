import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { computeRemainder, computeRollStep, type RollCounts } from "./compute-roll-step.ts";

const counts = (...given: readonly [number, number, number, number, number, number]): RollCounts => {
  const [oldHealthy, newHealthy, oldDesired, newDesired, target, minimum] = given;
  return { oldHealthy, newHealthy, oldDesired, newDesired, target, minimum };
};

describe("one step of a rolling update", () => {
  it.each([
    ["nothing is left to add", counts(0, 3, 0, 3, 3, 2), 0, 0],
    ["the new set has more than it should", counts(2, 4, 2, 4, 3, 2), 0, 0],
    ["the minimum leaves room for one", counts(3, 0, 3, 0, 3, 2), 1, 1],
    ["the minimum leaves no room", counts(3, 0, 3, 0, 3, 3), 0, 0],
    ["the minimum leaves no room, and the target is larger", counts(3, 0, 3, 0, 5, 3), 2, 0],
    ["the new set alone has the minimum", counts(2, 2, 2, 2, 4, 2), 2, 2],
    ["the minimum is none: all at once", counts(3, 0, 3, 0, 3, 0), 3, 3],
    ["a known bad version replaces another one", counts(0, 0, 3, 0, 3, 0), 3, 3],
    ["new replicas that are not healthy yet count for nothing", counts(2, 0, 2, 1, 3, 2), 0, 0],
    ["new replicas have become healthy", counts(2, 1, 2, 1, 3, 2), 1, 1],
    ["old pods that are on their way out count for nothing", counts(5, 0, 2, 3, 5, 2), 0, 0],
    ["an old pod is not healthy", counts(2, 0, 3, 0, 3, 2), 0, 0],
    ["there is nothing old, and a minimum", counts(0, 0, 0, 0, 3, 3), 3, 0],
    ["it begins below the minimum, and has more to add than to take", counts(1, 0, 1, 0, 2, 2), 1, 0],
    ["the target is smaller than what is there", counts(5, 0, 5, 0, 2, 4), 1, 1],
    ["more are to be added than go", counts(1, 0, 1, 0, 4, 0), 4, 1],
  ])("%s", (_case, given, add, remove) => {
    expect(computeRollStep(given)).toEqual({ add, remove });
  });

  it.each([
    ["the new set has the minimum: all go", counts(3, 2, 3, 2, 2, 2), 3],
    ["two can be spared", counts(3, 1, 3, 2, 2, 2), 2],
    ["none can be spared", counts(2, 0, 3, 2, 2, 2), 0],
    ["nothing has to stay", counts(0, 0, 3, 2, 2, 0), 3],
  ])("what is left of a larger old set: %s", (_case, given, remove) => {
    expect(computeRemainder(given)).toBe(remove);
  });
});

/** Pods of both sets, as the world has them: what is asked for comes later, becomes healthy later or never, and falls ill. */
type World = { old: boolean[]; fresh: boolean[]; oldDesired: number; newDesired: number };

const healthy = (pods: readonly boolean[]): number => pods.filter(Boolean).length;

const roll = fc.record({
  old: fc.integer({ min: 0, max: 12 }),
  target: fc.integer({ min: 0, max: 12 }),
  minimum: fc.integer({ min: 0, max: 12 }),
  events: fc.array(
    fc.record({
      what: fc.constantFrom("step", "step", "step", "add", "add", "recover", "recover", "remove"),
      which: fc.nat({ max: 23 }),
    }),
    { maxLength: 80 },
  ),
});

describe("a whole rolling update", () => {
  it("never takes more than it may: what is healthy stays at the minimum, and both sets at the larger of target and start", () => {
    fc.assert(
      fc.property(roll, ({ old, target, minimum, events }) => {
        const world: World = { old: Array<boolean>(old).fill(true), fresh: [], oldDesired: old, newDesired: 0 };
        const floor = Math.min(minimum, old);
        for (const { what, which } of events) {
          act(world, what, which, { target, minimum });
          expect(healthy(world.old) + healthy(world.fresh)).toBeGreaterThanOrEqual(floor);
          expect(world.oldDesired + world.newDesired).toBeLessThanOrEqual(Math.max(old, target));
          expect(world.newDesired).toBeLessThanOrEqual(target);
          expect(world.oldDesired).toBeGreaterThanOrEqual(0);
        }
      }),
      { numRuns: 20_000 },
    );
  });

  it("ends with the target whenever what is added becomes healthy", () => {
    fc.assert(
      fc.property(roll, ({ old, target, minimum }) => {
        fc.pre(minimum < Math.max(old, target) || minimum === 0 || old === 0);
        const world: World = { old: Array<boolean>(old).fill(true), fresh: [], oldDesired: old, newDesired: 0 };
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
  // The old set's owner takes any of its pods, healthy or not.
  else if (what === "remove" && world.old.length > world.oldDesired) world.old.splice(which % world.old.length, 1);
  else if (what === "step") {
    const step = computeRollStep({
      oldHealthy: healthy(world.old),
      newHealthy: healthy(world.fresh),
      oldDesired: world.oldDesired,
      newDesired: world.newDesired,
      ...limits,
    });
    world.oldDesired -= step.remove;
    world.newDesired += step.add;
  }
}
