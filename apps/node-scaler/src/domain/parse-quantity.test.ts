import { expect, it } from "vitest";
import { parseDuration, parseQuantity } from "./parse-quantity.ts";

it.each([
  ["5m", 300_000],
  ["1h30m", 5_400_000],
  ["90s", 90_000],
  ["0s", 0],
  ["250ms", 250],
  ["1.5s", 1500],
  ["1d", 86_400_000],
])("takes the duration %s for %d ms", (text, ms) => {
  expect(parseDuration(text)).toBe(ms);
});

it.each(["", "5", "m", "-5m", "5 m", "5min", "1h 30m"])("takes %j for no duration", (text) => {
  expect(parseDuration(text)).toBeUndefined();
});

it.each([
  ["4", 4],
  [4, 4],
  [0.5, 0.5],
  ["500m", 0.5],
  ["16Gi", 16 * 2 ** 30],
  ["1.5G", 1.5e9],
  ["2e3", 2000],
])("takes the quantity %s for %d", (text, number) => {
  expect(parseQuantity(text)).toBe(number);
});

it.each(["", "-4", -4, "4 Gi", "4gi", "Gi", "1.2.3"])("takes %j for no quantity", (text) => {
  expect(parseQuantity(text)).toBeUndefined();
});
