import type { Renewal, Result } from "@muster/leases";
import { describe, expect, it } from "vitest";
import { makeLeaseRecord } from "../../test/a-lease.ts";
import type { EndingCause, FeedbackPending, LeaseRecord, LeasePhase } from "./lease.ts";
import { planFeedback } from "./plan-feedback.ts";
import { transitionLease } from "./transition-lease.ts";
import { MAX_EVENTS, withEvent, type LeaseChange } from "./lease-change.ts";

const PHASES: readonly LeasePhase[] = ["ORDERED", "PROVISIONING", "ACTIVE", "DECOMMISSIONING", "ENDED", "FAILED"];
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

/** Builds a lease in a phase, with the fields that it has in this phase. */
function inPhase(phase: LeasePhase): LeaseRecord {
  const over = phase === "ENDED" || phase === "FAILED";
  const had = phase === "ACTIVE" || phase === "DECOMMISSIONING" || phase === "ENDED";
  const cause = phase === "FAILED" ? "PROVISION_FAILED" : "EXPIRED";
  return makeLeaseRecord({
    phase,
    attempts: 3,
    notBeforeNs: 4_000n,
    trouble: "a failure",
    result: had ? result("ok") : phase === "FAILED" ? result("error") : undefined,
    ending: over || phase === "DECOMMISSIONING" ? { cause, message: "", atNs: 1n, request: undefined } : undefined,
    endedAtNs: over ? 4_500n : undefined,
    feedback: { result: true, deleted: over, number: 7, attempts: 2, refusals: 1, repeats: 0, notBeforeNs: 6_000n },
  });
}

type Row = readonly [change: string, made: LeaseChange, phases: Readonly<Partial<Record<LeasePhase, LeasePhase>>>];

const TABLE: readonly Row[] = [
  ["its order is sent again", { kind: "resent" }, { ACTIVE: "ACTIVE", ENDED: "ENDED", FAILED: "ORDERED" }],
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
  ["it begins", { kind: "provisioning" }, { ORDERED: "PROVISIONING" }],
  ["it is handed over", { kind: "migrated", heir: "2-1" }, { ACTIVE: "ENDED" }],
  ["it is provisioned", { kind: "provisioned", result: result("ok") }, { PROVISIONING: "ACTIVE" }],
  [
    "it failed",
    { kind: "provision-failed", result: result("error") },
    { ORDERED: "FAILED", PROVISIONING: "DECOMMISSIONING" },
  ],
  ["all of its resources are removed", { kind: "decommissioned" }, { DECOMMISSIONING: "ENDED" }],
  [
    "an attempt failed",
    { kind: "delayed", message: "x", notBeforeNs: 9n },
    { PROVISIONING: "PROVISIONING", DECOMMISSIONING: "DECOMMISSIONING" },
  ],
  ["it waits", { kind: "waiting", message: "no machine is free" }, { PROVISIONING: "PROVISIONING" }],
  ["a machine of it is lost", { kind: "lost", message: "node n is LOST" }, { PROVISIONING: "PROVISIONING" }],
  ["it still waits for the same", { kind: "waiting", message: inPhase("PROVISIONING").trouble }, {}],
  ["it waits without a new reason", { kind: "waiting", message: "" }, {}],
  ["a check finds trouble", { kind: "checked", trouble: "gone", result: undefined }, { ACTIVE: "ACTIVE" }],
  ["a check finds it healthy", { kind: "checked", trouble: "", result: undefined }, { ACTIVE: "ACTIVE" }],
  ["a check finds another result", { kind: "checked", trouble: "", result: result("ok") }, { ACTIVE: "ACTIVE" }],
  [
    "its source has the feedback",
    { kind: "feedback-sent", number: 7 },
    Object.fromEntries(PHASES.map((phase) => [phase, phase])),
  ],
  ["its source has older feedback", { kind: "feedback-sent", number: 6 }, {}],
  ["a history of another lease is published", { kind: "published", upTo: "1-1.9" }, {}],
];

describe.each(TABLE)("when %s", (_title, change, phases) => {
  it.each(PHASES)("a lease that is %s moves as the table states", (phase) => {
    expect(transitionLease(inPhase(phase), change, NOW).next?.phase).toBe(phases[phase]);
  });

  it.each(PHASES)("a lease that was %s records each change once", (phase) => {
    const before = inPhase(phase);
    const { next } = transitionLease(before, change, NOW);
    if (next === undefined) return;
    const added = next.outbox.slice(before.outbox.length);
    expect(next.events - before.events).toBe(added.length);
    expect(added.map(({ id }) => id)).toEqual(
      added.map((_event, at) => `1-1.${before.order.createdNs}.${before.events + 1 + at}`),
    );
    expect(next.order).toBe(before.order);
    const isLate = (feedback: FeedbackPending) => feedback.attempts > 0;
    // New feedback is sent immediately, under a new number.
    if (next.feedback.number !== before.feedback.number) expect(isLate(next.feedback)).toBe(false);
  });
});

it.each<[from: LeasePhase, LeaseChange, reports: { result: string | undefined; deleted: boolean }]>([
  ["PROVISIONING", { kind: "provisioned", result: result("ok") }, { result: "ok", deleted: false }],
  ["ORDERED", { kind: "provision-failed", result: result("error") }, { result: "error", deleted: true }],
  ["DECOMMISSIONING", { kind: "decommissioned" }, { result: undefined, deleted: true }],
  ["ORDERED", ending("EXPIRED"), { result: undefined, deleted: true }],
  ["ACTIVE", { kind: "resent" }, { result: "ok", deleted: false }],
  ["ENDED", { kind: "resent" }, { result: undefined, deleted: true }],
])("reports for a lease that was %s after %o: %o", (from, change, reports) => {
  const { next } = transitionLease(inPhase(from), change, NOW);
  const plan = planFeedback(next!, NOW);
  expect(plan.kind).toBe("now");
  if (plan.kind === "now") expect({ result: plan.result?.state, deleted: plan.deleted }).toEqual(reports);
});

it("keeps the reason of the wait of a lease that ends before it is active", () => {
  const waiting = makeLeaseRecord({ phase: "PROVISIONING", trouble: "0/8 nodes are available" });
  const { next } = transitionLease(waiting, ending("EXPIRED"), NOW);
  expect(next).toMatchObject({
    phase: "DECOMMISSIONING",
    trouble: "",
    ending: { cause: "EXPIRED", message: "it was not ACTIVE yet: 0/8 nodes are available" },
  });
  expect(next?.outbox.at(-1)?.message).toBe("EXPIRED: it was not ACTIVE yet: 0/8 nodes are available");
});

it("reports nothing of an earlier run once the order runs again", () => {
  const { next } = transitionLease(inPhase("FAILED"), { kind: "resent" }, NOW);
  expect(next).toMatchObject({ run: 2, result: undefined, ending: undefined, endedAtNs: undefined, attempts: 0 });
  expect(planFeedback(next!, 10_000n)).toMatchObject({ kind: "nothing" });
  expect(transitionLease(next!, { kind: "feedback-sent", number: 7 }, NOW).next).toBeUndefined();
});

describe("a lease that is over, without its data", () => {
  const orderHash = new Uint8Array(32).fill(7);
  const reported = (phase: LeasePhase): LeaseRecord => {
    const record = inPhase(phase);
    const data = '{"say":"hello"}';
    const known = record.result && { ...record.result, data: record.result.state === "ok" ? data : "null" };
    const feedback = { ...record.feedback, result: false, deleted: false };
    return { ...record, order: { ...record.order, data }, result: known, feedback };
  };
  const compact = (phase: LeasePhase): LeaseRecord =>
    transitionLease(reported(phase), { kind: "compacted", orderHash }, NOW).next ??
    expect.fail(`${phase} keeps its data`);

  it.each(PHASES.filter((phase) => phase !== "ENDED" && phase !== "FAILED"))(
    "does not exist in the phase %s",
    (phase) => {
      expect(transitionLease(reported(phase), { kind: "compacted", orderHash }, NOW).next).toBeUndefined();
    },
  );

  it("keeps all but its data, and an error completely", () => {
    const before = reported("ENDED");
    const { order, result: had } = before;
    const expected = { ...before, order: { ...order, data: "" }, result: { ...had, data: "" }, orderHash };
    expect(compact("ENDED")).toEqual(expected);
    expect(compact("FAILED").result).toEqual(reported("FAILED").result);
    expect(transitionLease(compact("ENDED"), { kind: "compacted", orderHash }, NOW).next).toBeUndefined();
  });

  it("keeps the counted exits for its heir, which may not have read them", () => {
    const crashes = { sinceNs: 1n, exits: 2, pods: [] };
    const compacted = (changes: Partial<LeaseRecord>) =>
      transitionLease({ ...reported("ENDED"), crashes, ...changes }, { kind: "compacted", orderHash }, NOW).next
        ?.crashes;
    expect(compacted({ heir: "2-1" })).toEqual(crashes);
    expect(compacted({})).toBeUndefined();
  });

  it.each(["ENDED", "FAILED"] as const)("gets the same answer as with its data (%s)", (phase) => {
    const after = inPhase(phase).expiresAtNs + 1n;
    const [with_, without] = [reported(phase), compact(phase)].map((record) => {
      const { next } = transitionLease(record, { kind: "resent", data: reported(phase).order.data }, after);
      return planFeedback(next!, after);
    });
    expect(without).toEqual(with_);
    expect(without?.kind).toBe("now");
  });

  it("runs again, if it failed, with the data that its order brings", () => {
    const { data } = reported("FAILED").order;
    const again = transitionLease(reported("FAILED"), { kind: "resent", data }, NOW).next;
    expect(transitionLease(compact("FAILED"), { kind: "resent", data }, NOW).next).toEqual(again);
    expect(again).toMatchObject({ phase: "ORDERED", order: { data }, orderHash: undefined });
    // A source that only requests the answer sends no data.
    expect(transitionLease(compact("FAILED"), { kind: "resent" }, NOW).next).toMatchObject({
      phase: "FAILED",
      feedback: { result: true, deleted: true },
    });
  });
});

it("does not run an order again that has failed and is over, but answers it", () => {
  const after = inPhase("FAILED").expiresAtNs + 1n;
  const { next } = transitionLease(inPhase("FAILED"), { kind: "resent" }, after);
  expect(next).toMatchObject({ phase: "FAILED", feedback: { result: true, deleted: true } });
});

it("removes a lease that failed and reports it then, and lets it run again only unless it was ended", () => {
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

it("keeps the error of a lease that crashed", () => {
  const crashed = transitionLease(inPhase("ACTIVE"), ending("CRASHED"), NOW).next!;
  const ended = transitionLease(crashed, { kind: "decommissioned" }, NOW).next!;
  expect(ended).toMatchObject({ phase: "ENDED", result: { state: "error", message: "boom" } });
  expect(planFeedback(ended, NOW)).toMatchObject({ kind: "now", deleted: true, result: { state: "error" } });
});

it.each<[string, Partial<Renewal>, bigint]>([
  ["of a known sequence", { sequence: 1 }, NOW],
  ["of an older sequence", { sequence: 0 }, NOW],
  ["that does not extend it", { sequence: 2, expiresAtNs: 2_000_000n }, NOW],
  ["that comes after the end", { sequence: 2, expiresAtNs: 3_000_000n }, 2_000_001n],
])("refuses a renewal %s", (_title, changes, nowNs) => {
  const renewed = transitionLease(inPhase("ACTIVE"), { kind: "renewed", renewal }, NOW).next!;
  expect(renewed.expiresAtNs).toBe(2_000_000n);
  const again = transitionLease(renewed, { kind: "renewed", renewal: { ...renewal, ...changes } }, nowNs);
  expect(again.next).toBeUndefined();
});

it("removes the published event and the ones before it from the outbox", () => {
  const record = withEvent(
    withEvent(withEvent(makeLeaseRecord(), "ORDERED", "", 1n), "PROVISIONED", "", 2n),
    "ENDING",
    "",
    3n,
  );
  const { next } = transitionLease(record, { kind: "published", upTo: record.outbox[1]!.id }, NOW);
  expect(next?.outbox.map(({ id }) => id)).toEqual([record.outbox[2]?.id]);
});

it("retries feedback that could not be sent", () => {
  const { next } = transitionLease(
    inPhase("ACTIVE"),
    { kind: "feedback-delayed", number: 7, notBeforeNs: 8_000n },
    NOW,
  );
  expect(next?.feedback).toEqual({
    result: true,
    deleted: false,
    number: 7,
    attempts: 3,
    refusals: 1,
    repeats: 0,
    notBeforeNs: 8_000n,
  });
  expect(planFeedback(next!, 8_000n)).toMatchObject({ kind: "later", untilNs: 8_000n });
  expect(planFeedback(next!, 8_001n).kind).toBe("now");
});

it("records the first failed attempt of a phase, and once that it is stuck", () => {
  const failed = (record: LeaseRecord, times: number): LeaseRecord => {
    let last = record;
    for (let time = 1; time <= times; time += 1)
      last = transitionLease(last, { kind: "delayed", message: `${time}`, notBeforeNs: 9n }, NOW).next ?? last;
    return last;
  };
  const lines = ({ outbox }: LeaseRecord): string[] =>
    outbox.map(({ eventType, message }) => `${eventType} ${message}`);
  const begun = { attempts: 0, trouble: "" };
  expect(lines(failed(makeLeaseRecord({ phase: "PROVISIONING", ...begun }), 30))).toEqual(["DELAYED 1"]);
  expect(lines(failed(makeLeaseRecord({ phase: "DECOMMISSIONING", ...begun }), 30))).toEqual(["DELAYED 1", "STUCK 10"]);
});

it("repeats its answer immediately, then after a growing pause, with one event, however often its order comes", () => {
  let record = makeLeaseRecord({ result: result("ok") });
  const reportedAtMs: number[] = [];
  let writes = 0;
  const untilMs = 24 * 3_600_000;
  for (let nowMs = 0; nowMs < untilMs; nowMs += 10_000) {
    const nowNs = BigInt(nowMs) * 1_000_000n;
    const { next } = transitionLease(record, { kind: "resent" }, nowNs);
    if (next !== undefined) writes += 1;
    record = next ?? record;
    const plan = planFeedback(record, nowNs);
    if (plan.kind !== "now") continue;
    reportedAtMs.push(nowMs);
    record = transitionLease(record, { kind: "feedback-sent", number: plan.number }, nowNs).next!;
  }
  const pauses = reportedAtMs.slice(1).map((atMs, at) => atMs - reportedAtMs[at]!);
  expect(pauses).toEqual([...pauses].sort((a, b) => a - b));
  expect(pauses[0]).toBeGreaterThanOrEqual(60_000);
  expect(pauses.at(-1)).toBeGreaterThanOrEqual(3_600_000);
  expect(writes - reportedAtMs.length).toBeLessThanOrEqual(1);
  expect(record.outbox.map(({ eventType }) => eventType)).toEqual(["RESENT"]);
  const other = transitionLease(record, ending("REQUESTED"), NOW).next!;
  const ended = transitionLease(other, { kind: "decommissioned" }, NOW).next!;
  expect(planFeedback(ended, NOW)).toMatchObject({ kind: "now", deleted: true });
});

it("limits the number of events, whatever is repeated, and records its end", () => {
  const repeat = (change: LeaseChange, record: LeaseRecord): LeaseRecord =>
    transitionLease(record, change, NOW).next ?? record;
  let record = makeLeaseRecord({ result: result("ok") });
  for (let time = 0; time < 2 * MAX_EVENTS; time += 1)
    record = repeat({ kind: "checked", trouble: time % 2 === 0 ? "gone" : "", result: undefined }, record);
  record = repeat(ending("REQUESTED"), record);
  record = repeat({ kind: "decommissioned" }, record);
  expect(record.outbox.slice(-2).map(({ eventType }) => eventType)).toEqual(["ENDING", "DECOMMISSIONED"]);
  expect(record.outbox.length).toBeLessThan(MAX_EVENTS + 20);
  for (let run = 1; run <= 2000; run += 1) {
    record = repeat({ kind: "provision-failed", result: result("error") }, { ...record, phase: "ORDERED", run });
  }
  expect(record.outbox.length).toBeLessThan(MAX_EVENTS + 20 + 100 + 2000 / 50);
  expect(new Set(record.outbox.map(({ id }) => id)).size).toBe(record.outbox.length);
});

it("also records the last renewal of a lease that is renewed each hour", () => {
  let record = makeLeaseRecord();
  for (let sequence = 1; sequence <= 600; sequence += 1) {
    const renewed = { ...renewal, sequence, expiresAtNs: record.expiresAtNs + 1n };
    record = transitionLease(record, { kind: "renewed", renewal: renewed }, 2n).next ?? record;
  }
  expect(record.events).toBe(600);
  expect(record.outbox.at(-1)).toMatchObject({
    eventType: "RENEWED",
    message: "sequence 600; one line of 50: the history is long",
  });
  expect(record.outbox).toHaveLength(MAX_EVENTS + 3);
});

it("gives the events of two orders of one id different ids", () => {
  const idOf = (createdNs: bigint) =>
    withEvent(makeLeaseRecord({ order: { createdNs } }), "ORDERED", "", 1n).outbox[0]?.id;
  expect(idOf(1n)).not.toBe(idOf(2n));
});
