import { expect, it } from "vitest";
import { decideAlert, isStuck } from "./decide-stuck.ts";

it("a lease is stuck when it was tried to take it down ten times, and in no other phase", () => {
  expect(isStuck({ phase: "DECOMMISSIONING", attempts: 9 })).toBe(false);
  expect(isStuck({ phase: "DECOMMISSIONING", attempts: 10 })).toBe(true);
  expect(isStuck({ phase: "PROVISIONING", attempts: 10 })).toBe(false);
});

it("tells of it at once, and again each hour", () => {
  const stuck = { phase: "DECOMMISSIONING", attempts: 12 } as const;
  expect(decideAlert(stuck, undefined, 5)).toBe(true);
  expect(decideAlert(stuck, 5, 3_600_004)).toBe(false);
  expect(decideAlert(stuck, 5, 3_600_005)).toBe(true);
  expect(decideAlert({ ...stuck, phase: "ENDED" }, undefined, 5)).toBe(false);
});
