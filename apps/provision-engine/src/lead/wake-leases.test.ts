import { expect, it } from "vitest";
import { makeWaitingLeases } from "./wake-leases.ts";

it("wakes the leases that wait for a changed one, and no others", () => {
  const waiting = makeWaitingLeases();
  waiting.set("1-1", { leases: ["1-8", "1-9"], until: "changed" });
  waiting.set("1-2", { leases: ["1-9"], until: "over" });
  const helped = (id: string, isOver = false) => waiting.helpedBy({ id, isOver });
  expect(helped("1-9")).toEqual(["1-1"]);
  expect(helped("1-9", true)).toEqual(["1-1", "1-2"]);
  expect(helped("1-8", true)).toEqual(["1-1"]);
  expect(helped("1-1", true)).toEqual([]);
  waiting.set("1-1", { leases: ["1-7"], until: "changed" });
  expect(helped("1-8")).toEqual([]);
  waiting.set("1-1", undefined);
  expect([...helped("1-7"), ...helped("1-9")]).toEqual([]);
});
