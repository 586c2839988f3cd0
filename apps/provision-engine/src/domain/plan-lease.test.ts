import { DURATION_NS_MAX } from "@muster/leases";
import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { aLease } from "./a-lease.ts";
import type { Admission } from "./decide-admission.ts";
import { decideRetry } from "./decide-retry.ts";
import type { PodExits } from "./count-exits.ts";
import type { Release } from "./decide-release.ts";
import type { LeaseRecord, Phase } from "./lease.ts";
import { planLease, type LeasePlan, type LeasePolicy } from "./plan-lease.ts";
import { withEvent } from "./transition-lease.ts";

const TOMBSTONE = 100n;
const YES: Admission = { admit: "yes", because: "free" };
const END = aLease().expiresAtNs;

const FREE: Release = { release: "yes", because: "nothing lives in it" };

const POLICY: LeasePolicy = { tombstoneNs: TOMBSTONE, crash: { windowNs: 100n } };

function plan(
  record: LeaseRecord,
  nowNs: bigint,
  admission: Admission = YES,
  { release = FREE, exits = [] }: { readonly release?: Release; readonly exits?: readonly PodExits[] } = {},
): LeasePlan {
  return planLease({ record, nowNs, admit: () => admission, release: () => release, exits: () => exits }, POLICY);
}
const expire = {
  do: "change",
  change: { kind: "ending", ending: { cause: "EXPIRED", message: "", request: undefined } },
  because: "its time is over",
};

describe("an order", () => {
  const ordered = aLease({ phase: "ORDERED" });

  it("is begun once it is admitted", () => {
    expect(plan(ordered, END)).toEqual({ do: "change", change: { kind: "provisioning" }, because: "free" });
  });

  it("waits for what it needs, but not beyond its end", () => {
    const later = { admit: "later", because: "volume 1-2 is being provisioned" } as const;
    expect(plan(ordered, END, later)).toEqual({ do: "wait", untilNs: END, because: later.because });
    expect(plan(ordered, END + 1n, later)).toEqual(expire);
  });

  it("fails when it is not admitted, is of no known type, or its data are wrong", () => {
    const because = "not enough free resources";
    const failed = (changes: Partial<LeaseRecord["order"]>, admission: Admission = YES) =>
      plan(aLease({ phase: "ORDERED", order: changes }), END, admission);
    expect(failed({}, { admit: "no", because })).toMatchObject({ message: `failed to apply provision: ${because}` });
    expect(failed({ type: "x" })).toMatchObject({ do: "fail", message: "type of reservation not supported: x" });
    const wrong = failed({ type: "kubernetes", data: '{"size":19}' });
    expect(wrong).toMatchObject({ do: "fail", message: "data.size only size 1 to 18" });
  });
});

describe("a lease", () => {
  const phases = (...each: Phase[]) => each;

  it.each(phases("ORDERED", "PROVISIONING", "ACTIVE"))("that is %s ends as soon as its time is over", (phase) => {
    const record = aLease({ phase, notBeforeNs: END + 50n });
    expect(plan(record, END + 1n)).toEqual(expire);
    expect(plan(record, END)).not.toEqual(expire);
  });

  it("that is ACTIVE waits for its end, also for one that never comes", () => {
    expect(plan(aLease(), 5n)).toMatchObject({ do: "wait", untilNs: END });
    const endless = aLease({ order: { durationNs: DURATION_NS_MAX } });
    expect(plan(endless, DURATION_NS_MAX)).toMatchObject({ do: "wait", untilNs: DURATION_NS_MAX + 1_000n });
  });

  it("that is ACTIVE has its exits counted, and is given up after four within their window", () => {
    const pod = { pod: "p", startedNs: 0n, exits: 1, lastNs: 5n, how: "exit code 1 (Error)" };
    const once = plan(aLease(), 5n, YES, { exits: [pod] });
    expect(once).toMatchObject({ do: "change", change: { kind: "exited", crashes: { sinceNs: 5n, exits: 1 } } });
    if (once.do !== "change" || once.change.kind !== "exited") throw new Error("it is not counted");
    const { crashes } = once.change;
    expect(plan(aLease({ crashes }), 5n, YES, { exits: [pod] })).toMatchObject({ do: "wait" });
    expect(plan(aLease({ crashes }), 5n, YES, { exits: [{ ...pod, exits: 4, lastNs: 90n }] })).toMatchObject({
      do: "give-up",
      message: "exited 4 times, last with exit code 1 (Error)",
    });
    expect(plan(aLease({ crashes }), END + 1n, YES, { exits: [{ ...pod, exits: 4 }] })).toEqual(expire);
  });

  it("that is PROVISIONING is gone on with, and after a failure later, at its end at the latest", () => {
    expect(plan(aLease({ phase: "PROVISIONING" }), 5n)).toMatchObject({ do: "provision" });
    const failed = aLease({ phase: "PROVISIONING", notBeforeNs: 10n, trouble: "boom" });
    expect(plan(failed, 10n)).toEqual({ do: "wait", untilNs: 10n, because: "boom" });
    expect(plan(failed, 11n)).toMatchObject({ do: "provision" });
    expect(plan({ ...failed, notBeforeNs: END + 5n }, 10n)).toMatchObject({ untilNs: END });
  });

  it("that is DECOMMISSIONING is taken down, and after a failure later", () => {
    const ending = { cause: "EXPIRED", message: "", atNs: 1n, request: undefined } as const;
    const record = aLease({ phase: "DECOMMISSIONING", ending });
    expect(plan(record, 5n)).toEqual({ do: "decommission", because: "EXPIRED" });
    const failed = { ...record, notBeforeNs: END + 5n, trouble: "boom" };
    expect(plan(failed, END + 5n)).toEqual({ do: "wait", untilNs: END + 5n, because: "boom" });
  });

  it("that others need is not taken down, however long it is over", () => {
    const used: Release = { release: "later", lease: "1-3", because: "it is in use by 1-3" };
    const record = aLease({ phase: "DECOMMISSIONING" });
    expect(plan(record, END + 5n, YES, { release: used })).toEqual({
      do: "wait",
      untilNs: undefined,
      because: used.because,
    });
    expect(plan(aLease(), END + 1n, YES, { release: used })).toEqual(expire);
  });

  it.each(phases("ENDED", "FAILED"))(
    "that is %s is remembered as long as its order would run, and a while longer",
    (phase) => {
      const record = aLease({ phase, endedAtNs: 10n });
      expect(plan(record, END + TOMBSTONE)).toMatchObject({ do: "wait", untilNs: END + TOMBSTONE });
      expect(plan(record, END + TOMBSTONE + 1n)).toMatchObject({ do: "remove" });
      const late = { ...record, endedAtNs: END + 70n };
      expect(plan(late, END + 70n + TOMBSTONE)).toMatchObject({ do: "wait" });
      const unpublished = withEvent(late, "DECOMMISSIONED", "", 1n);
      expect(plan(unpublished, END + 71n + TOMBSTONE)).toMatchObject({ do: "wait", untilNs: undefined });
    },
  );
});

it("plans nothing before the time until which it waits", () => {
  const phase = fc.constantFrom<Phase>("ORDERED", "PROVISIONING", "ACTIVE", "DECOMMISSIONING", "ENDED", "FAILED");
  const ns = fc.bigInt({ min: 0n, max: 3n * END });
  const later: Admission = { admit: "later", because: "x" };
  fc.assert(
    fc.property(phase, ns, ns, ns, (inPhase, nowNs, notBeforeNs, endedAtNs) => {
      const record = aLease({ phase: inPhase, notBeforeNs, endedAtNs });
      const waiting = plan(record, nowNs, later);
      if (waiting.do !== "wait" || waiting.untilNs === undefined) return;
      expect(waiting.untilNs).toBeGreaterThanOrEqual(nowNs);
      expect(plan(record, waiting.untilNs, later)).toEqual(waiting);
      expect(plan(record, waiting.untilNs + 1n, later)).not.toEqual(waiting);
    }),
  );
});

it("doubles the pause after each failure, up to the longest", () => {
  const policy = { firstMs: 500, mostMs: 30_000 };
  const pauses = [1, 2, 3, 7, 1000].map((failures) => (decideRetry(failures, 5n, policy) - 5n) / 1_000_000n);
  expect(pauses).toEqual([500n, 1000n, 2000n, 30_000n, 30_000n]);
});
