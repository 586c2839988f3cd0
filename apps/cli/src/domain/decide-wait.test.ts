import { describe, expect, it } from "vitest";
import { session } from "../../test/session-fixture.ts";
import {
  checkGoal,
  decideWait,
  describeUnmetGoal,
  describeWork,
  readGoal,
  type UnmetGoal,
  type WaitVerdict,
  type WaitGoal,
} from "./decide-wait.ts";
import type { Work } from "./work.ts";

const QUEUED = session(["QUEUE"]);
const DONE = session(["QUEUE", "RUN", "DONE"]);

function job(outcome: Work["outcome"], conditions: Work["conditions"]): Work {
  return { ...session([]), kind: "job", outcome, conditions };
}

const unmet = (work: Work, ...rest: [goal: WaitGoal, how: UnmetGoal, timeoutMs: number]): string =>
  describeUnmetGoal({ named: `${work.kind} ${work.name}`, state: describeWork(work) }, ...rest);

const RUNS = job(undefined, [{ type: "Running", isTrue: true }]);
const ENDED = job("success", [
  { type: "Running", isTrue: false },
  { type: "Succeeded", isTrue: true },
]);
const FAILED = job("failure", [{ type: "Failed", isTrue: true }]);

it.each<[string, WaitGoal | undefined]>([
  ["delete", { kind: "delete" }],
  ["condition=Succeeded", { kind: "condition", type: "Succeeded", isTrue: true }],
  ["condition=Running=false", { kind: "condition", type: "Running", isTrue: false }],
  ["condition=Running=True", { kind: "condition", type: "Running", isTrue: true }],
  ["condition=Running=maybe", undefined],
  ["condition=Running=true=false", undefined],
  ["condition=", undefined],
  ["condition", undefined],
  ["Succeeded", undefined],
  ["", undefined],
])("reads --for=%s", (text, goal) => {
  expect(readGoal(text)).toEqual(goal);
});

it.each<[string, string, Work, WaitVerdict]>([
  ["a state that the session has entered", "condition=DONE", DONE, "met"],
  ["a state that the session has left", "condition=RUN", DONE, "met"],
  ["a state in another letter case", "condition=done", DONE, "met"],
  ["a state that the session may still enter", "condition=RUN", QUEUED, "open"],
  ["a state that the session can no longer enter", "condition=ERROR", DONE, "never"],
  ["a true condition of a job", "condition=Running", RUNS, "met"],
  ["a condition that is no longer true", "condition=Running", ENDED, "never"],
  ["a false condition that must be false", "condition=Running=false", ENDED, "met"],
  ["an unreported condition that must be false", "condition=Failed=false", RUNS, "open"],
  ["success of a job that has failed", "condition=Succeeded", FAILED, "never"],
  ["failure of a job that has failed", "condition=Failed", FAILED, "met"],
  ["the deletion of a finished job", "delete", FAILED, "open"],
])("decides about %s", (_what, text, work, verdict) => {
  expect(decideWait(work, readGoal(text)!)).toBe(verdict);
});

it.each([
  ["condition=Suceeded", 'did you mean "Succeeded"?'],
  ["condition=complete", "it may have Running, Succeeded"],
])("refuses a condition that the kind does not have: %s", (text, hint) => {
  expect(checkGoal(readGoal(text)!, { noun: "job", conditions: ["Running", "Succeeded"] })?.hint).toBe(hint);
});

describe("a failed wait", () => {
  const goal = readGoal("condition=Succeeded")!;
  const failed = { phase: "FAILED", atMs: 0, reason: "PodFailed", description: "exit code 3" };

  it("reports how the work ended", () => {
    expect(unmet({ ...FAILED, events: [failed] }, goal, "never", 0)).toBe(
      "condition Succeeded can no longer be met: job echo is FAILED: PodFailed: exit code 3",
    );
  });

  it("reports how long it waited, and for which state of the work", () => {
    const waits = { ...QUEUED, waitingBecause: "pool workers has 0 machines free" };
    expect(unmet(waits, readGoal("condition=DONE=false")!, "open", 300_000)).toBe(
      "timed out after 5m waiting for condition DONE=false: session echo is QUEUE: pool workers has 0 machines free",
    );
    expect(unmet(RUNS, { kind: "delete" }, "open", 1500)).toBe(
      "timed out after 1s500ms waiting for deletion: job echo is UNKNOWN",
    );
  });

  it("states that the work was deleted", () => {
    expect(unmet(RUNS, goal, "deleted", 0)).toBe("job echo was deleted before it met condition Succeeded");
  });
});
