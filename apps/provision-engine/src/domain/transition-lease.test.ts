import type { Renewal, Result } from "@muster/leases";
import { describe, expect, it } from "vitest";
import { aLease } from "./a-lease.ts";
import type { EndingCause, FeedbackPending, LeaseRecord, Phase } from "./lease.ts";
import { planFeedback } from "./plan-feedback.ts";
import { transitionLease, withEvent, type LeaseChange } from "./transition-lease.ts";

const PHASES: readonly Phase[] = ["ORDERED", "PROVISIONING", "ACTIVE", "DECOMMISSIONING", "ENDED", "FAILED"];
const NOW = 5_000n;
const signature = new Uint8Array(64);
const result = (state: Result["state"]): Result => ({
  id: "1-1",
  type: "debug",
  createdNs: NOW,
  state,
  message: state === "error" ? "boom" : "",
  data: "null",
  signature,
});
const ending = (cause: EndingCause): LeaseChange => ({
  kind: "ending",
  ending: { cause, message: "", request: undefined },
  ...(cause === "CRASHED" && { result: result("error") }),
});
const renewal: Renewal = { id: "1-1", engine: "main", user: "user", expiresAtNs: 2_000_000n, sequence: 1, signature };

/** A lease in a phase, with what it has got there. */
function inPhase(phase: Phase): LeaseRecord {
  const over = phase === "ENDED" || phase === "FAILED";
  const had = phase === "ACTIVE" || phase === "DECOMMISSIONING" || phase === "ENDED";
  const cause = phase === "FAILED" ? "PROVISION_FAILED" : "EXPIRED";
  return aLease({
    phase,
    attempts: 3,
    notBeforeNs: 4_000n,
    trouble: "a failure",
    result: had ? result("ok") : phase === "FAILED" ? result("error") : undefined,
    ending: over || phase === "DECOMMISSIONING" ? { cause, message: "", atNs: 1n, request: undefined } : undefined,
    endedAtNs: over ? 4_500n : undefined,
    feedback: { result: true, deleted: over, number: 7, attempts: 2, refusals: 1, notBeforeNs: 6_000n },
  });
}

type Row = readonly [change: string, made: LeaseChange, phases: Readonly<Partial<Record<Phase, Phase>>>];

const TABLE: readonly Row[] = [
  ["its order comes again", { kind: "resent" }, { ACTIVE: "ACTIVE", ENDED: "ENDED", FAILED: "ORDERED" }],
  [
    "it is renewed",
    { kind: "renewed", renewal },
    { ORDERED: "ORDERED", PROVISIONING: "PROVISIONING", ACTIVE: "ACTIVE" },
  ],
  [
    "its time is over",
    ending("EXPIRED"),
    { ORDERED: "ENDED", PROVISIONING: "DECOMMISSIONING", ACTIVE: "DECOMMISSIONING" },
  ],
  [
    "its user ends it",
    ending("REQUESTED"),
    { ORDERED: "ENDED", PROVISIONING: "DECOMMISSIONING", ACTIVE: "DECOMMISSIONING", FAILED: "ENDED" },
  ],
  [
    "its source withdraws it",
    ending("WITHDRAWN"),
    { ORDERED: "ENDED", PROVISIONING: "DECOMMISSIONING", ACTIVE: "DECOMMISSIONING", FAILED: "ENDED" },
  ],
  ["it crashed", ending("CRASHED"), { ORDERED: "ENDED", PROVISIONING: "DECOMMISSIONING", ACTIVE: "DECOMMISSIONING" }],
  ["it is begun", { kind: "provisioning" }, { ORDERED: "PROVISIONING" }],
  ["it is there", { kind: "provisioned", result: result("ok") }, { PROVISIONING: "ACTIVE" }],
  [
    "it failed",
    { kind: "provision-failed", result: result("error") },
    { ORDERED: "FAILED", PROVISIONING: "DECOMMISSIONING" },
  ],
  ["nothing of it is there", { kind: "decommissioned" }, { DECOMMISSIONING: "ENDED" }],
  [
    "an attempt failed",
    { kind: "delayed", message: "x", notBeforeNs: 9n, waits: false },
    { PROVISIONING: "PROVISIONING", DECOMMISSIONING: "DECOMMISSIONING" },
  ],
  ["its source was told", { kind: "told", number: 7 }, Object.fromEntries(PHASES.map((phase) => [phase, phase]))],
  ["its source was told something else", { kind: "told", number: 6 }, {}],
  ["a history that is none of its was published", { kind: "published", upTo: "1-1.9" }, {}],
];

describe.each(TABLE)("when %s", (_title, change, phases) => {
  it.each(PHASES)("a lease that is %s goes where the table says", (phase) => {
    expect(transitionLease(inPhase(phase), change, NOW).next?.phase).toBe(phases[phase]);
  });

  it.each(PHASES)("a lease that was %s tells of each change once", (phase) => {
    const before = inPhase(phase);
    const { next } = transitionLease(before, change, NOW);
    if (next === undefined) return;
    const added = next.outbox.slice(before.outbox.length);
    expect(next.events - before.events).toBe(added.length);
    expect(added.map(({ id }) => id)).toEqual(added.map((_event, at) => `1-1.${before.events + 1 + at}`));
    expect(next.order).toBe(before.order);
    const isLate = (feedback: FeedbackPending) => feedback.attempts > 0;
    // What is new to be told is told at once, under a number of its own.
    if (next.feedback.number !== before.feedback.number) expect(isLate(next.feedback)).toBe(false);
  });
});

it.each<[from: Phase, LeaseChange, tells: { result: string | undefined; deleted: boolean }]>([
  ["PROVISIONING", { kind: "provisioned", result: result("ok") }, { result: "ok", deleted: false }],
  ["ORDERED", { kind: "provision-failed", result: result("error") }, { result: "error", deleted: true }],
  ["DECOMMISSIONING", { kind: "decommissioned" }, { result: undefined, deleted: true }],
  ["ORDERED", ending("EXPIRED"), { result: undefined, deleted: true }],
  ["ACTIVE", { kind: "resent" }, { result: "ok", deleted: false }],
  ["ENDED", { kind: "resent" }, { result: undefined, deleted: true }],
])("tells the source of a lease that was %s after %o: %o", (from, change, tells) => {
  const { next } = transitionLease(inPhase(from), change, NOW);
  const plan = planFeedback(next!, NOW);
  expect(plan.tell).toBe("now");
  if (plan.tell === "now") expect({ result: plan.result?.state, deleted: plan.deleted }).toEqual(tells);
});

it("tells nothing of an earlier run once the order runs again", () => {
  const { next } = transitionLease(inPhase("FAILED"), { kind: "resent" }, NOW);
  expect(next).toMatchObject({ run: 2, result: undefined, ending: undefined, endedAtNs: undefined, attempts: 0 });
  expect(planFeedback(next!, 10_000n)).toEqual({ tell: "nothing" });
  expect(transitionLease(next!, { kind: "told", number: 7 }, NOW).next).toBeUndefined();
});

it("does not run an order again that has failed and is over, but answers it", () => {
  const after = inPhase("FAILED").expiresAtNs + 1n;
  const { next } = transitionLease(inPhase("FAILED"), { kind: "resent" }, after);
  expect(next).toMatchObject({ phase: "FAILED", feedback: { result: true, deleted: true } });
});

it("takes back what is there of a lease that failed, tells it then, and lets it run again only unless it was ended", () => {
  const failing = transitionLease(
    inPhase("PROVISIONING"),
    { kind: "provision-failed", result: result("error") },
    NOW,
  ).next!;
  expect(failing).toMatchObject({ phase: "DECOMMISSIONING", attempts: 0, trouble: "" });
  const failed = transitionLease(failing, { kind: "decommissioned" }, NOW).next!;
  expect(failed).toMatchObject({ phase: "FAILED", feedback: { result: true, deleted: true } });
  const ended = transitionLease(failing, ending("REQUESTED"), NOW).next!;
  expect(transitionLease(ended, { kind: "decommissioned" }, NOW).next?.phase).toBe("ENDED");
});

it("keeps the error of a lease that crashed to be seen", () => {
  const crashed = transitionLease(inPhase("ACTIVE"), ending("CRASHED"), NOW).next!;
  const ended = transitionLease(crashed, { kind: "decommissioned" }, NOW).next!;
  expect(ended).toMatchObject({ phase: "ENDED", result: { state: "error", message: "boom" } });
  expect(planFeedback(ended, NOW)).toMatchObject({ tell: "now", deleted: true, result: { state: "error" } });
});

it.each<[string, Partial<Renewal>, bigint]>([
  ["of a sequence that was there before", { sequence: 1 }, NOW],
  ["of an older sequence", { sequence: 0 }, NOW],
  ["that makes it no longer", { sequence: 2, expiresAtNs: 2_000_000n }, NOW],
  ["that comes after the end", { sequence: 2, expiresAtNs: 3_000_000n }, 2_000_001n],
])("takes no renewal %s", (_title, changes, nowNs) => {
  const renewed = transitionLease(inPhase("ACTIVE"), { kind: "renewed", renewal }, NOW).next!;
  expect(renewed.expiresAtNs).toBe(2_000_000n);
  const again = transitionLease(renewed, { kind: "renewed", renewal: { ...renewal, ...changes } }, nowNs);
  expect(again.next).toBeUndefined();
});

it("takes from the outbox what is on the stream, and what came before it", () => {
  const record = withEvent(withEvent(withEvent(aLease(), "ORDERED", "", 1n), "PROVISIONED", "", 2n), "ENDING", "", 3n);
  const { next } = transitionLease(record, { kind: "published", upTo: "1-1.2" }, NOW);
  expect(next?.outbox.map(({ id }) => id)).toEqual(["1-1.3"]);
});

it("tries feedback that could not be sent again later", () => {
  const { next } = transitionLease(inPhase("ACTIVE"), { kind: "telling-delayed", number: 7, notBeforeNs: 8_000n }, NOW);
  expect(next?.feedback).toEqual({
    result: true,
    deleted: false,
    number: 7,
    attempts: 3,
    refusals: 1,
    notBeforeNs: 8_000n,
  });
  expect(planFeedback(next!, 8_000n)).toEqual({ tell: "later", untilNs: 8_000n });
  expect(planFeedback(next!, 8_001n).tell).toBe("now");
});
