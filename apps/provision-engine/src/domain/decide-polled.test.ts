import fc from "fast-check";
import { expect, it } from "vitest";
import { makeLeaseRecord } from "../../test/a-lease.ts";
import { decidePolled, POLL_START, transitionPoll, type PollEvent, type PollState } from "./decide-polled.ts";
import type { FeedbackPending, LeaseRecord } from "./lease.ts";

const pending = (what: Partial<FeedbackPending>) => ({ feedback: { ...makeLeaseRecord().feedback, ...what } });
const lease = (changes: Partial<LeaseRecord> = {}) => makeLeaseRecord({ source: "http", ...changes });
const listed = { source: "http", withdrawn: false, isAnswered: false };
const answered = { ...listed, isAnswered: true };
const withdrawn = { ...listed, withdrawn: true };

it.each<[string, typeof listed, LeaseRecord | undefined, string]>([
  ["a new order is taken", listed, undefined, "order"],
  ["an order that an earlier engine answered is taken, too", answered, undefined, "order"],
  ["a withdrawn order without a lease is reported deleted", withdrawn, undefined, "report-deleted"],
  ["an order whose result the controller has is ignored", answered, lease(), "nothing"],
  [
    "a failed order whose result the controller has does not run again",
    answered,
    lease({ phase: "FAILED" }),
    "nothing",
  ],
  ["an order whose result the controller lacks is answered again", listed, lease(), "order"],
  ["a pending answer is not sent twice", listed, lease(pending({ result: true })), "nothing"],
  ["a pending end is not sent twice", withdrawn, lease({ phase: "ENDED", ...pending({ deleted: true }) }), "nothing"],
  ["a withdrawn lease ends, even with pending feedback", withdrawn, lease(pending({ result: true })), "withdraw"],
  [
    "a withdrawn lease that failed ends",
    withdrawn,
    lease({ phase: "FAILED", ...pending({ result: true }) }),
    "withdraw",
  ],
  ["a withdrawn lease that is over is reported again", withdrawn, lease({ phase: "ENDED" }), "withdraw"],
  ["a lease of another source is not withdrawn", withdrawn, lease({ source: "nats" }), "nothing"],
  ["an order whose lease came from another source is decided as any order", listed, lease({ source: "nats" }), "order"],
])("%s", (_title, news, stored, verdict) => {
  expect(decidePolled(news, stored).kind).toBe(verdict);
});

const page = (lastId: bigint): PollEvent => ({ kind: "page", lastId, isLast: false });
const at = (from: bigint, lastId: bigint, isHistoryRead = false, hasGap = false): PollState => ({
  from,
  lastId,
  isHistoryRead: isHistoryRead,
  hasGap,
});

it.each<[string, PollState, PollEvent, PollState, reports: boolean]>([
  ["an empty controller has no history", POLL_START, page(0n), at(1n, 0n, true), true],
  ["a first page does not prove that all orders were read", POLL_START, page(7n), at(8n, 7n), false],
  ["a page without newer orders proves that all orders were read", at(8n, 7n), page(7n), at(8n, 7n, true), true],
  [
    "the last page proves that all orders were read",
    at(8n, 7n),
    { kind: "page", lastId: 9n, isLast: true },
    at(10n, 9n, true),
    true,
  ],
  ["the proof is reported once", at(8n, 7n, true), page(7n), at(8n, 7n, true), false],
  ["older orders that are listed again do not move the cursor back", at(8n, 7n), page(3n), at(8n, 7n, true), true],
  [
    "an answer without a last id does not move the cursor to the beginning",
    at(8n, 7n, true),
    page(0n),
    at(8n, 7n, true),
    false,
  ],
  ["newer orders move the cursor", at(8n, 7n, true), page(2n ** 60n), at(2n ** 60n + 1n, 2n ** 60n, true), false],
  ["a failure does not move the cursor", at(8n, 7n), { kind: "failed" }, at(8n, 7n), false],
  ["an unreadable page is skipped", at(8n, 7n), { kind: "unreadable", lastId: 9n }, at(10n, 9n, false, true), false],
  [
    "after an unreadable page no page proves that all orders were read",
    at(10n, 9n, false, true),
    page(9n),
    at(10n, 9n, false, true),
    false,
  ],
  [
    "an unreadable page without a last id is polled again",
    at(8n, 7n),
    { kind: "unreadable", lastId: undefined },
    at(8n, 7n),
    false,
  ],
  [
    "an unreadable page does not prove that all orders were read",
    at(8n, 7n),
    { kind: "unreadable", lastId: 7n },
    at(8n, 7n),
    false,
  ],
])("%s", (_title, state, event, next, reports) => {
  expect(transitionPoll(state, event)).toMatchObject({ state: next, isHistoryReadNow: reports });
});

it("never moves back, never skips unreported ids, and reports the history once", () => {
  const id = fc.bigInt({ min: 0n, max: 30n });
  const event = fc.oneof<fc.Arbitrary<PollEvent>[]>(
    id.map(page),
    id.map((lastId) => ({ kind: "page", lastId, isLast: true })),
    fc.option(id, { nil: undefined }).map((lastId) => ({ kind: "unreadable", lastId })),
    fc.constant({ kind: "failed" }),
  );
  fc.assert(
    fc.property(fc.array(event), (events) => {
      let state = POLL_START;
      let reported = 0;
      let highest = 0n;
      let passedOver = false;
      for (const each of events) {
        const transition = transitionPoll(state, each);
        expect(transition.state.from).toBeGreaterThanOrEqual(state.from);
        if (each.kind !== "failed" && each.lastId !== undefined && each.lastId > highest) highest = each.lastId;
        expect(transition.state.from).toBeLessThanOrEqual(highest + 1n);
        passedOver ||= each.kind === "unreadable" && transition.state.from > state.from;
        expect(transition.isHistoryReadNow && passedOver).toBe(false);
        reported += transition.isHistoryReadNow ? 1 : 0;
        state = transition.state;
      }
      expect(reported).toBe(state.isHistoryRead ? 1 : 0);
    }),
  );
});
