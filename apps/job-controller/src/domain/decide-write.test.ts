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
    ["never when nothing differs", {}, "never"],
    ["before a failure is acted on", worker({ restarts: 1, counted: [{ pod: "uid", failures: 1 }] }), "first"],
    [
      "before the failure of a pod that is counted again is acted on",
      worker({ counted: [{ pod: "uid", failures: 1 }] }),
      "first",
    ],
    [
      "before a restart that does not count is made",
      worker({ uncounted: [{ index: 0, pod: "uid", times: 1, atMs: 1000, because: "disrupted" }] }),
      "first",
    ],
    ["before what follows from a completed index", worker({ completedIndexes: [0] }), "first"],
    ["before the pods of an attempt are made", { attempt: 1 }, "first"],
    ["before another machine is taken", { replaced: ["worker-0"] }, "first"],
    ["before everything is released", { regrouping: true }, "first"],
    ["before what is left of a finished job goes", { completionMs: 1000 }, "first"],
    ["after the steps when only people wait for it", { conditions: [condition] }, "after"],
    ["after the steps when a new generation was seen", { observedGeneration: 2 }, "after"],
    ["after the steps when it has begun", { startMs: 1000 }, "after"],
    ["after the steps when the whole gang has been ready", { hasBeenReady: true }, "after"],
    ["later when only counts differ", worker({ ready: 2 }), "later"],
    [
      "later when a type has come that nothing is remembered of",
      { replicas: [WORKER, { ...WORKER, type: "ps" }] },
      "later",
    ],
  ])("%s", (_title, more, time) => {
    expect(decideWrite(STORED, { ...STORED, ...more }, 999, 1000)).toBe(time);
  });

  it("with counts alone if the last write is old enough, or this process has not written", () => {
    const next = { ...STORED, ...worker({ ready: 2 }) };
    expect(decideWrite(STORED, next, 1000, 1000)).toBe("after");
    expect(decideWrite(STORED, next, Infinity, 1000)).toBe("after");
  });
});
