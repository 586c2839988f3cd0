import fc from "fast-check";
import { expect, it } from "vitest";
import { describeBrake, MAX_LEFT_AT_ANY_SHARE } from "@muster/ledger-client/plan-sweep";
import { makeLeaseRecord } from "../../test/a-lease.ts";
import type { LeaseRecord } from "./lease.ts";
import {
  planCleanup,
  buildUseKey,
  type CleanupSnapshot,
  type FoundObject,
  type LeaseTruth,
  decideCleanupBrake,
  type RecordCount,
  type CleanupStep,
} from "./plan-cleanup.ts";

const POLICY = { engine: "main", graceMs: 600 };
const object = (changes: Partial<FoundObject> = {}): FoundObject => ({
  kind: "PersistentVolumeClaim",
  namespace: "muster-n",
  name: "lease-1-1",
  uid: "u-1",
  createdMs: undefined,
  lease: { id: "1-1", run: 2 },
  otherInstallation: undefined,
  isTerminating: false,
  ...changes,
});
const lease = (changes: Partial<LeaseRecord> = {}): LeaseTruth => ({
  kind: "record",
  record: makeLeaseRecord({ run: 2, ...changes }),
});
const NONE: LeaseTruth = { kind: "none" };
const snapshot = (changes: Partial<CleanupSnapshot> = {}): CleanupSnapshot => ({
  objects: [object()],
  unlisted: [],
  truth: new Map([["1-1", NONE]]),
  inUse: new Set(),
  leftSince: new Map([["u-1", 400]]),
  nowMs: 1000,
  ...changes,
});
const plan = (changes: Partial<CleanupSnapshot>) => planCleanup(snapshot(changes), POLICY).map((step) => step.kind);
const ofTruth = (truth: LeaseTruth): Partial<CleanupSnapshot> => ({ truth: new Map([["1-1", truth]]) });
const mounted = new Set([buildUseKey("PersistentVolumeClaim", "muster-n", "lease-1-1")]);

it.each<[string, Partial<CleanupSnapshot>, string]>([
  ["an object without a record is removed", {}, "remove"],
  ["an object of another installation is kept", { objects: [object({ otherInstallation: "muster-2" })] }, "keep"],
  [
    "and is kept even if a lease of that id has ended here",
    { ...ofTruth(lease({ phase: "ENDED" })), objects: [object({ otherInstallation: "muster-2" })] },
    "keep",
  ],
  ["an object without a record is suspected in the first sweep", { leftSince: new Map() }, "suspect"],
  ["and in a second one within the grace period", { leftSince: new Map([["u-1", 401]]) }, "suspect"],
  ["and after a sweep that suspected another object of its name", { leftSince: new Map([["u-0", 0]]) }, "suspect"],
  ["an object of an ended lease is removed", ofTruth(lease({ phase: "ENDED" })), "remove"],
  ["an object of a failed lease is removed", ofTruth(lease({ phase: "FAILED" })), "remove"],
  ["an object of an earlier run of an active lease is removed", ofTruth(lease({ run: 3 })), "remove"],
  [
    "an object that another lease has taken over is kept",
    ofTruth(lease({ run: 7, madeFor: { id: "1-1", run: 2 } })),
    "keep",
  ],
  [
    "an object that another lease is taking over is kept",
    ofTruth(lease({ run: 1, takesOver: "1-1", phase: "DECOMMISSIONING" })),
    "keep",
  ],
  [
    "an object of an ended lease that took it over is removed",
    ofTruth(lease({ phase: "ENDED", run: 7, madeFor: { id: "1-1", run: 2 } })),
    "remove",
  ],
  [
    "an object that a lease had before its take-over is removed",
    ofTruth(lease({ run: 7, madeFor: { id: "0-1", run: 9 } })),
    "remove",
  ],
  ["an object of an active lease is kept", ofTruth(lease()), "keep"],
  ["an object of a lease in PROVISIONING is kept", ofTruth(lease({ phase: "PROVISIONING" })), "keep"],
  ["an object of an ordered lease is kept", ofTruth(lease({ phase: "ORDERED", run: 3 })), "keep"],
  [
    "an object of a lease in DECOMMISSIONING is kept, because its removal is retried",
    ofTruth(lease({ phase: "DECOMMISSIONING" })),
    "keep",
  ],
  ["an object of a later run than that of the record is kept", ofTruth(lease({ phase: "ENDED", run: 1 })), "keep"],
  [
    "an object of a lease of another engine is kept",
    ofTruth(lease({ phase: "ENDED", order: makeLeaseRecord({ order: { engine: "west" } }).order })),
    "keep",
  ],
  ["an object with an unreadable record is kept", ofTruth({ kind: "unknown", because: "?" }), "keep"],
  ["an object with a record that was not read is kept", { truth: new Map() }, "keep"],
  ["a mounted claim is kept", { inUse: mounted }, "keep"],
  ["a claim is kept while the mounted claims are unknown", { inUse: undefined }, "keep"],
  ["an object with a label of Muster but no lease is kept", { objects: [object({ lease: undefined })] }, "keep"],
  ["an object that is being deleted is kept", { objects: [object({ isTerminating: true })] }, "keep"],
  ["a secret cannot be mounted alone", { objects: [object({ kind: "Secret" })], inUse: undefined }, "remove"],
])("%s", (_title, changes, step) => {
  expect(plan(changes)).toEqual([step]);
});

it("keeps a namespace while it contains an object of a lease, or a running pod", () => {
  const namespace = object({ kind: "Namespace", namespace: "", name: "muster-n", uid: "u-2" });
  const leftSince = new Map([
    ["u-1", 0],
    ["u-2", 0],
  ]);
  const objects = [namespace, object()];
  expect(plan({ objects, leftSince })).toEqual(["remove", "remove"]);
  expect(plan({ objects, leftSince, inUse: mounted })).toEqual(["suspect", "keep"]);
  expect(plan({ objects, leftSince: new Map([["u-2", 0]]) })).toEqual(["suspect", "suspect"]);
  expect(plan({ objects: [namespace], leftSince, inUse: new Set([buildUseKey("Namespace", "", "muster-n")]) })).toEqual(
    ["keep"],
  );
  const unlisted = ["PersistentVolumeClaim"];
  expect(plan({ objects: [namespace], leftSince, unlisted })).toEqual(["keep"]);
  expect(plan({ unlisted })).toEqual(["remove"]);
  expect(plan({ objects: [namespace], leftSince, unlisted: ["Reservation"] })).toEqual(["remove"]);
});

const arbitraryTruth: fc.Arbitrary<LeaseTruth | undefined> = fc.oneof(
  fc.constantFrom<LeaseTruth | undefined>(NONE, undefined, { kind: "unknown", because: "?" }),
  fc
    .record({
      phase: fc.constantFrom<LeaseRecord["phase"]>(
        "ORDERED",
        "PROVISIONING",
        "ACTIVE",
        "DECOMMISSIONING",
        "ENDED",
        "FAILED",
      ),
      run: fc.integer({ min: 1, max: 3 }),
    })
    .map(lease),
);
const arbitrarySnapshot = fc
  .record({
    kinds: fc.array(fc.constantFrom("Secret", "PersistentVolumeClaim", "Namespace", "Reservation"), { maxLength: 6 }),
    runs: fc.array(fc.integer({ min: 1, max: 3 }), { minLength: 6, maxLength: 6 }),
    sinceMs: fc.array(fc.option(fc.integer({ min: 0, max: 1000 })), { minLength: 6, maxLength: 6 }),
    truths: fc.array(arbitraryTruth, { minLength: 6, maxLength: 6 }),
    unlisted: fc.subarray(["Secret", "Reservation"]),
    isUsed: fc.option(fc.boolean()),
  })
  .map(({ kinds, runs, sinceMs, truths, unlisted, isUsed }) => {
    const objects = kinds.map((kind, at) =>
      object({
        kind,
        uid: `u-${at}`,
        name: kind === "Namespace" ? "muster-n" : `lease-1-${at}`,
        namespace: kind === "Namespace" || kind === "Reservation" ? "" : "muster-n",
        lease: { id: `1-${at}`, run: runs[at] ?? 1 },
      }),
    );
    const keys = objects.map(({ kind, namespace, name }) => buildUseKey(kind, namespace, name));
    return snapshot({
      objects,
      unlisted,
      truth: new Map(truths.flatMap((truth, at) => (truth === undefined ? [] : [[`1-${at}`, truth] as const]))),
      inUse: isUsed === null ? undefined : new Set(isUsed ? keys : []),
      leftSince: new Map(sinceMs.flatMap((ms, at) => (ms === null ? [] : [[`u-${at}`, ms] as const]))),
    });
  });

it("plans one step for each object in any order, and removes only undoubted, unused ones after the grace period", () => {
  fc.assert(
    fc.property(arbitrarySnapshot, (world) => {
      const steps = planCleanup(world, POLICY);
      expect(steps.map((step) => step.object)).toEqual(world.objects);
      const backwards = planCleanup({ ...world, objects: world.objects.toReversed() }, POLICY);
      expect(backwards.toReversed()).toEqual(steps);
      for (const { kind: what, object: found } of steps) {
        if (what !== "remove") continue;
        const truth = world.truth.get(found.lease?.id ?? "");
        expect(truth?.kind === "none" || truth?.kind === "record").toBe(true);
        if (truth?.kind === "record") expect(["ACTIVE", "ENDED", "FAILED"]).toContain(truth.record.phase);
        expect(world.nowMs - (world.leftSince.get(found.uid) ?? Infinity)).toBeGreaterThanOrEqual(POLICY.graceMs);
        if (found.kind === "Namespace") {
          expect(world.unlisted).not.toContain("Secret");
          const inside = steps.filter((step) => step.object.namespace === found.name);
          expect(inside.every((step) => step.kind === "remove")).toBe(true);
        }
        if (found.kind === "Namespace" || found.kind === "PersistentVolumeClaim") expect(world.inUse?.size).toBe(0);
      }
    }),
  );
});

const BRAKE_POLICY = { maxObjects: 50, maxPercent: 50 };
const CENSUS: RecordCount = { records: 3, bucketCreatedMs: 1_000_000 };
const steps = (keep: number, left: number, createdMs = 2_000_000): CleanupStep[] =>
  Array.from({ length: keep + left }, (_, at) => ({
    kind: at < keep ? "keep" : at % 2 === 0 ? "suspect" : "remove",
    object: {
      kind: "Secret",
      namespace: "default",
      name: `lease-1-${at}`,
      uid: `u-${at}`,
      createdMs,
      lease: { id: `1-${at}`, run: 1 },
      otherInstallation: undefined,
      isTerminating: false,
    },
    because: "",
  }));
const gone = (found: readonly CleanupStep[]) =>
  new Map<string, LeaseTruth>(found.map(({ object }) => [object.lease?.id ?? "", { kind: "none" }]));
const brake = (found: readonly CleanupStep[], census = CENSUS, confirmed = 0) =>
  decideCleanupBrake(found, { truth: gone(found) }, census, confirmed, BRAKE_POLICY);

it.each<[string, readonly CleanupStep[], RecordCount, number, string | undefined]>([
  ["a few leftovers are removed", steps(0, MAX_LEFT_AT_ANY_SHARE), CENSUS, 0, undefined],
  ["half of many objects are removed", steps(20, 20), CENSUS, 0, undefined],
  ["more than half of many objects are held up", steps(20, 21), CENSUS, 0, "more than 50 %"],
  ["more than the maximum is held up, whatever the total is", steps(500, 51), CENSUS, 0, "more than 50"],
  ["every removal is held up without any record", steps(5, 1), { ...CENSUS, records: 0 }, 0, "no record of any lease"],
  [
    "objects older than the bucket of their records are held up",
    steps(5, 1, 939_999),
    CENSUS,
    0,
    "older than the bucket",
  ],
  ["clocks may differ a little", steps(5, 1, 940_000), CENSUS, 0, undefined],
  ["nothing is held up without leftovers", steps(5, 0), { ...CENSUS, records: 0 }, 0, undefined],
  ["confirmed leftovers are removed", steps(0, 51), { ...CENSUS, records: 0 }, 51, undefined],
  ["more than the confirmed number is held up", steps(0, 52), CENSUS, 51, "more than 50"],
])("%s", (_title, found, census, confirmed, because) => {
  const verdict = brake(found, census, confirmed);
  if (because === undefined) expect(verdict).toBeUndefined();
  else expect(verdict && describeBrake(verdict)).toContain(because);
});

it("considers the age only of objects without any record", () => {
  const found = steps(5, 1, 0);
  const truth: LeaseTruth = { kind: "unknown", because: "?" };
  const known = new Map(found.map(({ object }) => [object.lease?.id ?? "", truth]));
  expect(decideCleanupBrake(found, { truth: known }, CENSUS, 0, BRAKE_POLICY)).toBeUndefined();
});

it("never removes more than is allowed or confirmed, and a removal of more never holds up less", () => {
  const counts = fc.record({
    keep: fc.nat({ max: 120 }),
    left: fc.nat({ max: 120 }),
    records: fc.nat({ max: 2 }),
    confirmed: fc.nat({ max: 120 }),
  });
  fc.assert(
    fc.property(counts, ({ keep, left, records, confirmed }) => {
      const census = { ...CENSUS, records };
      const verdict = brake(steps(keep, left), census, confirmed);
      if (verdict === undefined) expect(left).toBeLessThanOrEqual(Math.max(BRAKE_POLICY.maxObjects, confirmed));
      else {
        expect(verdict.left).toBe(left);
        expect(brake(steps(keep, left + 1), census, confirmed)).toBeDefined();
        expect(brake(steps(keep, left), census, left)).toBeUndefined();
      }
    }),
  );
});
