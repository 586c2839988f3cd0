import fc from "fast-check";
import { describe, expect, it } from "vitest";
import type { Amounts } from "./amounts.ts";
import { computeAllocatedFraction, canFit, computeFreeAmounts, subtractAmounts, sumUse } from "./room.ts";

const GPU = "nvidia.com/gpu";

const amounts = (record: Readonly<Record<string, number>>): Amounts => new Map(Object.entries(record));

const anyAmounts = fc
  .dictionary(fc.constantFrom("cpu", "memory", "pods", GPU), fc.nat(20))
  .map((record) => amounts(record));

describe("the remaining amounts", () => {
  it.each<[string, Record<string, number>, Record<string, number>, Record<string, number>]>([
    ["of nothing is nothing", {}, { cpu: 1 }, {}],
    ["without a use is everything", { cpu: 2 }, {}, { cpu: 2 }],
    ["is less by what is used", { cpu: 2000, memory: 8 }, { cpu: 500 }, { cpu: 1500, memory: 8 }],
    ["is never below 0", { cpu: 1 }, { cpu: 2 }, { cpu: 0 }],
    ["names no resource that did not exist", { cpu: 1 }, { [GPU]: 1 }, { cpu: 1 }],
  ])("%s", (_title, from, less, left) => {
    expect(Object.fromEntries(subtractAmounts(amounts(from), amounts(less)))).toEqual(left);
  });

  it("does not change its arguments", () => {
    fc.assert(
      fc.property(anyAmounts, anyAmounts, (from, less) => {
        const before = [[...from], [...less]];
        subtractAmounts(from, less);
        expect([[...from], [...less]]).toEqual(before);
      }),
    );
  });
});

describe("what pods use", () => {
  it.each<[string, Record<string, number>, number | undefined, Record<string, number>]>([
    ["counts one pod", { cpu: 100 }, undefined, { cpu: 100, pods: 1 }],
    ["counts a pod without requests", {}, undefined, { pods: 1 }],
    ["counts all of a group", { cpu: 100 }, 3, { cpu: 100, pods: 3 }],
    ["counts nothing of a group without pods", {}, 0, { pods: 0 }],
    ["adds to requests that name pods", { pods: 2 }, 1, { pods: 3 }],
  ])("%s", (_title, requests, pods, use) => {
    expect(Object.fromEntries(sumUse(amounts(requests), pods))).toEqual(use);
  });
});

describe("a pod", () => {
  it.each<[string, Record<string, number>, Record<string, number>, boolean]>([
    ["fits where there is exactly enough", { cpu: 2, memory: 3 }, { cpu: 2, memory: 3, pods: 1 }, true],
    ["does not fit where one resource is short", { cpu: 2, memory: 3 }, { cpu: 2, memory: 2, pods: 1 }, false],
    ["does not fit where a resource is missing", { [GPU]: 1 }, { cpu: 2, pods: 1 }, false],
    ["fits where it requests 0 of what is missing", { [GPU]: 0 }, { pods: 1 }, true],
    ["without requests needs room for one pod", {}, { cpu: 2, pods: 1 }, true],
    ["does not fit where no pod may be added", {}, { cpu: 2, pods: 0 }, false],
    ["does not fit where the number of pods is not known", {}, { cpu: 2 }, false],
    ["that requests pods itself needs room for them as well", { pods: 1 }, { pods: 1 }, false],
  ])("%s", (_title, requests, free, fits) => {
    expect(canFit(amounts(requests), amounts(free))).toBe(fits);
  });

  it("fits exactly where the rest is not cut off at 0", () => {
    fc.assert(
      fc.property(anyAmounts, anyAmounts, (requests, free) => {
        const use = sumUse(requests);
        const isEnough = [...use].every(([resource, amount]) => (free.get(resource) ?? 0) - amount >= 0);
        expect(canFit(requests, free)).toBe(isEnough);
      }),
    );
  });
});

describe("the free resources of a node", () => {
  it("are the allocatable ones, less overhead and all uses", () => {
    const free = computeFreeAmounts({
      allocatable: amounts({ cpu: 4000, memory: 100, pods: 10, [GPU]: 8 }),
      overhead: sumUse(amounts({ cpu: 500 }), 3),
      uses: [sumUse(amounts({ cpu: 1000, memory: 60 })), sumUse(amounts({ memory: 60, [GPU]: 1 }))],
    });
    expect(Object.fromEntries(free)).toEqual({ cpu: 2500, memory: 0, pods: 5, [GPU]: 7 });
  });

  it("are independent of the order of uses", () => {
    fc.assert(
      fc.property(anyAmounts, anyAmounts, fc.array(anyAmounts, { maxLength: 5 }), (allocatable, overhead, uses) => {
        const free = computeFreeAmounts({ allocatable, overhead, uses });
        for (const [resource, amount] of allocatable) {
          const used = [overhead, ...uses].reduce((sum, use) => sum + (use.get(resource) ?? 0), 0);
          expect(free.get(resource)).toBe(Math.max(0, amount - used));
        }
        expect([...free.keys()]).toEqual([...allocatable.keys()]);
        expect(computeFreeAmounts({ allocatable, overhead, uses: uses.toReversed() })).toEqual(free);
      }),
    );
  });

  it("takes pods one after the other and never more than it can allocate", () => {
    fc.assert(
      fc.property(anyAmounts, fc.array(anyAmounts, { maxLength: 8 }), (allocatable, pods) => {
        let free = allocatable;
        const uses: Amounts[] = [];
        for (const requests of pods) {
          if (!canFit(requests, free)) continue;
          uses.push(sumUse(requests));
          free = subtractAmounts(free, sumUse(requests));
        }
        expect(computeFreeAmounts({ allocatable, overhead: new Map(), uses })).toEqual(free);
        for (const resource of new Set(uses.flatMap((use) => [...use.keys()]))) {
          const used = uses.reduce((sum, use) => sum + (use.get(resource) ?? 0), 0);
          expect(used).toBeLessThanOrEqual(allocatable.get(resource) ?? 0);
        }
      }),
    );
  });
});

describe("how much of a node is allocated", () => {
  it.each<[string, Record<string, number>, Record<string, number>, number]>([
    ["of an empty node", { cpu: 4, memory: 8 }, { cpu: 4, memory: 8 }, 0],
    ["of a full one", { cpu: 0, memory: 0 }, { cpu: 4, memory: 8 }, 1],
    ["is the mean of cpu and memory", { cpu: 1, memory: 6 }, { cpu: 4, memory: 8 }, 0.5],
    ["counts what free does not name as used", { cpu: 4 }, { cpu: 4, memory: 8 }, 0.5],
    ["passes over other resources", { cpu: 4, memory: 8, pods: 0 }, { cpu: 4, memory: 8, pods: 9 }, 0],
    ["passes over what the node has none of", { cpu: 1 }, { cpu: 4, memory: 0 }, 0.75],
    ["of a node that is not known", {}, {}, 0],
    ["is never below 0", { cpu: 5 }, { cpu: 4 }, 0],
  ])("%s", (_title, free, allocatable, fraction) => {
    expect(computeAllocatedFraction(amounts(free), amounts(allocatable))).toBe(fraction);
  });

  it("never falls when more is used", () => {
    fc.assert(
      fc.property(anyAmounts, anyAmounts, anyAmounts, (allocatable, use, more) => {
        const free = subtractAmounts(allocatable, use);
        const before = computeAllocatedFraction(free, allocatable);
        expect(computeAllocatedFraction(subtractAmounts(free, more), allocatable)).toBeGreaterThanOrEqual(before);
        expect(before).toBeGreaterThanOrEqual(0);
        expect(before).toBeLessThanOrEqual(1);
      }),
    );
  });
});
