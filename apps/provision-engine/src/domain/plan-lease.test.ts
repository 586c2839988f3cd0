import { MAX_DURATION_NS } from "@muster/leases";
import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { ALONE, makeLeaseRecord, makeOrder } from "../../test/a-lease.ts";
import { readClaim } from "../types/workload-types.ts";
import { decideRetry } from "./decide-retry.ts";
import { toReferenced } from "./decide-take-over.ts";
import { takeSnapshot, type LeaseSnapshot, planLease, type LeasePlan, type LeasePolicy } from "./plan-lease.ts";
import type { LeaseRecord, LeasePhase } from "./lease.ts";
import { NO_UNITS, type NeighbourLease } from "./claim.ts";
import { toDecisionJson, readDecision, writeDecision } from "./stored-decision.ts";
import { withEvent } from "./lease-change.ts";

const TOMBSTONE = 100n;
const END = makeLeaseRecord().expiresAtNs;
const AGE = { maxOrderAgeNs: END, maxListedAgeNs: 5n * END };
const orderHash = new Uint8Array(32);
const POLICY: LeasePolicy = { tombstoneNs: TOMBSTONE, crash: { windowNs: 100n } };
const AROUND = { ...ALONE, held: NO_UNITS, capacity: {} };

type Seen = Partial<
  Pick<LeaseSnapshot, "isServed" | "exits" | "reference"> &
    Pick<LeaseSnapshot["lease"], "keptFor"> &
    LeaseSnapshot["around"]
>;

function plan(
  record: LeaseRecord,
  nowNs: bigint,
  { isServed = true, exits = [], reference, keptFor, ...around }: Seen = {},
): LeasePlan {
  return planTwice(
    takeSnapshot(
      record,
      { claim: readClaim(record.order), isServed, exits, reference, keptFor, around: { ...AROUND, ...around } },
      AGE,
    ),
    nowNs,
  );
}

/** Plans from a snapshot and from its stored form, and expects equal plans. */
function planTwice(snapshot: LeaseSnapshot, nowNs: bigint): LeasePlan {
  const planned = planLease(snapshot, POLICY, nowNs);
  const stored = readDecision(writeDecision({ snapshot, policy: POLICY, nowNs }, planned));
  expect(stored.snapshot).toEqual(snapshot);
  expect(planLease(stored.snapshot, stored.policy, stored.nowNs)).toEqual(planned);
  expect(stored.plan).toEqual(toDecisionJson(planned));
  return planned;
}
const volume = (phase: LeasePhase): NeighbourLease => ({
  id: "1-2",
  type: "volume",
  phase,
  network: undefined,
  within: undefined,
});
const mounting = {
  type: "container",
  data: '{"image":"i","capacity":{"cpu":1,"memory":1024},"mounts":[{"volume_id":"1-2","mountpoint":"/m"}]}',
};
const expire = {
  kind: "change",
  change: { kind: "ending", ending: { cause: "EXPIRED", message: "", request: undefined } },
  because: { code: "expired" },
};

describe("an order", () => {
  const ordered = makeLeaseRecord({ phase: "ORDERED" });

  it("begins once it is admitted", () => {
    expect(plan(ordered, END)).toEqual({
      kind: "change",
      change: { kind: "provisioning" },
      because: { code: "capacity-suffices" },
    });
  });

  it("waits for its dependencies, but not beyond its end", () => {
    const mounts = makeLeaseRecord({ phase: "ORDERED", order: mounting });
    const named = [volume("PROVISIONING")];
    const waitsFor = { leases: ["1-2"], until: "changed" };
    const because = { code: "need-coming", need: "volume 1-2" } as const;
    expect(plan(mounts, END, { named })).toEqual({ kind: "wait", untilNs: END, waitsFor, because });
    const ending = { ...expire.change.ending, message: "it was not ACTIVE yet: volume 1-2 is being provisioned" };
    expect(plan(mounts, END + 1n, { named })).toEqual({ ...expire, change: { kind: "ending", ending } });
  });

  it("fails if it is not admitted, its type is unknown or not served, or its data are wrong", () => {
    const failed = (order: Partial<LeaseRecord["order"]>, seen: Seen = {}) =>
      plan(makeLeaseRecord({ phase: "ORDERED", order }), END, seen);
    const message = "failed to apply provision: this user has no active volume 1-2; order it first";
    expect(failed(mounting)).toMatchObject({ kind: "fail", message });
    expect(failed({}, { isServed: false })).toMatchObject({
      kind: "fail",
      message: "failed to apply provision: type of reservation not served: debug",
    });
    expect(failed({ type: "x" })).toMatchObject({ kind: "fail", message: "type of reservation not supported: x" });
    const wrong = failed({ type: "kubernetes", data: '{"size":19}' });
    expect(wrong).toMatchObject({ kind: "fail", message: "data.size only size 1 to 18" });
  });
});

describe("a lease", () => {
  const phases = (...each: LeasePhase[]) => each;

  it.each(phases("ORDERED", "PROVISIONING", "ACTIVE"))("that is %s ends as soon as its time is over", (phase) => {
    const record = makeLeaseRecord({ phase, notBeforeNs: END + 50n });
    expect(plan(record, END + 1n)).toEqual(expire);
    expect(plan(record, END)).not.toEqual(expire);
  });

  it("that is ACTIVE waits for its end, even for one that never comes", () => {
    expect(plan(makeLeaseRecord(), 5n)).toMatchObject({ kind: "wait", untilNs: END });
    const endless = makeLeaseRecord({ order: { durationNs: MAX_DURATION_NS } });
    expect(plan(endless, MAX_DURATION_NS)).toMatchObject({ kind: "wait", untilNs: MAX_DURATION_NS + 1_000n });
  });

  it("that is ACTIVE has its exits counted, and ends after four within their window", () => {
    const pod = { pod: "p", startedNs: 0n, exits: 1, lastNs: 5n, how: "exit code 1 (Error)" };
    const once = plan(makeLeaseRecord(), 5n, { exits: [pod] });
    expect(once).toMatchObject({ kind: "change", change: { kind: "exited", crashes: { sinceNs: 5n, exits: 1 } } });
    if (once.kind !== "change" || once.change.kind !== "exited") throw new Error("it is not counted");
    const { crashes } = once.change;
    expect(plan(makeLeaseRecord({ crashes }), 5n, { exits: [pod] })).toMatchObject({ kind: "wait" });
    expect(plan(makeLeaseRecord({ crashes }), 5n, { exits: [{ ...pod, exits: 4, lastNs: 90n }] })).toMatchObject({
      kind: "give-up",
      message: "exited 4 times, last with exit code 1 (Error)",
    });
    expect(plan(makeLeaseRecord({ crashes }), END + 1n, { exits: [{ ...pod, exits: 4 }] })).toEqual(expire);
  });

  it("that is PROVISIONING continues, after a failure later, but not beyond its end", () => {
    expect(plan(makeLeaseRecord({ phase: "PROVISIONING" }), 5n)).toMatchObject({ kind: "provision" });
    const failed = makeLeaseRecord({ phase: "PROVISIONING", notBeforeNs: 10n, trouble: "boom" });
    expect(plan(failed, 10n)).toEqual({
      kind: "wait",
      untilNs: 10n,
      waitsFor: undefined,
      because: { code: "retry-pause", trouble: "boom" },
    });
    expect(plan(failed, 11n)).toMatchObject({ kind: "provision" });
    expect(plan({ ...failed, notBeforeNs: END + 5n }, 10n)).toMatchObject({ untilNs: END });
  });

  it("that is DECOMMISSIONING is removed, and after a failure later", () => {
    const ending = { cause: "EXPIRED", message: "", atNs: 1n, request: undefined } as const;
    const record = makeLeaseRecord({ phase: "DECOMMISSIONING", ending });
    expect(plan(record, 5n)).toEqual({ kind: "decommission", because: { code: "ends", cause: "EXPIRED" } });
    const failed = { ...record, notBeforeNs: END + 5n, trouble: "boom" };
    expect(plan(failed, END + 5n)).toEqual({
      kind: "wait",
      untilNs: END + 5n,
      waitsFor: undefined,
      because: { code: "retry-pause", trouble: "boom" },
    });
  });

  it("that others need is not removed, however long ago it ended", () => {
    const users = { some: ["1-3"], count: 1 };
    const record = makeLeaseRecord({ phase: "DECOMMISSIONING" });
    expect(plan(record, END + 5n, { users })).toEqual({
      kind: "wait",
      untilNs: undefined,
      waitsFor: { leases: ["1-3"], until: "over" },
      because: { code: "in-use", users: ["1-3"], more: 0 },
    });
    expect(plan(makeLeaseRecord(), END + 1n, { users })).toEqual(expire);
  });

  it.each(phases("ENDED", "FAILED"))(
    "that is %s keeps its record as long as its order would run, and a while longer",
    (phase) => {
      const record = makeLeaseRecord({ phase, endedAtNs: 10n, orderHash });
      expect(plan(record, END + TOMBSTONE)).toMatchObject({ kind: "wait", untilNs: END + TOMBSTONE });
      expect(plan(record, END + TOMBSTONE + 1n)).toMatchObject({ kind: "remove" });
      const late = { ...record, endedAtNs: END + 70n };
      expect(plan(late, END + 70n + TOMBSTONE)).toMatchObject({ kind: "wait" });
      const unpublished = withEvent(late, "DECOMMISSIONED", "", 1n);
      expect(plan(unpublished, END + 71n + TOMBSTONE)).toMatchObject({ kind: "wait", untilNs: undefined });
    },
  );
});

describe("the record of a lease that is over", () => {
  const over = makeLeaseRecord({ phase: "ENDED", endedAtNs: 10n });
  const reported = over.feedback;

  it.each<[title: string, record: LeaseRecord, plan: LeasePlan["kind"]]>([
    ["loses its data once everything is reported", over, "compact"],
    ["also if it failed", { ...over, phase: "FAILED" }, "compact"],
    ["once only", { ...over, orderHash }, "wait"],
    ["also if another lease has its workload", { ...over, heir: "2-1" }, "compact"],
    ["not before its result is reported", { ...over, feedback: { ...reported, result: true } }, "wait"],
    ["not before its end is reported", { ...over, feedback: { ...reported, deleted: true } }, "wait"],
    ["not before its history is on the stream", withEvent(over, "DECOMMISSIONED", "", 1n), "wait"],
    ["not while a resource of it may exist", { ...over, phase: "DECOMMISSIONING" }, "decommission"],
  ])("%s", (_title, record, what) => {
    expect(plan(record, END).kind).toBe(what);
  });

  it("is removed uncompacted once it is not needed", () => {
    expect(plan(over, END + TOMBSTONE + 1n).kind).toBe("remove");
  });
});

it.each([
  ["api", END + makeLeaseRecord().order.createdNs],
  ["http", 5n * END + makeLeaseRecord().order.createdNs],
])("an endless lease from %s is remembered as long as its order would be accepted again", (source, untilNs) => {
  const record = makeLeaseRecord({
    source,
    phase: "ENDED",
    endedAtNs: 10n,
    orderHash,
    order: { durationNs: MAX_DURATION_NS },
  });
  expect(plan(record, untilNs + TOMBSTONE)).toMatchObject({ kind: "wait", untilNs: untilNs + TOMBSTONE });
  expect(plan(record, untilNs + TOMBSTONE + 1n)).toMatchObject({ kind: "remove" });
});

it("plans nothing before the time until which it waits", () => {
  const phase = fc.constantFrom<LeasePhase>("ORDERED", "PROVISIONING", "ACTIVE", "DECOMMISSIONING", "ENDED", "FAILED");
  const ns = fc.bigInt({ min: 0n, max: 3n * END });
  const later = { named: [volume("ORDERED")] };
  fc.assert(
    fc.property(phase, ns, ns, ns, (inPhase, nowNs, notBeforeNs, endedAtNs) => {
      const record = makeLeaseRecord({ phase: inPhase, order: mounting, notBeforeNs, endedAtNs });
      const waiting = plan(record, nowNs, later);
      if (waiting.kind !== "wait" || waiting.untilNs === undefined) return;
      expect(waiting.untilNs).toBeGreaterThanOrEqual(nowNs);
      expect(plan(record, waiting.untilNs, later)).toEqual(waiting);
      expect(plan(record, waiting.untilNs + 1n, later)).not.toEqual(waiting);
    }),
  );
});

it("plans the same from a stored decision as from its snapshot", () => {
  const phase = fc.constantFrom<LeasePhase>("ORDERED", "PROVISIONING", "ACTIVE", "DECOMMISSIONING", "ENDED", "FAILED");
  const ns = fc.bigInt({ min: 0n, max: 2n ** 63n });
  const maybe = <Value>(value: fc.Arbitrary<Value>) => fc.option(value, { nil: undefined });
  const text = fc.string();
  const units = fc.record({ cru: ns, mru: ns, hru: ns, sru: ns });
  const neighbour = fc.record({
    id: fc.constant("1-2"),
    type: fc.constant("volume"),
    phase,
    network: maybe(text),
    within: maybe(text),
  });
  const around = fc.record({
    held: units,
    overhead: units,
    capacity: fc.record({ cru: ns, mru: ns, hru: ns, sru: ns }, { requiredKeys: [] }),
    named: fc.array(neighbour, { maxLength: 3 }),
    users: fc.record({ some: fc.array(text, { maxLength: 2 }), count: fc.nat() }),
  });
  const pod = fc.record({ pod: text, startedNs: ns, exits: fc.nat({ max: 5 }), lastNs: ns, how: text });
  const crashes = fc.record({
    sinceNs: ns,
    exits: fc.nat(),
    pods: fc.array(fc.record({ pod: text, exits: fc.nat(), lastNs: ns })),
  });
  const record = fc
    .record({
      ...{ phase, expiresAtNs: ns, notBeforeNs: ns, trouble: text, endedAtNs: maybe(ns), crashes: maybe(crashes) },
      takesOver: maybe(text),
    })
    .chain((changes) =>
      fc.constantFrom({}, mounting, { type: "x" }).map((order) => makeLeaseRecord({ ...changes, order })),
    );
  const reference = fc.oneof(
    fc.record({ kind: fc.constant("unreadable" as const), id: text }),
    fc.record({
      ...{ kind: fc.constant("lease" as const), id: text, type: text, phase, expiresAtNs: ns, heir: maybe(text) },
      ...{ isOfUser: fc.boolean(), isOfEngine: fc.boolean(), isSame: fc.boolean() },
    }),
  );
  const pods = fc.array(pod, { maxLength: 3 });
  const reported = { reference: maybe(reference), keptFor: maybe(text) };
  const seen = fc.record({ isServed: fc.boolean(), around, exits: pods, ...reported });
  fc.assert(
    fc.property(
      record,
      seen,
      ns,
      (lease, found, nowNs) =>
        void planTwice(takeSnapshot(lease, { ...found, claim: readClaim(lease.order) }, AGE), nowNs),
    ),
  );
});

it("begins nothing for an order that takes over, and at its end first checks the older lease", () => {
  const order = { id: "2-1", reference: "1-1" };
  const older = makeLeaseRecord();
  const reference = toReferenced(makeOrder(order), older, true);
  expect(plan(makeLeaseRecord({ phase: "ORDERED", order }), 1n, { reference })).toMatchObject({
    kind: "change",
    change: { kind: "provisioning", takesOver: "1-1" },
  });
  for (const phase of ["PROVISIONING", "DECOMMISSIONING"] as const)
    expect(plan(makeLeaseRecord({ phase, order, takesOver: "1-1" }), 1n).kind).toBe("take-over");
  const taken = makeLeaseRecord({ phase: "PROVISIONING", order, madeFor: { id: "1-1", run: 1 } });
  expect(plan(taken, 1n).kind).toBe("provision");
  expect(plan(makeLeaseRecord({ phase: "PROVISIONING", order, takesOver: "1-1" }), END + 1n)).toMatchObject({
    change: { kind: "ending" },
  });
});

it("keeps the record of a lease as long as another one has its workload", () => {
  const record = makeLeaseRecord({ phase: "ENDED", endedAtNs: 1n, heir: "2-1", orderHash });
  const later = END + TOMBSTONE + 1n;
  expect(plan(record, later, { keptFor: "2-1" })).toMatchObject({
    kind: "wait",
    waitsFor: { leases: ["2-1"], until: "over" },
  });
  expect(plan(record, later).kind).toBe("remove");
});

it("doubles the pause after each failure, up to the longest", () => {
  const policy = { firstMs: 500, maxMs: 30_000 };
  const pauses = [1, 2, 3, 7, 1000].map((failures) => (decideRetry(failures, 5n, policy) - 5n) / 1_000_000n);
  expect(pauses).toEqual([500n, 1000n, 2000n, 30_000n, 30_000n]);
});
