import { describe, expect, it } from "vitest";
import { NEW_STATUS, type ConditionType, type JobStatus } from "./job-status.ts";
import { summariseState } from "./summarise-state.ts";

function status(...said: readonly (readonly [ConditionType, "True" | "False"])[]): JobStatus {
  const conditions = said.map(([type, is]) => ({
    type,
    status: is,
    reason: "Reason",
    message: `${type} is ${is}`,
    lastUpdateMs: 0,
    lastTransitionMs: 0,
  }));
  return { ...NEW_STATUS, conditions };
}

describe("a job", () => {
  it.each<[string, string, JobStatus]>([
    ["Queued", "", status()],
    ["Queued", "MachinesReserved is False", status(["Created", "True"], ["MachinesReserved", "False"])],
    ["Starting", "MachinesReserved is True", status(["MachinesReserved", "True"])],
    ["Running", "Running is True", status(["MachinesReserved", "True"], ["Running", "True"])],
    [
      "Running",
      "SpecUnreadable is True",
      status(["Running", "True"], ["PodsWaiting", "True"], ["SpecUnreadable", "True"]),
    ],
    ["Restarting", "Restarting is True", status(["MachinesReserved", "True"], ["Restarting", "True"])],
    ["Suspended", "Suspended is True", status(["Running", "False"], ["Suspended", "True"])],
    ["Succeeded", "Succeeded is True", status(["Running", "False"], ["Succeeded", "True"])],
    ["Failed", "Failed is True", status(["Suspended", "True"], ["Failed", "True"])],
  ])("is %s, because %j", (state, message, of) => {
    expect(summariseState(of, 4)).toMatchObject({ state, message });
  });

  it("counts the completed of all requested pods, and every restart", () => {
    const replica = { active: 0, ready: 0, failed: 0, completedIndexes: [], counted: [], uncounted: [] };
    const replicas = [
      { ...replica, type: "ps", succeeded: 1, restarts: 2 },
      { ...replica, type: "worker", succeeded: 2, restarts: 1 },
    ];
    const counted = summariseState({ ...NEW_STATUS, replicas, attemptsCounted: 3 }, 8);
    expect(counted).toMatchObject({ completions: "3/8", restarts: 6 });
  });
});
