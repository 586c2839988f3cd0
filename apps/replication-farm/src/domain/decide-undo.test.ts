import { describe, expect, it } from "vitest";
import { makeRollout } from "../../test/a-set.ts";
import { decideUndo } from "./decide-undo.ts";
import { computeMinimum, type Rollout } from "./rollout.ts";

function undone(rollout: Partial<Rollout>): Rollout {
  const verdict = decideUndo(makeRollout(rollout));
  if (verdict.kind === "refused") throw new Error(verdict.because);
  return verdict.next;
}

describe("an update that is undone", () => {
  it.each<[string, Partial<Rollout>, Partial<Rollout>]>([
    ["to fewer", { target: 3, undoTarget: 5, oldDesired: 4, newDesired: 1 }, { target: 5, undoTarget: 3 }],
    ["to more", { target: 5, undoTarget: 3, oldDesired: 1, newDesired: 4 }, { target: 3, undoTarget: 5 }],
    [
      "of a canary",
      { target: 1, undoTarget: 3, oldDesired: 2, newDesired: 1, leaveOld: true },
      { target: 3, undoTarget: 3, leaveOld: false },
    ],
    [
      "that continued a canary",
      { target: 3, undoTarget: 3, newBefore: 1, oldDesired: 1, newDesired: 2 },
      { target: 2, undoTarget: 3, leaveOld: true },
    ],
  ])("%s returns to the initial number", (_case, rollout, expected) => {
    const before = makeRollout(rollout);
    expect(undone(rollout)).toMatchObject({
      ...expected,
      oldSet: "web-2",
      newSet: "web",
      oldDesired: before.newDesired,
      newDesired: before.oldDesired,
      undone: 1,
    });
  });

  it("and repeated restores the original update, with the requested minimum, limited to the initial number", () => {
    for (const rollout of [
      makeRollout({ target: 5, undoTarget: 3, minimum: 4, oldDesired: 3, newDesired: 2 }),
      makeRollout({ target: 3, undoTarget: 3, newBefore: 1, minimum: 1, oldDesired: 1, newDesired: 2 }),
    ]) {
      const back = undone(rollout);
      expect(computeMinimum(back)).toBe(Math.min(rollout.minimum, 3));
      expect(undone(back)).toEqual({ ...rollout, undone: 2 });
      expect(undone(undone(back))).toEqual({ ...back, undone: 3 });
    }
  });

  it("is refused if no replica could move", () => {
    const stuck = makeRollout({ target: 3, undoTarget: 2, minimum: 3, oldDesired: 1, newDesired: 1 });
    expect(decideUndo(stuck)).toMatchObject({ kind: "refused" });
  });
});
