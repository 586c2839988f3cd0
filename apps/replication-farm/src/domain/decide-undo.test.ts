import { describe, expect, it } from "vitest";
import { aRoll } from "../../test/a-set.ts";
import { decideUndo } from "./decide-undo.ts";
import { minimumOf, type Roll } from "./roll.ts";

function undone(roll: Partial<Roll>): Roll {
  const verdict = decideUndo(aRoll(roll));
  if (verdict.kind === "refused") throw new Error(verdict.because);
  return verdict.next;
}

describe("an update that is undone", () => {
  it.each<[string, Partial<Roll>, Partial<Roll>]>([
    ["to fewer", { target: 3, undoTarget: 5, oldDesired: 4, newDesired: 1 }, { target: 5, undoTarget: 3 }],
    ["to more", { target: 5, undoTarget: 3, oldDesired: 1, newDesired: 4 }, { target: 3, undoTarget: 5 }],
    [
      "of a canary",
      { target: 1, undoTarget: 3, oldDesired: 2, newDesired: 1, leaveOld: true },
      { target: 3, undoTarget: 3, leaveOld: false },
    ],
    [
      "that went on from a canary",
      { target: 3, undoTarget: 3, newBefore: 1, oldDesired: 1, newDesired: 2 },
      { target: 2, undoTarget: 3, leaveOld: true },
    ],
  ])("%s goes back to as many as there were", (_case, roll, expected) => {
    const before = aRoll(roll);
    expect(undone(roll)).toMatchObject({
      ...expected,
      oldSet: "web-2",
      newSet: "web",
      oldDesired: before.newDesired,
      newDesired: before.oldDesired,
      undone: 1,
    });
  });

  it("and done again is what it was, with the minimum that was asked for, which counts as far as there were so many", () => {
    for (const roll of [
      aRoll({ target: 5, undoTarget: 3, minimum: 4, oldDesired: 3, newDesired: 2 }),
      aRoll({ target: 3, undoTarget: 3, newBefore: 1, minimum: 1, oldDesired: 1, newDesired: 2 }),
    ]) {
      const back = undone(roll);
      expect(minimumOf(back)).toBe(Math.min(roll.minimum, 3));
      expect(undone(back)).toEqual({ ...roll, undone: 2 });
      expect(undone(undone(back))).toEqual({ ...back, undone: 3 });
    }
  });

  it("is refused when nothing could be moved", () => {
    const stuck = aRoll({ target: 3, undoTarget: 2, minimum: 3, oldDesired: 1, newDesired: 1 });
    expect(decideUndo(stuck)).toMatchObject({ kind: "refused" });
  });
});
