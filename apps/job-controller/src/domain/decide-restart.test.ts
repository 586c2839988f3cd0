import { describe, expect, it } from "vitest";
import { makeEndedPod, NOW_MS, makePodFact, POLICY, makeReplica, makeSpec } from "../../test/samples.ts";
import { decideRestart } from "./decide-restart.ts";
import type { JobSpec } from "./job.ts";
import { NEW_STATUS, type JobStatus } from "./job-status.ts";
import type { PodFact } from "./snapshot.ts";

const NO_FAILURES = { active: 0, ready: 0, succeeded: 0, failed: 0, completedIndexes: [], counted: [], uncounted: [] };
const failedBefore = (restarts: number, more: Partial<JobStatus> = {}): JobStatus => ({
  ...NEW_STATUS,
  replicas: [{ ...NO_FAILURES, type: "worker", restarts }],
  ...more,
});
const rule = (action: "Ignore" | "RestartJob" | "FailJob"): JobSpec =>
  makeSpec({
    backoffLimit: 6,
    failurePolicy: [{ action, replicaTypes: [], on: { exitCodes: "In", values: [42], container: undefined } }],
  });
const two = makeSpec({ backoffLimit: 6, replicas: [makeReplica("ps", 1), makeReplica("worker", 2)] });

describe("the next restart", () => {
  it.each<[string, JobSpec, JobStatus, PodFact[], string]>([
    [
      "is none while nothing has failed",
      rule("Ignore"),
      failedBefore(0),
      [makePodFact("worker-0"), makeEndedPod("worker-1", 0)],
      "",
    ],
    [
      "has the number of the failure",
      rule("Ignore"),
      failedBefore(3),
      [makeEndedPod("worker-1", 1)],
      "3 of 6 in 40000",
    ],
    [
      "counts every type",
      two,
      failedBefore(2, { attemptsCounted: 1 }),
      [makeEndedPod("worker-1", 1)],
      "3 of 6 in 20000",
    ],
    ["may have no limit", makeSpec(), failedBefore(1), [makeEndedPod("worker-1", 1)], "1 of - in 10000"],
    ["may not count", rule("Ignore"), failedBefore(3), [makeEndedPod("worker-1", 42)], "- of 6 in 10000"],
    [
      "is the first of several",
      rule("Ignore"),
      failedBefore(3),
      [makeEndedPod("worker-0", 1), makeEndedPod("worker-1", 1, { finishedMs: NOW_MS - 30_000 })],
      "3 of 6 in 10000",
    ],
    [
      "is that of the whole gang by the rule RestartJob",
      rule("RestartJob"),
      failedBefore(1, { attemptsCounted: 1 }),
      [makeEndedPod("worker-0", 1), makeEndedPod("worker-1", 42)],
      "3 of 6 in 20000",
    ],
    [
      "is none when the job ends",
      rule("FailJob"),
      failedBefore(0),
      [makeEndedPod("worker-0", 1), makeEndedPod("worker-1", 42)],
      "",
    ],
    [
      "is not that of a pod that is being deleted",
      rule("Ignore"),
      failedBefore(1),
      [makeEndedPod("worker-0", 1, { deleting: true })],
      "",
    ],
    [
      "is not that of an earlier gang",
      rule("Ignore"),
      failedBefore(1, { attempt: 1 }),
      [makeEndedPod("worker-0", 1)],
      "",
    ],
    [
      "is not that of a type that the job does not have",
      makeSpec(),
      failedBefore(1),
      [makeEndedPod("evaluator-0", 1)],
      "",
    ],
    [
      "is not that of a completed index",
      makeSpec(),
      { ...NEW_STATUS, replicas: [{ ...NO_FAILURES, type: "worker", restarts: 1, completedIndexes: [0] }] },
      [makeEndedPod("worker-0", 1)],
      "",
    ],
  ])("%s", (_title, of, status, pods, said) => {
    const next = decideRestart({ spec: of, status, pods }, POLICY, NOW_MS);
    const line = next === undefined ? "" : `${next.number ?? "-"} of ${next.limit ?? "-"} in ${next.atMs - NOW_MS}`;
    expect(line).toBe(said);
  });
});
