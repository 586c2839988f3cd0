import { expect, it } from "vitest";
import { laterMessages } from "./later-messages.ts";

const message = (sequence: number, user = "a") => ({ sequence, user });

it("holds back what a user sent after a message that waits, and nobody else's", () => {
  const later = laterMessages({ most: 10, forMs: 20 });
  expect(later.isBehind(message(7), 0)).toBe(false);
  expect([later.wait(message(7), 0), later.wait(message(7), 10)]).toEqual(["begins", "goes on"]);
  expect([6, 7, 8].map((sequence) => later.isBehind(message(sequence), 10))).toEqual([false, false, true]);
  expect(later.isBehind(message(8, "b"), 10)).toBe(false);
  later.done(7);
  expect(later.isBehind(message(8), 10)).toBe(false);
});

it("forgets a message that does not come back", () => {
  const later = laterMessages({ most: 1, forMs: 20 });
  later.wait(message(7), 0);
  expect([later.isBehind(message(8), 20), later.wait(message(8), 20)]).toEqual([true, "refused"]);
  expect([later.isBehind(message(8), 21), later.wait(message(8), 21)]).toEqual([false, "begins"]);
});
