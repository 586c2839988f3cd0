import { expect, it } from "vitest";
import type { ReservationExplanation } from "../adapters/messages.ts";
import { describeRule } from "./describe-order.ts";

type Ahead = ReservationExplanation["requestsAhead"][number];

const compared = { queue: "a", level: 1, share: "3/8", pastShareMillionths: 0 };
const comparedWith = { queue: "b", level: 0, share: "1/0", pastShareMillionths: 0 };

it.each<[fields: Partial<Ahead>, text: string]>([
  [{ rule: "PRIORITY" }, "its priority is higher"],
  [{ rule: "AGE" }, "it is older"],
  [{ rule: "WEIGHT" }, "the queue of this request has weight 0 and would borrow"],
  [{ rule: "QUOTA", compared, comparedWith }, "a borrows from 1 level above, b owns enough"],
  [{ rule: "SHARE", compared, comparedWith }, "a has the share 3/8, b has an infinite share"],
  [
    { rule: "SHARE", compared: { ...compared, share: "2/1" }, comparedWith },
    "a has the share 2, b has an infinite share",
  ],
  [
    { rule: "SHARE", compared: { ...compared, pastShareMillionths: 125_000 }, comparedWith },
    "a has the share 3/8, 0.125 of it by past use, b has an infinite share",
  ],
  [{ rule: "QUOTA" }, "QUOTA"],
])("%j means: %s", (fields, text) => {
  expect(describeRule(fields as Ahead)).toBe(text);
});
