import { expect, it } from "vitest";
import { describePrices, formatPrice } from "./prices.ts";

it.each([
  [192_000, "0.192"],
  [98_320_000, "98.32"],
  [1, "0"],
  [50, "0.0001"],
])("formats %i millionths as %s", (micros, text) => {
  expect(formatPrice(micros)).toBe(text);
});

it("sums the known prices, and states how many are unknown", () => {
  const priced = [{ pricePerHourMicros: 100_000 }, { pricePerHourMicros: 250_000 }];
  expect(describePrices(priced)).toBe("0.35 an hour");
  expect(describePrices([...priced, {}, { pricePerHourMicros: 0 }])).toBe(
    "0.35 an hour, without the 2 of unknown price",
  );
  expect(describePrices([{}, { pricePerHourMicros: undefined }])).toBeUndefined();
});
