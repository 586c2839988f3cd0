import { describe, expect, it } from "vitest";
import { decideWrite } from "./decide-write.ts";
import { NEW_STATUS, type JobStatus, type ReplicaStatus } from "./job-status.ts";

const WORKER: ReplicaStatus = {
  type: "worker",
  active: 2,
  ready: 1,
  succeeded: 0,
  failed: 0,
  restarts: 0,
  completedIndexes: [],
  counted: [],
  uncounted: [],
};
const STORED: JobStatus = { ...NEW_STATUS, observedGeneration: 1, replicas: [WORKER] };
const condition = {
  type: "Running",
  status: "True",
  reason: "JobRunning",
  message: "",
  lastUpdateMs: 0,
  lastTransitionMs: 0,
} as const;

const worker = (more: Partial<ReplicaStatus>): Partial<JobStatus> => ({ replicas: [{ ...WORKER, ...more }] });

describe("a status is written", () => {
  it.each<[string, Partial<JobStatus>, string]>([
    ["never if nothing differs", {}, "never"],
    ["before the steps after a failure", worker({ restarts: 1, counted: [{ pod: "uid", failures: 1 }] }), "first"],
    [
      "before the steps after a further failure of a counted pod",
      worker({ counted: [{ pod: "uid", failures: 1 }] }),
      "first",
    ],
    [
      "before an uncounted restart",
      worker({ uncounted: [{ index: 0, pod: "uid", times: 1, atMs: 1000, because: "disrupted" }] }),
      "first",
    ],
    ["before the steps after a completed index", worker({ completedIndexes: [0] }), "first"],
    ["before the pods of an attempt are created", { attempt: 1 }, "first"],
    ["before a replacement is requested", { replaced: ["worker-0"] }, "first"],
    ["before everything is released", { regrouping: true }, "first"],
    ["before the cleanup of a finished job", { completionMs: 1000 }, "first"],
    ["after the steps if only people wait for it", { conditions: [condition] }, "after"],
    ["after the steps if a new generation was observed", { observedGeneration: 2 }, "after"],
    ["after the steps if the job has started", { startMs: 1000 }, "after"],
    ["after the steps if the whole gang has been ready", { hasBeenReady: true }, "after"],
    ["later if only counts differ", worker({ ready: 2 }), "later"],
    ["later if a type without a history was added", { replicas: [WORKER, { ...WORKER, type: "ps" }] }, "later"],
  ])("%s", (_title, more, time) => {
    expect(decideWrite(STORED, { ...STORED, ...more }, 999, 1000)).toBe(time);
  });

  it("with counts alone if the last write is old enough, or this process has not written", () => {
    const next = { ...STORED, ...worker({ ready: 2 }) };
    expect(decideWrite(STORED, next, 1000, 1000)).toBe("after");
    expect(decideWrite(STORED, next, Infinity, 1000)).toBe("after");
  });
});
