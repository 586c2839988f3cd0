import { expect, it } from "vitest";
import { deferredMessages } from "./deferred-messages.ts";

const message = (sequence: number, user = "a") => ({ sequence, user });

it("defers later messages of the same user, and of no other", () => {
  const later = deferredMessages({ maxMessages: 10, forMs: 20 });
  expect(later.isBehind(message(7), 0)).toBe(false);
  expect([later.defer(message(7), 0), later.defer(message(7), 10)]).toEqual(["deferred", "still-deferred"]);
  expect([6, 7, 8].map((sequence) => later.isBehind(message(sequence), 10))).toEqual([false, false, true]);
  expect(later.isBehind(message(8, "b"), 10)).toBe(false);
  later.done(7);
  expect(later.isBehind(message(8), 10)).toBe(false);
});

it("forgets a message that is not redelivered", () => {
  const later = deferredMessages({ maxMessages: 1, forMs: 20 });
  later.defer(message(7), 0);
  expect([later.isBehind(message(8), 20), later.defer(message(8), 20)]).toEqual([true, "refused"]);
  expect([later.isBehind(message(8), 21), later.defer(message(8), 21)]).toEqual([false, "deferred"]);
});
