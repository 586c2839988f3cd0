import { expect, it } from "vitest";
import { describeRefusal } from "./describe-refusal.ts";

const fault = { code: "pool_capacity", pool: "p", requested: 1, capacity: 0 } as const;
const needs = [{ component: "worker-0", pool: "p", shared: { cpu: 5000 } }];

it("names the resources that every machine lacks", () => {
  const short = [
    { resource: "cpu", requested: 5000, largest: 4000 },
    { resource: "nvidia.com/gpu", requested: 1, largest: 0 },
  ];
  expect(describeRefusal({ ...fault, short }, needs)).toBe(
    "pool p has room for 0 of the 1 requested parts and machines: a part requests " +
      "5 of cpu and the largest machine has 4, 1 of nvidia.com/gpu and no machine has any: " +
      "request less, or add larger machines",
  );
});

it("names the resources that every machine lacks for a pod on a whole one", () => {
  const short = [{ resource: "memory", requested: 64 * 2 ** 30, largest: 32 * 2 ** 30 }];
  const selection = { terms: [], tolerations: [], minimum: { memory: 64 * 2 ** 30 } };
  expect(describeRefusal({ ...fault, short }, [{ component: "worker-0", pool: "p", selection }])).toBe(
    "pool p has no machine that is large enough: a pod requests 64Gi of memory and the largest machine has 32Gi: " +
      "request less, or add larger machines",
  );
  expect(describeRefusal(fault, [{ component: "worker-0", pool: "p", selection }])).toBe(
    "pool p has 0 machines at most that its pods accept (holds memory 64Gi), 1 are needed: " +
      "request fewer, or label or add machines",
  );
});

it("counts the needs that accept the pool among others", () => {
  const accepting = needs.map((need) => ({ ...need, pool: "preferred", otherPools: ["p"] }));
  expect(describeRefusal(fault, accepting)).toBe(describeRefusal(fault, needs));
});

it("names no resource where the ledger names none", () => {
  expect(describeRefusal(fault, needs)).toBe(
    "pool p has room for 0 of the 1 requested parts and machines when nothing else runs: " +
      "request less of each resource, or add larger machines",
  );
});

it("prints the maximum of a queue as quantities", () => {
  const exceeded = { code: "quota_exceeded", queue: "team-a", pool: "p" } as const;
  expect(describeRefusal({ ...exceeded, resource: "cpu", requested: 12_500, most: 8000 }, needs)).toBe(
    "the queue team-a can have 8 of cpu in pool p at most, 12500m are needed: request less, or raise its quota",
  );
  expect(describeRefusal({ ...exceeded, resource: "memory", requested: 2 ** 40, most: 0 }, needs)).toBe(
    "the queue team-a can have 0 of memory in pool p at most, 1Ti are needed: add memory to its quota for the pool",
  );
});
