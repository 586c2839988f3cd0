import { expect, it } from "vitest";
import { waitingLeases } from "./waiting-leases.ts";

it("looks again at leases that wait for what has changed, and at no others", () => {
  const waiting = waitingLeases();
  waiting.set("1-1", { user: "a", lease: undefined });
  waiting.set("1-2", { user: "a", lease: "1-9" });
  waiting.set("1-3", { user: "b", lease: undefined });
  const helped = (id: string, user: string | undefined, isOver = false) => waiting.helpedBy({ id, user, isOver });
  expect(helped("1-9", "a")).toEqual(["1-1"]);
  expect(helped("1-9", "a", true)).toEqual(["1-1", "1-2"]);
  expect(helped("1-9", undefined, true)).toEqual(["1-2"]);
  expect(helped("1-8", "b", true)).toEqual(["1-3"]);
  expect(helped("1-1", "a")).toEqual([]);
  waiting.set("1-1", undefined);
  expect(helped("1-9", "a")).toEqual([]);
});
