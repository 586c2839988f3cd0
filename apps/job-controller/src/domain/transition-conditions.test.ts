import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { isTrue, NEW_STATUS, type ConditionType, type JobStatus } from "./job-status.ts";
import { transitionConditions, roundToSecond } from "./transition-conditions.ts";

const TYPES: readonly ConditionType[] = [
  "Created",
  "Suspended",
  "MachinesReserved",
  "Running",
  "Restarting",
  "Succeeded",
  "Failed",
];

type Change = readonly [type: ConditionType, status?: "True" | "False", reason?: string, message?: string];

/** Sets each condition a second after the previous one. */
function apply(...changes: readonly Change[]): JobStatus {
  return changes.reduce(
    (status, [type, is = "True", reason = `Job${type}`, message = ""], second) =>
      transitionConditions(status, { type, status: is, reason, message }, (second + 1) * 1000),
    NEW_STATUS,
  );
}

/** Formats `Running=False@3/2`: updated in second 3, changed in second 2. */
function show({ conditions }: JobStatus): string[] {
  return conditions.map(
    ({ type, status, lastUpdateMs, lastTransitionMs }) =>
      `${type}=${status}@${lastUpdateMs / 1000}/${lastTransitionMs / 1000}`,
  );
}

describe("conditions", () => {
  it.each<[string, readonly Change[], readonly string[]]>([
    ["come last", [["Created"], ["Running"]], ["Created=True@1/1", "Running=True@2/2"]],
    ["that are reported again change nothing, not even a time", [["Running"], ["Running"]], ["Running=True@1/1"]],
    [
      "with another message have a new update and the old transition",
      [["Running"], ["Running", "True", "JobRunning", "still"]],
      ["Running=True@2/1"],
    ],
    [
      "with another reason have a new update and the old transition",
      [["Running"], ["Running", "True", "Other"]],
      ["Running=True@2/1"],
    ],
    [
      "with another status are new, and last",
      [["Suspended"], ["Created"], ["Suspended", "False"]],
      ["Created=True@2/2", "Suspended=False@3/3"],
    ],
    ["Running takes Restarting away", [["Restarting"], ["Running"]], ["Running=True@2/2"]],
    ["Restarting takes Running away", [["Running"], ["Restarting"]], ["Restarting=True@2/2"]],
    [
      "Succeeded turns Running to false where it stands",
      [["Running"], ["Created"], ["Succeeded"]],
      ["Running=False@3/3", "Created=True@2/2", "Succeeded=True@3/3"],
    ],
    ["Failed turns Running to false", [["Running"], ["Failed"]], ["Running=False@2/2", "Failed=True@2/2"]],
    ["Suspended turns Running to false", [["Running"], ["Suspended"]], ["Running=False@2/2", "Suspended=True@2/2"]],
    ["Failed takes Restarting away", [["Restarting"], ["Failed"]], ["Failed=True@2/2"]],
    [
      "do not become false by one that is false",
      [["Running"], ["Suspended", "False"]],
      ["Running=True@1/1", "Suspended=False@2/2"],
    ],
    [
      "stay as they are after Failed",
      [["Failed"], ["Running"], ["Succeeded"], ["Failed", "True", "Other"]],
      ["Failed=True@1/1"],
    ],
    ["stay as they are after Succeeded", [["Succeeded"], ["Failed"]], ["Succeeded=True@1/1"]],
  ])("%s", (_title, changes, shown) => {
    expect(show(apply(...changes))).toEqual(shown);
  });

  it("give Running the reason of the end", () => {
    const { conditions } = apply(["Running"], ["Failed", "True", "DeadlineExceeded", "too long"]);
    expect(conditions[0]).toMatchObject({ status: "False", reason: "DeadlineExceeded", message: "too long" });
  });

  it("are one per type, never Running and Restarting, never two ends, and unchanged after an end", () => {
    const change = fc.tuple(
      fc.constantFrom(...TYPES),
      fc.constantFrom("True" as const, "False" as const),
      fc.constantFrom("One", "Two"),
    );
    fc.assert(
      fc.property(fc.array(change, { maxLength: 20 }), (all) => {
        const steps = all.map((_each, index) => apply(...all.slice(0, index + 1)));
        steps.forEach((status, index) => {
          const types = status.conditions.map(({ type }) => type);
          expect(new Set(types).size).toBe(types.length);
          expect(isTrue(status, "Running") && isTrue(status, "Restarting")).toBe(false);
          expect(isTrue(status, "Succeeded") && isTrue(status, "Failed")).toBe(false);
          const before = steps[index - 1];
          if (before !== undefined && (isTrue(before, "Succeeded") || isTrue(before, "Failed")))
            expect(status).toEqual(before);
        });
      }),
    );
  });

  it("have times of whole seconds", () => {
    expect(roundToSecond(1999)).toBe(1000);
  });
});
