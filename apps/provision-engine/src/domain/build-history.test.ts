import { expect, it } from "vitest";
import { makeLeaseRecord } from "../../test/a-lease.ts";
import { buildHistory } from "./build-history.ts";
import { withEvent } from "./lease-change.ts";

const eventsOf = (createdNs: bigint) => {
  const ordered = withEvent(makeLeaseRecord({ order: { id: "1-1", createdNs }, events: 0 }), "ORDERED", "", 1n);
  return withEvent(ordered, "DECOMMISSIONED", "", 2n).outbox;
};
const [older, later] = [eventsOf(5n), eventsOf(50n)];

it.each([
  ["the order that the record names", [...older, ...later], "50", { events: later, order: "50", isWhole: true }],
  ["the order that the record names, without events yet", older, "50", { events: [], isWhole: true }],
  ["the last order if no record exists", [...older, ...later], undefined, { events: later, order: "50" }],
  ["the only order with events", later, undefined, { events: later, isWhole: false }],
  ["none without events", [], undefined, { events: [], order: undefined, isWhole: false }],
])("has the history of one order alone, whichever order had its id before: %s", (_what, events, order, history) => {
  expect(buildHistory(events, order)).toMatchObject(history);
});
