import fc from "fast-check";
import { expect, it } from "vitest";
import {
  decideSweepBrake,
  describeBrake,
  MAX_LEFT_AT_ANY_SHARE,
  listForeign,
  planSweep,
  type OwnedObject,
  type OwnerStanding,
} from "./plan-sweep.ts";

const LEFT: OwnerStanding = { kind: "left", because: "no owner" };
const planned = (kind: OwnerStanding["kind"], since: number | undefined, graceMs: number | undefined) =>
  planSweep([{ uid: "u-1" }], () => ({ kind, because: "" }), {
    leftSince: new Map(since === undefined ? [] : [["u-1", since]]),
    nowMs: 1000,
    graceMs,
  })[0]?.kind;

it.each<[string, OwnerStanding["kind"], number | undefined, number | undefined, string]>([
  ["an object of an existing owner is kept", "owned", 0, 600, "keep"],
  ["a leftover is suspected at the first sweep", "left", undefined, 600, "suspect"],
  ["also with a grace period of 0", "left", undefined, 0, "suspect"],
  ["a leftover is removed at the second sweep", "left", 1000, 0, "remove"],
  ["but not within the grace period", "left", 401, 600, "suspect"],
  ["but then", "left", 400, 600, "remove"],
  ["a leftover without a grace period is removed at the first sweep", "left", undefined, undefined, "remove"],
  ["a leftover waits for an object that must be removed first", "blocked", 0, 600, "suspect"],
  ["also without a grace period", "blocked", undefined, undefined, "suspect"],
])("%s", (_title, is, since, graceMs, step) => {
  expect(planned(is, since, graceMs)).toBe(step);
});

const objects = fc.uniqueArray(
  fc.record({
    uid: fc.constantFrom("a", "b", "c", "d"),
    otherInstallation: fc.option(fc.constantFrom("muster-2", "muster-3"), { nil: undefined }),
    kind: fc.constantFrom<OwnerStanding["kind"]>("owned", "blocked", "left"),
    sinceMs: fc.option(fc.nat({ max: 1000 }), { nil: undefined }),
  }),
  { selector: ({ uid }) => uid },
);

it("never removes objects of other installations or of existing owners, and removes none within the grace period", () => {
  fc.assert(
    fc.property(objects, fc.option(fc.nat({ max: 1000 }), { nil: undefined }), (found, graceMs) => {
      const leftSince = new Map(
        found.flatMap(({ uid, sinceMs }) => (sinceMs === undefined ? [] : [[uid, sinceMs] as const])),
      );
      const standingOf = ({ kind }: (typeof found)[number]): OwnerStanding => ({ kind, because: "" });
      const steps = planSweep(found, standingOf, { leftSince, nowMs: 1000, graceMs });
      expect(steps.map(({ object }) => object)).toEqual(found);
      for (const { kind: what, object } of steps) {
        if (object.kind === "owned" || object.otherInstallation !== undefined) expect(what).toBe("keep");
        if (what !== "remove") continue;
        expect(object.kind).toBe("left");
        if (graceMs !== undefined) expect(1000 - (object.sinceMs ?? Infinity)).toBeGreaterThanOrEqual(graceMs);
      }
      const foreign = found.filter(
        ({ kind, otherInstallation }) => kind !== "owned" && otherInstallation !== undefined,
      );
      expect(listForeign(found, standingOf)).toEqual(foreign.map(({ otherInstallation }) => otherInstallation));
    }),
  );
});

it("reports the installation of an object that it keeps", () => {
  const theirs: OwnedObject = { uid: "u-1", otherInstallation: "muster-2" };
  const memory = { leftSince: new Map([["u-1", 0]]), nowMs: 1000, graceMs: 0 };
  expect(planSweep([theirs], () => LEFT, memory)[0]?.because).toBe("it is of installation muster-2");
});

const COUNTS = { left: 1, olderThanStore: 0, found: 100, owners: 3, owner: "lease", confirmed: 0 };

it.each<[string, Partial<typeof COUNTS>, string | undefined]>([
  ["permits a few leftovers", { left: MAX_LEFT_AT_ANY_SHARE, found: MAX_LEFT_AT_ANY_SHARE }, undefined],
  ["permits half of many objects", { left: 20, found: 40 }, undefined],
  ["holds more than half of many objects", { left: 21, found: 40 }, "more than 50 %"],
  ["holds more than the maximum, whatever the total is", { left: 51, found: 500 }, "more than 50"],
  ["holds every removal while no owner is stored", { owners: 0 }, "no record of any lease"],
  ["holds objects older than the store of their owners", { olderThanStore: 1 }, "older than the bucket"],
  ["holds nothing without leftovers", { left: 0, owners: 0 }, undefined],
  ["permits the number that a user has confirmed", { left: 51, owners: 0, confirmed: 51 }, undefined],
  ["holds more than the confirmed number", { left: 52, confirmed: 51 }, "more than 50"],
])("the brake: %s", (_title, counts, because) => {
  const brake = decideSweepBrake({ ...COUNTS, ...counts }, { maxObjects: 50, maxPercent: 50 });
  if (because === undefined) expect(brake).toBeUndefined();
  else expect(brake && describeBrake(brake)).toContain(because);
});
