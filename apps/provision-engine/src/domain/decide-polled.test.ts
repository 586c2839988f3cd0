import { expect, it } from "vitest";
import { aLease } from "../../test/a-lease.ts";
import { decidePolled } from "./decide-polled.ts";
import type { FeedbackPending, LeaseRecord } from "./lease.ts";

const pending = (what: Partial<FeedbackPending>) => ({ feedback: { ...aLease().feedback, ...what } });
const lease = (changes: Partial<LeaseRecord> = {}) => aLease({ source: "http", ...changes });
const listed = { source: "http", withdrawn: false, isAnswered: false };
const answered = { ...listed, isAnswered: true };
const withdrawn = { ...listed, withdrawn: true };

it.each<[string, typeof listed, LeaseRecord | undefined, string]>([
  ["a new order is taken", listed, undefined, "order"],
  ["one that an engine of before has answered is taken, too", answered, undefined, "order"],
  ["a withdrawn order without a lease is reported deleted", withdrawn, undefined, "report-deleted"],
  ["what the controller has a result of is left alone", answered, lease(), "nothing"],
  ["one that failed, and that it knows of, does not run again", answered, lease({ phase: "FAILED" }), "nothing"],
  ["what it has no result of is answered again", listed, lease(), "order"],
  ["a pending answer is not sent twice", listed, lease(pending({ result: true })), "nothing"],
  ["nor an end", withdrawn, lease({ phase: "ENDED", ...pending({ deleted: true }) }), "nothing"],
  ["a withdrawn lease ends, even with pending feedback", withdrawn, lease(pending({ result: true })), "withdraw"],
  ["also one that failed", withdrawn, lease({ phase: "FAILED", ...pending({ result: true }) }), "withdraw"],
  ["a withdrawn lease that is over is reported again", withdrawn, lease({ phase: "ENDED" }), "withdraw"],
  ["a lease of another source is not withdrawn", withdrawn, lease({ source: "nats" }), "nothing"],
  [
    "an order whose lease came from another source is decided on as any order",
    listed,
    lease({ source: "nats" }),
    "order",
  ],
])("%s", (_title, news, stored, verdict) => {
  expect(decidePolled(news, stored).kind).toBe(verdict);
});
