import { expect, it } from "vitest";
import { buildAmountsKey, compareLargestFirst } from "./order.ts";

const amounts = (record: Readonly<Record<string, number>>) => new Map(Object.entries(record));

it("has one key for equal amounts, in whatever order, and without those of 0", () => {
  expect(buildAmountsKey(amounts({ memory: 2, cpu: 1, pods: 0 }))).toBe(
    buildAmountsKey(amounts({ cpu: 1, memory: 2 })),
  );
  expect(buildAmountsKey(amounts({ cpu: 12 }))).not.toBe(buildAmountsKey(amounts({ cpu: 1, memory: 2 })));
});

it.each([
  ["more cpu first", { cpu: 2 }, { cpu: 1, memory: 9 }],
  ["then more memory", { cpu: 1, memory: 9 }, { cpu: 1 }],
  ["otherwise by the names of resources", { cpu: 1, "a.example/x": 1 }, { cpu: 1, "b.example/x": 9 }],
])("orders %s", (_title, first, second) => {
  const [one, other] = [amounts(first), amounts(second)];
  expect(Math.sign(compareLargestFirst(one, other))).toBe(-1);
  expect(Math.sign(compareLargestFirst(other, one))).toBe(1);
  expect(compareLargestFirst(one, amounts(first))).toBe(0);
});
