import fc from "fast-check";
import { expect, it } from "vitest";
import {
  decideSweepBrake,
  describeBrake,
  MAX_UNLIMITED_LEFTOVERS,
  listForeign,
  planSweep,
  type OwnedObject,
  type Standing,
} from "./plan-sweep.ts";

const LEFT: Standing = { kind: "left", because: "no owner" };
const planned = (kind: Standing["kind"], since: number | undefined, graceMs: number | undefined) =>
  planSweep([{ uid: "u-1" }], () => ({ kind, because: "" }), {
    leftSince: new Map(since === undefined ? [] : [["u-1", since]]),
    nowMs: 1000,
    graceMs,
  })[0]?.kind;

it.each<[string, Standing["kind"], number | undefined, number | undefined, string]>([
  ["an object of an owner that exists stays", "owned", 0, 600, "keep"],
  ["one that is left over is suspected at the first sweep", "left", undefined, 600, "suspect"],
  ["also where the grace is nothing", "left", undefined, 0, "suspect"],
  ["and removed at the second", "left", 1000, 0, "remove"],
  ["not before the grace is over", "left", 401, 600, "suspect"],
  ["but then", "left", 400, 600, "remove"],
  ["one without a grace goes at the first sweep", "left", undefined, undefined, "remove"],
  ["one that something else has to go before waits", "blocked", 0, 600, "suspect"],
  ["also without a grace", "blocked", undefined, undefined, "suspect"],
])("%s", (_title, is, since, graceMs, step) => {
  expect(planned(is, since, graceMs)).toBe(step);
});

const objects = fc.uniqueArray(
  fc.record({
    uid: fc.constantFrom("a", "b", "c", "d"),
    otherInstallation: fc.option(fc.constantFrom("muster-2", "muster-3"), { nil: undefined }),
    kind: fc.constantFrom<Standing["kind"]>("owned", "blocked", "left"),
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
      const standingOf = ({ kind }: (typeof found)[number]): Standing => ({ kind, because: "" });
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

it("reports the installation of an object that it leaves alone", () => {
  const theirs: OwnedObject = { uid: "u-1", otherInstallation: "muster-2" };
  const memory = { leftSince: new Map([["u-1", 0]]), nowMs: 1000, graceMs: 0 };
  expect(planSweep([theirs], () => LEFT, memory)[0]?.because).toBe("it is of installation muster-2");
});

const COUNTS = { left: 1, olderThanStore: 0, found: 100, owners: 3, owner: "lease", confirmed: 0 };

it.each<[string, Partial<typeof COUNTS>, string | undefined]>([
  ["a few may go", { left: MAX_UNLIMITED_LEFTOVERS, found: MAX_UNLIMITED_LEFTOVERS }, undefined],
  ["and half of many", { left: 20, found: 40 }, undefined],
  ["not more than half of many", { left: 21, found: 40 }, "more than 50 %"],
  ["nor more than so many, however many there are", { left: 51, found: 500 }, "more than 50"],
  ["nor anything while no owner is stored", { owners: 0 }, "no record of any lease"],
  ["nor what is older than the store of its owner", { olderThanStore: 1 }, "older than the bucket"],
  ["nothing is held up where nothing is left over", { left: 0, owners: 0 }, undefined],
  ["what a user has confirmed goes", { left: 51, owners: 0, confirmed: 51 }, undefined],
  ["and no more than that", { left: 52, confirmed: 51 }, "more than 50"],
])("the brake: %s", (_title, counts, because) => {
  const brake = decideSweepBrake({ ...COUNTS, ...counts }, { maxObjects: 50, maxPercent: 50 });
  if (because === undefined) expect(brake).toBeUndefined();
  else expect(brake && describeBrake(brake)).toContain(because);
});
