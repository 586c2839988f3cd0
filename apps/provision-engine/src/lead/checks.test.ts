import { expect, it } from "vitest";
import { openChecks } from "./checks.ts";
import { aLease } from "../../test/a-lease.ts";

const MS = 1_000_000n;
const EVERY_MS = 600_000;

it("checks active leases periodically, sooner if they are troubled or have lost something, and no others", () => {
  const checks = openChecks(EVERY_MS, () => 0.5);
  expect(checks.next(aLease({ phase: "PROVISIONING" }), 0n)).toBeUndefined();
  expect(checks.next(aLease(), 0n)).toBe(450_000n * MS);
  expect(checks.next(aLease(), 5n)).toBe(450_000n * MS);
  expect(checks.isDue("1-1", 450_000n * MS)).toBe(false);
  expect(checks.isDue("1-1", 450_000n * MS + 1n)).toBe(true);
  checks.done("1-1", false, 500_000n * MS);
  expect(checks.scheduled("1-1")).toBe(1_100_000n * MS);
  // Pods that come and go do not cause constant checks.
  checks.soon("1-1", 501_000n * MS);
  expect(checks.scheduled("1-1")).toBe(510_000n * MS);
  checks.soon("1-1", 520_000n * MS);
  expect(checks.isDue("1-1", 520_000n * MS)).toBe(true);
  checks.done("1-1", true, 600_000n * MS);
  expect(checks.scheduled("1-1")).toBe(660_000n * MS);
  expect(checks.next(aLease({ phase: "DECOMMISSIONING" }), 0n)).toBeUndefined();
  checks.soon("1-1", 0n);
  checks.done("1-1", false, 0n);
  expect(checks.scheduled("1-1")).toBeUndefined();
  expect(checks.isDue("1-1", 10n ** 18n)).toBe(false);
});
