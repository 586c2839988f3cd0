import { expect, it } from "vitest";
import { aLease } from "./a-lease.ts";
import type { LeaseRecord } from "./lease.ts";
import { planCleanup, useKey, type CleanupSnapshot, type FoundObject, type LeaseTruth } from "./plan-cleanup.ts";

const POLICY = { engine: "main", graceMs: 600 };
const object = (changes: Partial<FoundObject> = {}): FoundObject => ({
  kind: "PersistentVolumeClaim",
  namespace: "muster-n",
  name: "lease-1-1",
  uid: "u-1",
  lease: { id: "1-1", run: 2 },
  isGoing: false,
  ...changes,
});
const lease = (changes: Partial<LeaseRecord> = {}): LeaseTruth => ({
  is: "record",
  record: aLease({ run: 2, ...changes }),
});
const NONE: LeaseTruth = { is: "none" };
const snapshot = (changes: Partial<CleanupSnapshot> = {}): CleanupSnapshot => ({
  objects: [object()],
  unlisted: [],
  truth: new Map([["1-1", NONE]]),
  inUse: new Set(),
  leftSince: new Map([["u-1", 400]]),
  nowMs: 1000,
  ...changes,
});
const plan = (changes: Partial<CleanupSnapshot>) => planCleanup(snapshot(changes), POLICY).map((step) => step.do);
const ofTruth = (truth: LeaseTruth): Partial<CleanupSnapshot> => ({ truth: new Map([["1-1", truth]]) });
const mounted = new Set([useKey("PersistentVolumeClaim", "muster-n", "lease-1-1")]);

it.each<[string, Partial<CleanupSnapshot>, string]>([
  ["what has no record goes", {}, "remove"],
  ["but not at the first look", { leftSince: new Map() }, "suspect"],
  ["nor soon after it", { leftSince: new Map([["u-1", 401]]) }, "suspect"],
  ["nor because another object of its name looked so", { leftSince: new Map([["u-0", 0]]) }, "suspect"],
  ["what belongs to a lease that has ended goes", ofTruth(lease({ phase: "ENDED" })), "remove"],
  ["and to one that failed", ofTruth(lease({ phase: "FAILED" })), "remove"],
  ["and what an earlier run has left of one that is there", ofTruth(lease({ run: 3 })), "remove"],
  ["what is there for a lease stays", ofTruth(lease()), "keep"],
  ["and what is being made for one", ofTruth(lease({ phase: "PROVISIONING" })), "keep"],
  ["and what one may be made of", ofTruth(lease({ phase: "ORDERED", run: 3 })), "keep"],
  ["and what is being taken down: that is retried", ofTruth(lease({ phase: "DECOMMISSIONING" })), "keep"],
  ["what a run has made that the record does not know yet stays", ofTruth(lease({ phase: "ENDED", run: 1 })), "keep"],
  [
    "what another engine serves stays",
    ofTruth(lease({ phase: "ENDED", order: aLease({ order: { engine: "west" } }).order })),
    "keep",
  ],
  ["on a record that cannot be read it stays", ofTruth({ is: "unknown", because: "?" }), "keep"],
  ["and on one that nobody looked at", { truth: new Map() }, "keep"],
  ["what is mounted stays", { inUse: mounted }, "keep"],
  ["and where nobody knows what is mounted", { inUse: undefined }, "keep"],
  ["what only says that it is Muster's stays", { objects: [object({ lease: undefined })] }, "keep"],
  ["what goes already is left alone", { objects: [object({ isGoing: true })] }, "keep"],
  ["a secret cannot be mounted alone", { objects: [object({ kind: "Secret" })], inUse: undefined }, "remove"],
])("%s", (_title, changes, step) => {
  expect(plan(changes)).toEqual([step]);
});

it("keeps a namespace while anything of a lease stays in it, or a pod runs there", () => {
  const namespace = object({ kind: "Namespace", namespace: "", name: "muster-n", uid: "u-2" });
  const leftSince = new Map([
    ["u-1", 0],
    ["u-2", 0],
  ]);
  const objects = [namespace, object()];
  expect(plan({ objects, leftSince })).toEqual(["remove", "remove"]);
  expect(plan({ objects, leftSince, inUse: mounted })).toEqual(["suspect", "keep"]);
  expect(plan({ objects, leftSince: new Map([["u-2", 0]]) })).toEqual(["suspect", "suspect"]);
  expect(plan({ objects: [namespace], leftSince, inUse: new Set([useKey("Namespace", "", "muster-n")]) })).toEqual([
    "keep",
  ]);
  const unlisted = ["PersistentVolumeClaim"];
  expect(plan({ objects: [namespace], leftSince, unlisted })).toEqual(["keep"]);
  expect(plan({ unlisted })).toEqual(["remove"]);
});
