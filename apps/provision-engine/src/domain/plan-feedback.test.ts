import { expect, it } from "vitest";
import { makeLeaseRecord } from "../../test/a-lease.ts";
import type { LeaseRecord } from "./lease.ts";
import { MAX_GATHER_NS, planReport } from "./plan-feedback.ts";
import { withEvent } from "./lease-change.ts";

const NOW = 50n * MAX_GATHER_NS;
const { feedback } = makeLeaseRecord();
const reported = makeLeaseRecord();
const happened = (record: LeaseRecord, atNs: bigint): LeaseRecord => withEvent(record, "ORDERED", "", atNs);
const pending = { ...reported, feedback: { ...feedback, deleted: true } };
const delayed = (notBeforeNs: bigint): LeaseRecord => ({ ...reported, feedback: { ...pending.feedback, notBeforeNs } });
const later = (untilNs: bigint) => ({ kind: "later", untilNs });

it.each<[title: string, record: LeaseRecord, isChanging: boolean, plan: object]>([
  ["never if nothing happened", reported, true, { kind: "nothing" }],
  ["immediately if its source waits for it", happened(pending, NOW), true, { kind: "now" }],
  ["immediately if no change is imminent", happened(reported, NOW), false, { kind: "now" }],
  ["together with an imminent change", happened(reported, NOW - 1n), true, later(NOW - 1n + MAX_GATHER_NS)],
  ["after a while in any case", happened(reported, NOW - MAX_GATHER_NS - 1n), true, { kind: "now" }],
  [
    "by the age of the oldest event",
    happened(happened(reported, NOW - 9n), NOW),
    true,
    later(NOW - 9n + MAX_GATHER_NS),
  ],
  ["by the engine's own clock if another one is ahead", happened(reported, 9n * NOW), true, later(NOW + MAX_GATHER_NS)],
  ["once the pause of its source is over", delayed(NOW + 5n), false, later(NOW + 5n)],
  [
    "at the end of the pause of its source, if that is earlier",
    happened(delayed(NOW + 5n), NOW),
    true,
    later(NOW + 5n),
  ],
])("is reported %s", (_title, record, isChanging, plan) => {
  const { because, ...planned } = planReport(record, isChanging, NOW);
  expect(planned).toEqual(plan);
  expect(because).not.toBe("");
});
