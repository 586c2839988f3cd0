import { expect, it } from "vitest";
import { decideAlert, isOverdue, isStuck } from "./decide-retry.ts";

const SECOND = 1_000_000_000n;

it("a lease is stuck after ten failed attempts to remove it, and in no other phase", () => {
  expect(isStuck({ phase: "DECOMMISSIONING", attempts: 9, expiresAtNs: 0n }, SECOND)).toBe(false);
  expect(isStuck({ phase: "DECOMMISSIONING", attempts: 10, expiresAtNs: 0n }, SECOND)).toBe(true);
  expect(isStuck({ phase: "PROVISIONING", attempts: 10, expiresAtNs: 0n }, SECOND)).toBe(false);
});

it.each([
  ["ORDERED", true],
  ["PROVISIONING", true],
  ["ACTIVE", true],
  ["DECOMMISSIONING", false],
  ["ENDED", false],
  ["FAILED", false],
] as const)("five minutes after its end a lease that is %s is overdue: %s", (phase, overdue) => {
  const lease = { phase, attempts: 0, expiresAtNs: 7n * SECOND };
  expect(isOverdue(lease, 307n * SECOND)).toBe(false);
  expect(isOverdue(lease, 307n * SECOND + 1n)).toBe(overdue);
  expect(isStuck(lease, 307n * SECOND + 1n)).toBe(overdue);
});

it("alerts immediately, and again each hour", () => {
  const stuck = { phase: "DECOMMISSIONING", attempts: 12, expiresAtNs: 0n } as const;
  const reported = 5n * SECOND;
  expect(decideAlert(stuck, undefined, reported)).toBe(true);
  expect(decideAlert(stuck, reported, 3605n * SECOND - 1n)).toBe(false);
  expect(decideAlert(stuck, reported, 3605n * SECOND)).toBe(true);
  expect(decideAlert({ ...stuck, phase: "ENDED" }, undefined, reported)).toBe(false);
});
