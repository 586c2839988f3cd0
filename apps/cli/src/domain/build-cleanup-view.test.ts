import { expect, it } from "vitest";
import { buildCleanupView, type Cleanup } from "./build-cleanup-view.ts";

const step = { action: "SUSPECTED", kind: "Secret", namespace: "default", name: "s", lease: "1-1", because: "gone" };
const cleanup: Cleanup = { steps: [step], found: 4, removed: 0, suspected: 3, heldBecause: "" };
const style = { colours: false, columns: 200 };

it("shows what is left over, how much more, and how to confirm what is held up", () => {
  const text = buildCleanupView(cleanup, true, style).join("\n");
  expect(text).toContain("default/s");
  expect(text).toContain("and 2 more");
  expect(text).toContain("4 objects of leases: 0 would be removed, 3 suspected to be left over");
  expect(text).toMatch(/\nnext: what still looks left over after .* is removed by `muster lease cleanup`/);
  expect(buildCleanupView({ ...cleanup, suspected: 0 }, true, style).join()).not.toContain("next:");
  const held = buildCleanupView({ ...cleanup, heldBecause: "no record" }, false, style);
  expect(held.at(-2)).toBe("nothing is removed: no record");
  expect(held.at(-1)).toContain("--confirm 3");
  expect(held.join()).not.toContain("what still looks left over");
});
