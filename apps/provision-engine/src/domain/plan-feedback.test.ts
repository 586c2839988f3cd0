import { expect, it } from "vitest";
import { aLease } from "../../test/a-lease.ts";
import type { LeaseRecord } from "./lease.ts";
import { MAX_GATHER_NS, planReport } from "./plan-feedback.ts";
import { withEvent } from "./transition-lease.ts";

const NOW = 50n * MAX_GATHER_NS;
const { feedback } = aLease();
const told = aLease();
const happened = (record: LeaseRecord, atNs: bigint): LeaseRecord => withEvent(record, "ORDERED", "", atNs);
const pending = { ...told, feedback: { ...feedback, deleted: true } };
const delayed = (notBeforeNs: bigint): LeaseRecord => ({ ...told, feedback: { ...pending.feedback, notBeforeNs } });
const later = (untilNs: bigint) => ({ kind: "later", untilNs });

it.each<[title: string, record: LeaseRecord, isChanging: boolean, plan: object]>([
  ["of nothing that happened", told, true, { kind: "nothing" }],
  ["at once of what its source waits for", happened(pending, NOW), true, { kind: "now" }],
  ["at once where nothing is about to change", happened(told, NOW), false, { kind: "now" }],
  [
    "with what comes of it where it is about to change",
    happened(told, NOW - 1n),
    true,
    later(NOW - 1n + MAX_GATHER_NS),
  ],
  ["after a while in any case", happened(told, NOW - MAX_GATHER_NS - 1n), true, { kind: "now" }],
  ["by how old the oldest is", happened(happened(told, NOW - 9n), NOW), true, later(NOW - 9n + MAX_GATHER_NS)],
  ["by the own clock where another one is ahead", happened(told, 9n * NOW), true, later(NOW + MAX_GATHER_NS)],
  ["once its source may be told again", delayed(NOW + 5n), false, later(NOW + 5n)],
  ["as its source may be told, if that is first", happened(delayed(NOW + 5n), NOW), true, later(NOW + 5n)],
])("is told %s", (_title, record, isChanging, plan) => {
  const { because, ...planned } = planReport(record, isChanging, NOW);
  expect(planned).toEqual(plan);
  expect(because).not.toBe("");
});
