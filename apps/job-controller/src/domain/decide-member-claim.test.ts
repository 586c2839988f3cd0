import { describe, expect, it } from "vitest";
import { decideMemberClaim } from "./decide-member-claim.ts";

describe("decideMemberClaim", () => {
  const OWNERS = { "another job's": "other", ours: "uid", unowned: undefined };
  const cells = [
    ["another job's", true, false, false, "ignore", "controlled-by-another"],
    ["another job's", true, true, false, "ignore", "controlled-by-another"],
    ["another job's", true, false, true, "ignore", "controlled-by-another"],
    ["another job's", true, true, true, "ignore", "controlled-by-another"],
    ["another job's", false, false, false, "ignore", "controlled-by-another"],
    ["another job's", false, true, false, "ignore", "controlled-by-another"],
    ["another job's", false, false, true, "ignore", "controlled-by-another"],
    ["another job's", false, true, true, "ignore", "controlled-by-another"],
    ["ours", true, false, false, "keep", "controlled-and-selected"],
    ["ours", true, true, false, "keep", "controlled-and-selected"],
    ["ours", true, false, true, "keep", "controlled-and-selected"],
    ["ours", true, true, true, "keep", "controlled-and-selected"],
    ["ours", false, false, false, "release", "no-longer-selected"],
    ["ours", false, true, false, "release", "no-longer-selected"],
    ["ours", false, false, true, "ignore", "no-longer-selected-by-a-job-that-is-deleted"],
    ["ours", false, true, true, "ignore", "no-longer-selected-by-a-job-that-is-deleted"],
    ["unowned", true, false, false, "adopt", "selected-orphan"],
    ["unowned", true, true, false, "ignore", "orphan-that-is-deleted"],
    ["unowned", true, false, true, "ignore", "orphan-of-a-job-that-is-deleted"],
    ["unowned", true, true, true, "ignore", "orphan-of-a-job-that-is-deleted"],
    ["unowned", false, false, false, "ignore", "orphan-not-selected"],
    ["unowned", false, true, false, "ignore", "orphan-not-selected"],
    ["unowned", false, false, true, "ignore", "orphan-not-selected"],
    ["unowned", false, true, true, "ignore", "orphan-not-selected"],
  ] as const;
  const named = cells.map(([owner, isSelected, isDeleting, jobIsDeleting, verdict, because]) => ({
    member: { owner, isSelected, isDeleting },
    jobIsDeleting,
    decided: { kind: verdict, because },
  }));
  it.each(named)("of $member by a job deleting $jobIsDeleting is $decided", ({ member, jobIsDeleting, decided }) => {
    const { owner, ...state } = member;
    const claimant = { uid: "uid", isDeleting: jobIsDeleting };
    expect(decideMemberClaim(claimant, { ...state, controllerUid: OWNERS[owner] })).toEqual(decided);
  });

  it("has a row above for every combination", () => {
    expect(new Set(cells.map((cell) => cell.slice(0, 4).join())).size).toBe(3 * 2 * 2 * 2);
  });
});
