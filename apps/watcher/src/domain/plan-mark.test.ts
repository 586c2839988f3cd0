import { expect, it } from "vitest";
import { planMark } from "./plan-mark.ts";

const NOW = 1_000_000;

it.each([
  ["where it is missing", undefined, "absent"],
  ["not again soon", { atMs: NOW - 14_999, revision: 7 }, undefined],
  ["again when it is old, as after a restart on old data", { atMs: NOW - 15_000, revision: 7 }, "old"],
  ["again when it is from the future, by another clock", { atMs: NOW + 15_000, revision: 7 }, "old"],
] as const)("the mark is written %s", (_title, mark, because) => {
  const { step, nextMs } = planMark({ nowMs: NOW, bucketCurrent: true, mark });
  expect(step).toEqual(because && { atMs: NOW, expectedRevision: mark?.revision, because });
  expect(nextMs).toBeGreaterThan(NOW);
});

it("the mark is not written from an outdated view of the bucket, which is checked again", () => {
  for (const mark of [undefined, { atMs: 0, revision: 7 }]) {
    const { step, nextMs } = planMark({ nowMs: NOW, bucketCurrent: false, mark });
    expect(step).toBeUndefined();
    expect(nextMs).toBe(NOW + 1000);
  }
});
