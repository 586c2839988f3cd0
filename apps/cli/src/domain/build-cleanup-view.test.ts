import { expect, it } from "vitest";
import { buildCleanupRecord, buildCleanupView } from "./build-cleanup-view.ts";
import type { Cleanup } from "../adapters/lease-messages.ts";

const step = { action: "SUSPECTED", kind: "Secret", namespace: "default", name: "s", lease: "1-1", because: "gone" };
const schedule = { mode: "dry-run", nextScanMs: 3_600_000 };
const own = { dryRun: false, nowMs: 0 };
const cleanup: Cleanup = { steps: [step], found: 4, removed: 0, suspected: 3, heldBecause: "", schedule };
const style = { colours: false, columns: 200 };

it("shows what is left over, how many more objects are, and how to confirm a held cleanup", () => {
  const text = buildCleanupView(cleanup, { ...own, dryRun: true }, style).join("\n");
  expect(text).toContain("default/s");
  expect(text).toContain("and 2 more");
  expect(text).toContain("4 objects of leases: 0 would be removed, 3 suspected to be left over");
  expect(text).toMatch(/\nnext: after .*, `muster lease cleanup` removes objects that are still left over/);
  expect(buildCleanupView({ ...cleanup, suspected: 0 }, own, style).join()).not.toContain("next:");
  const held = buildCleanupView({ ...cleanup, heldBecause: "no record" }, own, style);
  expect(held.at(-2)).toBe("nothing is removed: no record");
  expect(held.at(-1)).toContain("--confirm 3");
  expect(held.join()).not.toContain("still left over");
});

it.each([
  [
    "off",
    undefined,
    "automatic clean-up is off (PROVISION_CLEANUP): the engine neither searches nor removes anything automatically",
  ],
  ["dry-run", 3_600_000, "releases machines; its next scan is in 1h00m"],
  ["on", undefined, "at its next scan, the engine removes objects that are still left over"],
])("shows the cleanup mode %s, and when the next scan is", (mode, nextScanMs, line) => {
  const seen: Cleanup = { ...cleanup, suspected: 0, schedule: { mode, nextScanMs } };
  expect(buildCleanupView(seen, own, style).at(-1)).toContain(line);
  expect(buildCleanupRecord(seen)).toMatchObject({ mode });
});
