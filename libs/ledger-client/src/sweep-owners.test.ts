import { FaultError } from "@muster/faults";
import { expect, it } from "vitest";
import type { SweepBrake, OwnedObject, OwnerStanding, SweepStep } from "./plan-sweep.ts";
import { logNotRemoved, sweepOwners, type SweepFailure, type SweepOptions } from "./sweep-owners.ts";

type Found = OwnedObject & { readonly kind: string };
const found = (uid: string, kind = "pod"): Found => ({ uid, kind });

/** Objects whose owners no longer exist, a clock that only the test moves, and sweeps one after the other. */
function sweeping(objects: readonly Found[], changes: Partial<SweepOptions<Found>> = {}) {
  const removed: string[] = [];
  const reported: string[] = [];
  const owned = new Set<string>();
  const clock = { nowMs: 0 };
  const leftSince = new Map<string, number>();
  const standingOf = ({ uid }: Found): OwnerStanding => ({
    kind: owned.has(uid) ? "owned" : "left",
    because: "no owner",
  });
  const options: SweepOptions<Found> = {
    observe: () => Promise.resolve({ objects: objects.filter(({ uid }) => !removed.includes(uid)), standingOf }),
    leftSince,
    graceMs: 1000,
    nowMs: () => clock.nowMs,
    kindOf: ({ kind }) => kind,
    remove: (step) => {
      removed.push(step.object.uid);
      return Promise.resolve(step);
    },
    report: {
      step: ({ kind, object }, isDryRun) => reported.push(`${kind} ${object.uid}${isDryRun ? " dry" : ""}`),
      leftAlone: (installations) => reported.push(`left alone ${installations.length}`),
    },
    ...changes,
  };
  const sweep = async (more: Partial<SweepOptions<Found>> = {}): Promise<readonly string[]> => {
    const { steps } = await sweepOwners({ ...options, ...more });
    clock.nowMs += 1000;
    return steps.map((step) => step.kind);
  };
  return { sweep, removed, reported, owned, leftSince };
}

it("removes objects that were left over in two sweeps, and restarts the wait for objects that were owned in between", async () => {
  const { sweep, removed, owned } = sweeping([found("a"), found("b")]);
  expect(await sweep()).toEqual(["suspect", "suspect"]);
  owned.add("b");
  expect(await sweep()).toEqual(["remove", "keep"]);
  owned.delete("b");
  expect(await sweep()).toEqual(["suspect"]);
  expect(removed).toEqual(["a"]);
});

it("begins again once its memory is cleared", async () => {
  const { sweep, leftSince, removed } = sweeping([found("a")]);
  await sweep();
  leftSince.clear();
  expect(await sweep()).toEqual(["suspect"]);
  expect(removed).toEqual([]);
});

it("removes only harmless objects while the brake holds", async () => {
  const brake: SweepBrake = { left: 2, because: { code: "no-owner-stored", owner: "lease" } };
  const { sweep, removed, reported } = sweeping([found("a"), found("b", "reservation")], {
    brake: () => brake,
    isHarmless: ({ object }: SweepStep<Found>) => object.kind === "reservation",
  });
  await sweep();
  expect(await sweep()).toEqual(["suspect", "remove"]);
  expect(removed).toEqual(["b"]);
  expect(reported.slice(-3)).toEqual(["left alone 0", "suspect a", "remove b"]);
});

it("only reports in a dry run, which counts as a sweep", async () => {
  const { sweep, removed, reported } = sweeping([found("a")]);
  await sweep({ isDryRun: true });
  expect(await sweep({ isDryRun: true })).toEqual(["remove"]);
  expect(removed).toEqual([]);
  expect(reported.at(-1)).toBe("remove a dry");
  await sweep();
  expect(removed).toEqual(["a"]);
});

it("removes one kind after the other, and tries all kinds before it rejects", async () => {
  const objects = [found("a"), found("ns", "namespace"), found("b")];
  const { sweep, removed } = sweeping(objects, { graceMs: undefined });
  await sweep();
  expect(removed).toEqual(["a", "b", "ns"]);
  const failing = sweeping(objects, { graceMs: undefined });
  const failure = new Error("no answer");
  const remove: SweepOptions<Found>["remove"] = (step) => {
    failing.removed.push(step.object.uid);
    return step.object.uid === "a" ? Promise.reject(failure) : Promise.resolve(step);
  };
  await expect(failing.sweep({ remove })).rejects.toBe(failure);
  expect(failing.removed).toEqual(["a", "b", "ns"]);
});

it("reports every removal that failed, ten of them by their object, and rejects with a defect before a fault", async () => {
  const objects = Array.from({ length: 13 }, (_, at) => found(`${at}`));
  const defect = new TypeError("no such field");
  const failures: [readonly SweepFailure<Found>[], number][] = [];
  const { sweep } = sweeping(objects, {
    graceMs: undefined,
    report: { notRemoved: (...failed) => failures.push(failed) },
    remove: ({ object: { uid } }) => {
      if (uid === "5") return Promise.reject(defect);
      return Promise.reject(new FaultError({ code: "unavailable", dependency: `pod ${uid}`, retryAfterMs: 1 }));
    },
  });
  await expect(sweep()).rejects.toBe(defect);
  expect(failures).toHaveLength(1);
  const [[first, more] = [[], 0]] = failures;
  expect(first.map(({ object }) => object.uid)).toEqual(objects.slice(0, 10).map(({ uid }) => uid));
  expect(first[0]?.error).toMatchObject({ fault: { dependency: "pod 0" } });
  expect(more).toBe(3);
  const lines: unknown[] = [];
  logNotRemoved<Found>({ warn: (...line) => lines.push(line) }, "pods")(first, more);
  expect(lines).toHaveLength(11);
  expect(lines[0]).toMatchObject([
    { what: "pods", uid: "0", err: { fault: { dependency: "pod 0" } } },
    expect.any(String),
  ]);
  expect(lines[10]).toEqual([{ what: "pods", more: 3 }, "more leftovers could not be removed"]);
});

it("reports the actual result of a removal, and objects of other installations", async () => {
  const theirs = { ...found("b"), otherInstallation: "muster-2" };
  const { sweep, reported } = sweeping([found("a"), theirs], {
    graceMs: undefined,
    remove: (step) => Promise.resolve({ ...step, kind: "suspect" }),
  });
  expect(await sweep()).toEqual(["suspect", "keep"]);
  expect(reported).toEqual(["left alone 1", "suspect a"]);
});
