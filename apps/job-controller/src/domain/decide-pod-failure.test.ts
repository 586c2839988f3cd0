import { describe, expect, it } from "vitest";
import { makeEndedPod, POLICY, makeReplica, makeReplicaSeen, makeSnapshot, makeSpec } from "../../test/samples.ts";
import { decidePodFailure, hasMainSucceeded, isDisrupted } from "./decide-pod-failure.ts";
import { decideOutcome } from "./decide-outcome.ts";
import type { RestartPolicy } from "./job.ts";
import { NEW_STATUS } from "./job-status.ts";
import type { PodFact } from "./snapshot.ts";
import { summariseReplicas } from "./summarise-replicas.ts";

const disrupted = [{ type: "DisruptionTarget", status: "True" }];

describe("a pod that failed", () => {
  it.each<[string, Partial<PodFact>, RestartPolicy, string]>([
    [
      "is recreated without counting if it was evicted for the node",
      { reason: "Evicted", conditions: disrupted },
      "Never",
      "restart-pod",
    ],
    ["counts if it was evicted because of its own limit", { reason: "Evicted" }, "OnFailure", "restart-pod counts"],
    [
      "fails the job if it was evicted because of its own limit, and is never restarted",
      { reason: "Evicted" },
      "Never",
      "fail-job",
    ],
    ["is recreated without counting if its node was shut down", { reason: "NodeShutdown" }, "Never", "restart-pod"],
    [
      "is retried if it exited with 0 after SIGTERM",
      { reason: "Evicted", exits: [{ container: "main", code: 0 }] },
      "ExitCode",
      "restart-pod counts",
    ],
  ])("%s", (_title, more, restartPolicy, expected) => {
    const verdict = decidePodFailure(
      makeEndedPod("worker-0", 137, more),
      makeReplica("worker", 1, { restartPolicy }),
      makeSpec(),
    );
    expect("counts" in verdict && verdict.counts ? `${verdict.action} counts` : verdict.action).toBe(expected);
  });
});

describe("a pod that failed with a code", () => {
  it.each<[number, string]>([
    [0, "restart-pod"],
    [1, "fail-job"],
    [127, "fail-job"],
    [128, "restart-pod"],
    [129, "restart-pod"],
  ])("of %d leads to %s, because a signal ended it from 128 on", (code, action) => {
    const verdict = decidePodFailure(
      makeEndedPod("worker-0", code),
      makeReplica("worker", 1, { restartPolicy: "ExitCode" }),
      makeSpec(),
    );
    expect(verdict.action).toBe(action);
  });

  it.each<[number, string]>([
    [3, "restart-pod"],
    [130, "fail-job"],
    [131, "fail-job"],
    [132, "restart-pod"],
  ])("of %d leads to %s with exit codes of the job, where permanent ones take precedence", (code, action) => {
    const job = makeSpec({ exitCodes: { retryable: [3, 131], permanent: [130, 131] } });
    const verdict = decidePodFailure(
      makeEndedPod("worker-0", code),
      makeReplica("worker", 1, { restartPolicy: "ExitCode" }),
      job,
    );
    expect(verdict.action).toBe(action);
  });

  it("is retried without a code, because its container never ran", () => {
    const pod = makeEndedPod("worker-0", 1, { exits: [] });
    expect(decidePodFailure(pod, makeReplica("worker", 1, { restartPolicy: "ExitCode" }), makeSpec()).action).toBe(
      "restart-pod",
    );
  });
});

describe("a pod that ended because of its node", () => {
  it.each([
    "NodeLost",
    "NodeShutdown",
    "NodeAffinity",
    "OutOfcpu",
    "OutOfnvidia.com/gpu",
    "Preempting",
    "Shutdown",
    "Terminated",
    "UnexpectedAdmissionError",
  ])("with the reason %s counts no restart", (reason) => {
    const verdict = decidePodFailure(makeEndedPod("worker-0", 1, { reason }), makeReplica("worker", 1), makeSpec());
    expect(verdict).toEqual({ action: "restart-pod", counts: false, because: "disrupted" });
  });

  it.each([
    [{ type: "DisruptionTarget", status: "True" }, true],
    [{ type: "DisruptionTarget", status: "False" }, false],
    [{ type: "Ready", status: "True" }, false],
  ])("has a condition %j: %s", (condition, expected) => {
    expect(isDisrupted(makeEndedPod("worker-0", 1, { conditions: [condition] }))).toBe(expected);
  });
});

describe("a pod whose main container succeeded beside a killed sidecar", () => {
  const strict = makeSpec({ replicas: [makeReplica("worker", 1, { restartPolicy: "ExitCode" })], backoffLimit: 0 });
  const exits = [
    { container: "main", code: 0 },
    { container: "logs", code: 137 },
  ];
  const pod = makeEndedPod("worker-0", 137, { exits });

  it("has completed its index, and its job succeeds", () => {
    const replicas = summariseReplicas(strict, NEW_STATUS, [makeReplicaSeen("worker", [pod])]);
    expect(replicas[0]).toMatchObject({ completedIndexes: [0], failed: 0, restarts: 0 });
    const world = makeSnapshot({ spec: strict, replicas: [makeReplicaSeen("worker", [pod])] });
    expect(decideOutcome(world, strict, { ...NEW_STATUS, replicas }, POLICY).kind).toBe("succeeded");
  });

  it.each<[string, Partial<PodFact>]>([
    ["evicted", { reason: "Evicted" }],
    ["disrupted", { conditions: disrupted }],
  ])("has not succeeded if it was %s", (_title, more) => {
    expect(hasMainSucceeded({ ...pod, ...more }, makeReplica("worker", 1))).toBe(false);
  });
});
