import { expect, it } from "vitest";
import { aPool } from "../../test/scaling-snapshots.ts";
import { findPricePerHourMicros, type InstanceType } from "./pool.ts";

const SIZE = { cpuMilli: undefined, memoryBytes: undefined, gpus: 0 };
const TYPES: readonly InstanceType[] = [
  { ...SIZE, name: "both", pricePerHourMicros: 192_000, spotPricePerHourMicros: 61_000 },
  { ...SIZE, name: "on-demand", pricePerHourMicros: 400_000 },
];

it.each([
  ["both", false, 192_000],
  ["both", true, 61_000],
  ["on-demand", false, 400_000],
  ["on-demand", true, undefined],
  ["unknown", false, undefined],
])("finds the price of a node of type %s, spot: %s", (instanceType, spot, price) => {
  expect(findPricePerHourMicros(aPool({ instanceTypes: TYPES }), { instanceType, spot })).toBe(price);
});

it("finds no price in a pool that is no longer in the file", () => {
  expect(findPricePerHourMicros(undefined, { instanceType: "both", spot: false })).toBeUndefined();
});
