import { describe, expect, it } from "vitest";
import { ended, POLICY, replica, seen, snapshot, spec } from "../../test/samples.ts";
import { decideFailure, endedWell } from "./decide-failure.ts";
import { decideOutcome } from "./decide-outcome.ts";
import type { RestartPolicy } from "./job.ts";
import { NEW_STATUS } from "./job-status.ts";
import type { PodFact } from "./snapshot.ts";
import { summariseReplicas } from "./summarise-replicas.ts";

const disrupted = [{ type: "DisruptionTarget", status: "True" }];

describe("a pod that failed", () => {
  it.each<[string, Partial<PodFact>, RestartPolicy, string]>([
    [
      "is made anew and counts for nothing, evicted for the node",
      { reason: "Evicted", conditions: disrupted },
      "Never",
      "restart-pod",
    ],
    ["counts, evicted because of a limit of its own", { reason: "Evicted" }, "OnFailure", "restart-pod counts"],
    [
      "fails the job, evicted because of a limit of its own, if nothing restarts it",
      { reason: "Evicted" },
      "Never",
      "fail-job",
    ],
    [
      "is made anew and counts for nothing when its node was shut down",
      { reason: "NodeShutdown" },
      "Never",
      "restart-pod",
    ],
    [
      "is tried again when it was told to stop and did so politely",
      { reason: "Evicted", exits: [{ container: "main", code: 0 }] },
      "ExitCode",
      "restart-pod counts",
    ],
  ])("%s", (_title, more, restartPolicy, expected) => {
    const verdict = decideFailure(ended("worker-0", 137, more), replica("worker", 1, { restartPolicy }), spec());
    expect("counts" in verdict && verdict.counts ? `${verdict.action} counts` : verdict.action).toBe(expected);
  });
});

describe("a pod whose main container ended well beside a sidecar that was killed", () => {
  const strict = spec({ replicas: [replica("worker", 1, { restartPolicy: "ExitCode" })], backoffLimit: 0 });
  const exits = [
    { container: "main", code: 0 },
    { container: "logs", code: 137 },
  ];
  const pod = ended("worker-0", 137, { exits });

  it("has completed its index, and its job succeeds", () => {
    const replicas = summariseReplicas(strict, NEW_STATUS, [seen("worker", [pod])]);
    expect(replicas[0]).toMatchObject({ completedIndexes: [0], failed: 0, restarts: 0 });
    const world = snapshot({ spec: strict, replicas: [seen("worker", [pod])] });
    expect(decideOutcome(world, strict, { ...NEW_STATUS, replicas }, POLICY).is).toBe("succeeded");
  });

  it.each<[string, Partial<PodFact>]>([
    ["evicted", { reason: "Evicted" }],
    ["disrupted", { conditions: disrupted }],
  ])("has not ended well when it was %s", (_title, more) => {
    expect(endedWell({ ...pod, ...more }, replica("worker", 1))).toBe(false);
  });
});
