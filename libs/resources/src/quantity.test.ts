import { expect, it } from "vitest";
import { printAmount, roundAmount } from "./index.ts";

const GI = 2 ** 30;

it.each<[string, number, string, string]>([
  ["cpu", 0, "0", "0"],
  ["cpu", 3920, "3920m", "3920m"],
  ["memory", 4 * GI, "4Gi", "4Gi"],
  ["memory", 4 * GI - 1, "4294967295", "3.99Gi"],
  ["memory", 16_232_340 * 1024, "16232340Ki", "15.4Gi"],
  ["memory", 900, "900", "900"],
  ["ephemeral-storage", 123.9 * GI, "123.9Gi", "123Gi"],
  ["nvidia.com/gpu", 8, "8", "8"],
])("prints %s %d", (resource, amount, exact, rounded) => {
  const whole = Math.floor(amount);
  if (whole === amount) expect(printAmount(resource, whole)).toBe(exact);
  expect(roundAmount(resource, whole)).toBe(rounded);
});
