import { expect, it } from "vitest";
import { buildOrderLines } from "./build-order-lines.ts";

const STYLE = { columns: 200, colours: false };
const NONE = { requestsAhead: [], requestsAheadMore: 0, preempted: [], preemptedMore: 0, preemption: undefined };

function ahead(rule: string, queue = "b") {
  const compared = { queue, level: 0, share: "3/8", pastShareMillionths: 0, shareDecimal: 0.375 };
  const comparedWith = { queue: "a", level: 1, share: "1/0", pastShareMillionths: 0, shareDecimal: undefined };
  return { owner: `job/${rule}`, queue, priority: 2, createdAtMs: 0, rule, compared, comparedWith };
}

function victim(owner: string, reason = "RECLAIM") {
  return { owner, machines: 1, parts: 1, sinceMs: 0, reason };
}

it("prints nothing if no request goes first and no work leaves", () => {
  expect(buildOrderLines(NONE, 0, STYLE)).toEqual([]);
});

it("names the requests that go first, and the numbers that decide", () => {
  const requestsAhead = [...["QUOTA", "SHARE", "WEIGHT", "PRIORITY"].map((rule) => ahead(rule)), ahead("AGE", "")];
  expect(buildOrderLines({ ...NONE, requestsAhead, requestsAheadMore: 2 }, 5000, STYLE)).toEqual([
    "",
    "GOES FIRST    QUEUE  PRIORITY  AGE   BECAUSE",
    "job/QUOTA     b      2         5.0s  b owns enough, a borrows from 1 level above",
    "job/SHARE     b      2         5.0s  share of b 3/8 (0.375), of a infinite",
    "job/WEIGHT    b      2         5.0s  the queue of this request has weight 0 and would borrow",
    "job/PRIORITY  b      2         5.0s  higher priority",
    "job/AGE       -      2         5.0s  older",
    "and 2 more requests",
  ]);
});

it("prints a whole share without a fraction", () => {
  const whole = { queue: "b", level: 1, share: "2/1", pastShareMillionths: 0, shareDecimal: 2 };
  const none = { queue: "a", level: 1, share: "0/1", pastShareMillionths: 0, shareDecimal: 0 };
  const requestsAhead = [{ ...ahead("SHARE"), compared: none, comparedWith: whole }];
  expect(buildOrderLines({ ...NONE, requestsAhead }, 0, STYLE).at(-1)).toMatch(/share of a 0, of b 2$/);
});

const OUTLOOK = { victims: [], victimsMore: 0, againAtMs: undefined, limit: "" };

it.each([
  [
    { preempted: [victim("job/p", ""), victim("job/q")], preemptedMore: 1 },
    ["preemption: job/p, job/q (RECLAIM) and 1 more must leave for it"],
  ],
  [
    { preemption: { ...OUTLOOK, victims: Array.from({ length: 6 }, (_, id) => victim(`job/${id}`)), victimsMore: 2 } },
    [
      "preemption: job/0 (RECLAIM), job/1 (RECLAIM), job/2 (RECLAIM), job/3 (RECLAIM), job/4 (RECLAIM) and 3 more would have to leave for it",
    ],
  ],
  [
    { preemption: { ...OUTLOOK, victims: [victim("job/p", "WITHIN_QUEUE")], limit: "MAX_BENEFICIARIES" } },
    [
      "preemption: job/p (WITHIN_QUEUE) would have to leave for it",
      "preemption: the limit MAX_BENEFICIARIES of the ledger is reached",
    ],
  ],
  [
    { preemption: { ...OUTLOOK, againAtMs: 2000 } },
    [
      "preemption: no work that its queue may preempt is enough now",
      "preemption: more work may leave in 2.0s, when its minRunTime is over",
    ],
  ],
])("prints which work must leave, and why no further work does: %j", (order, lines) => {
  expect(buildOrderLines({ ...NONE, ...order }, 0, STYLE)).toEqual(lines);
});
