import { describe, expect, it } from "vitest";
import {
  both,
  listConditions,
  printStep,
  planSteps,
  makeStatus,
  makeWorkers,
  makeDoneWorkers,
} from "../../test/planned-job.ts";
import {
  makeEndedPod,
  makeGrantedUnit,
  NOW_MS,
  makePodFact,
  POLICY,
  makeReplica,
  makeReplicaSeen,
  makeSnapshot,
  makeSpec,
} from "../../test/samples.ts";
import { findCondition } from "./job-status.ts";
import { planJob } from "./plan-job.ts";
import type { Snapshot } from "./snapshot.ts";
import { summariseState } from "./summarise-state.ts";

describe("pods", () => {
  it.each<[string, Partial<Snapshot>, string[]]>([
    ["that exist are not created again", makeWorkers(...both), []],
    [
      "that are missing are created, and no others",
      makeWorkers(both[0], undefined),
      ["create worker-1 on node-worker-1: missing"],
    ],
    [
      "that were requested and not observed yet are not requested again",
      { replicas: [makeReplicaSeen("worker", [undefined, undefined], { podsSettled: false })] },
      [],
    ],
    [
      "of another type are created although requests of one type were not observed yet",
      {
        spec: makeSpec({ replicas: [makeReplica("ps", 1), makeReplica("worker", 1)] }),
        units: [makeGrantedUnit("ps-0", "worker-0")],
        replicas: [makeReplicaSeen("ps", [undefined], { podsSettled: false }), makeReplicaSeen("worker", [undefined])],
      },
      ["create worker-0 on node-worker-0: missing"],
    ],
    [
      "with a duplicate or surplus index are deleted",
      {
        replicas: [
          makeReplicaSeen("worker", both, {
            surplus: [
              { pod: makePodFact("worker-1", { name: "twin" }), because: "duplicate-index" },
              { pod: makePodFact("worker-7"), because: "index-out-of-range" },
              { pod: makePodFact("worker-8", { deleting: true }), because: "index-out-of-range" },
            ],
          }),
        ],
      },
      ["delete twin: duplicate-index", "delete train-worker-7: index-out-of-range"],
    ],
    [
      "that are being deleted delay their replacement",
      makeWorkers(both[0], makePodFact("worker-1", { deleting: true })),
      [],
    ],
    [
      "that succeeded are not rerun, even after their deletion",
      { status: makeDoneWorkers(1), ...makeWorkers(both[0], undefined) },
      [],
    ],
    [
      "of a completed index do not run",
      { status: makeDoneWorkers(1), ...makeWorkers(both[0], makePodFact("worker-1")) },
      ["delete train-worker-1: already-completed"],
    ],
    [
      "of a type that was removed from the spec are deleted",
      { unknownTypes: [makePodFact("chief-0")], ...makeWorkers(...both) },
      ["delete train-chief-0: type-removed"],
    ],
  ])("%s", (_title, world, steps) => {
    expect(planSteps(world)).toEqual(steps);
  });

  it("are created only once their dependencies have the required status", () => {
    const order = (wanted: "Ready" | "Complete", server: ReturnType<typeof makePodFact> | undefined): string[] =>
      planSteps({
        spec: makeSpec({
          replicas: [
            makeReplica("server", 1),
            makeReplica("worker", 1, { dependsOn: [{ type: "server", status: wanted }] }),
          ],
        }),
        units: [makeGrantedUnit("server-0", "worker-0")],
        replicas: [makeReplicaSeen("server", [server]), makeReplicaSeen("worker", [undefined])],
      });
    const made = ["create worker-0 on node-worker-0: missing"];
    expect(order("Ready", undefined)).toEqual(["create server-0 on node-server-0: missing"]);
    expect(order("Ready", makePodFact("server-0", { ready: false }))).toEqual([]);
    expect(order("Ready", makePodFact("server-0"))).toEqual(made);
    expect(order("Ready", makeEndedPod("server-0", 0))).toEqual(made);
    expect(order("Complete", makePodFact("server-0"))).toEqual([]);
    expect(order("Complete", makeEndedPod("server-0", 0))).toEqual(made);
  });

  it("wait for the objects that they need", () => {
    expect(planSteps({ companionsMissing: ["ConfigMap/train-config"] })).toEqual([
      "create ConfigMap/train-config: missing",
    ]);
  });
});

describe("a pod that failed", () => {
  const failing = (code: number, more: Parameters<typeof makeEndedPod>[2] = {}) =>
    makeWorkers(both[0], makeEndedPod("worker-1", code, { finishedMs: NOW_MS - 10_000, ...more }));
  const withPolicy = (restartPolicy: "Always" | "OnFailure" | "Never" | "ExitCode") =>
    makeSpec({ replicas: [makeReplica("worker", 2, { restartPolicy })] });

  it.each<[string, Partial<Snapshot>, string[]]>([
    ["is deleted to be recreated after the pause", failing(1), ["delete train-worker-1: failed"]],
    ["is kept during the pause", failing(1, { finishedMs: NOW_MS - 9999 }), []],
    [
      "ends the job when its type is never restarted",
      { spec: withPolicy("Never"), ...failing(1) },
      ["delete train-worker-0: job-over", "delete-budget: job-over"],
    ],
    [
      "ends the job with a permanent exit code",
      { spec: withPolicy("ExitCode"), ...failing(1) },
      ["delete train-worker-0: job-over", "delete-budget: job-over"],
    ],
    [
      "is recreated with an exit code of 128 or more",
      { spec: withPolicy("ExitCode"), ...failing(139) },
      ["delete train-worker-1: failed"],
    ],
    [
      "is recreated without an exit code",
      { spec: withPolicy("ExitCode"), ...failing(1, { exits: [] }) },
      ["delete train-worker-1: failed"],
    ],
    [
      "is recreated with a code that the job calls retryable",
      { spec: { ...withPolicy("ExitCode"), exitCodes: { retryable: [1], permanent: [] } }, ...failing(1) },
      ["delete train-worker-1: failed"],
    ],
    [
      "ends the job with a code that the job calls permanent",
      { spec: { ...withPolicy("ExitCode"), exitCodes: { retryable: [], permanent: [139] } }, ...failing(139) },
      ["delete train-worker-0: job-over", "delete-budget: job-over"],
    ],
    [
      "by a preemption is recreated although its type is never restarted",
      { spec: withPolicy("Never"), ...failing(137, { conditions: [{ type: "DisruptionTarget", status: "True" }] }) },
      ["delete train-worker-1: failed"],
    ],
    ["needs no deletion if it is already being deleted", failing(1, { deleting: true }), []],
  ])("%s", (_title, world, steps) => {
    expect(planSteps(world)).toEqual(steps);
  });

  it("waits twice as long after every failure of its type, up to a limit", () => {
    const pauses = [0, 1, 2, 3, 40].map((restarts) => {
      const [worker] = makeDoneWorkers().replicas;
      if (worker === undefined) throw new Error("the sample has a worker");
      const before = makeStatus({ replicas: [{ ...worker, restarts }] });
      return planJob(makeSnapshot({ status: before, ...failing(1, { finishedMs: NOW_MS }) }), POLICY).recheckInMs;
    });
    expect(pauses).toEqual([10_000, 20_000, 40_000, 80_000, 360_000]);
  });

  it("states the number and time of its restart, updates them after a while, and then the restart itself", () => {
    const [worker] = makeDoneWorkers().replicas;
    if (worker === undefined) throw new Error("the sample has a worker");
    const budget = { spec: makeSpec({ backoffLimit: 6 }) };
    let before = makeStatus({ replicas: [{ ...worker, restarts: 2 }] });
    const shown = [0, 29_000, 31_000, 39_000, 40_000].map((laterMs) => {
      const world = { ...budget, ...failing(1, { finishedMs: NOW_MS }), nowMs: NOW_MS + laterMs, status: before };
      before = planJob(makeSnapshot(world), POLICY).status;
      return summariseState(before, 2);
    });
    expect(shown.map(({ message }) => message)).toEqual([
      "restart 3 of 6 in 40 s: pod train-worker-1 failed with exit code 1",
      "restart 3 of 6 in 40 s: pod train-worker-1 failed with exit code 1",
      "restart 3 of 6 in 9 s: pod train-worker-1 failed with exit code 1",
      "restart 3 of 6 in 9 s: pod train-worker-1 failed with exit code 1",
      "restart 3 of 6: pod train-worker-1 failed with exit code 1",
    ]);
    expect(shown[0]).toMatchObject({ state: "Restarting", restarts: 3 });
  });

  it("rewrites the message of a pause immediately only for another restart, whatever the message is", () => {
    const [worker] = makeDoneWorkers().replicas;
    if (worker === undefined) throw new Error("the sample has a worker");
    const counted = { ...worker, restarts: 3, counted: [{ pod: "uid-worker-1", failures: 1 }] };
    const messageAfter = (restart: { readonly number: number; readonly limit: number }): string | undefined => {
      const times = { lastUpdateMs: NOW_MS, lastTransitionMs: NOW_MS };
      const said = { type: "Restarting", status: "True", reason: "JobRestarting", message: "kept", restart } as const;
      const before = makeStatus({ replicas: [counted], conditions: [{ ...said, ...times }] });
      const world = { spec: makeSpec({ backoffLimit: 6 }), ...failing(1, { finishedMs: NOW_MS }), status: before };
      return findCondition(planJob(makeSnapshot(world), POLICY).status, "Restarting")?.message;
    };
    expect(messageAfter({ number: 3, limit: 6 })).toBe("kept");
    expect(messageAfter({ number: 2, limit: 6 })).toMatch(/^restart 3 of 6 in 40 s: /);
    expect(messageAfter({ number: 3, limit: 5 })).toMatch(/^restart 3 of 6 in 40 s: /);
  });

  it("is counted once, in however many passes, and for its restarts in place too", () => {
    const world = failing(1, { containerRestarts: 2 });
    const once = planJob(makeSnapshot(world), POLICY).status;
    expect(once.replicas[0]).toMatchObject({ restarts: 3, counted: [{ pod: "uid-worker-1", failures: 3 }] });
    expect(planJob(makeSnapshot({ ...world, status: once }), POLICY).status.replicas).toEqual(once.replicas);
  });

  it("stays counted after its deletion and replacement", () => {
    const once = planJob(makeSnapshot(failing(1)), POLICY).status;
    const again = planJob(
      makeSnapshot({ status: once, ...makeWorkers(both[0], makeEndedPod("worker-1", 1, { uid: "another" })) }),
      POLICY,
    ).status;
    expect(again.replicas[0]).toMatchObject({ restarts: 2, counted: [{ pod: "another", failures: 1 }] });
  });

  it("ends the job when it exceeds backoffLimit", () => {
    const limit = (backoffLimit: number) => listConditions({ spec: makeSpec({ backoffLimit }), ...failing(1) });
    expect(limit(0)).toContain("Failed: BackoffLimitExceeded");
    expect(limit(1)).toContain("Restarting: JobRestarting");
  });

  describe("under a failure policy", () => {
    const rule = (action: "FailJob" | "RestartPod" | "RestartJob" | "Ignore") =>
      makeSpec({
        backoffLimit: 1,
        failurePolicy: [{ action, replicaTypes: [], on: { exitCodes: "In", values: [42], container: undefined } }],
      });

    it.each([
      ["ends the job by the rule FailJob", "FailJob", "Failed: FailurePolicy", 0, 0],
      ["is recreated and counted by the rule RestartPod", "RestartPod", "Restarting: JobRestarting", 1, 0],
      ["is recreated without counting by the rule Ignore", "Ignore", "Restarting: JobRestarting", 0, 0],
      ["restarts the whole gang by the rule RestartJob, counted once", "RestartJob", "Restarting: JobRestarting", 0, 1],
    ] as const)("%s", (_title, action, condition, restarts, attempts) => {
      const plan = planJob(makeSnapshot({ spec: rule(action), ...failing(42) }), POLICY);
      expect(listConditions({ spec: rule(action), ...failing(42) })).toContain(condition);
      expect(plan.status.replicas[0]?.restarts).toBe(restarts);
      expect(plan.status.attemptsCounted).toBe(attempts);
    });

    it("uses the restart policy if no rule matches", () => {
      expect(planSteps({ spec: rule("FailJob"), ...failing(41) })).toEqual(["delete train-worker-1: failed"]);
    });

    it("may match a pod's condition instead of its exit code", () => {
      const byCondition = makeSpec({
        failurePolicy: [
          { action: "FailJob", replicaTypes: ["worker"], on: { podCondition: "DisruptionTarget", status: "True" } },
        ],
      });
      const world = failing(1, { conditions: [{ type: "DisruptionTarget", status: "True" }] });
      expect(listConditions({ spec: byCondition, ...world })).toContain("Failed: FailurePolicy");
    });

    it("delays the pods of the next attempt until those of the previous one are gone", () => {
      const first = planJob(makeSnapshot({ spec: rule("RestartJob"), ...failing(42) }), POLICY);
      expect(first.steps.map(printStep)).toContain("delete train-worker-0: gang-restarts");
      const half = {
        spec: rule("RestartJob"),
        status: first.status,
        budget: 2,
        ...makeWorkers(makePodFact("worker-0", { deleting: true }), undefined),
      };
      expect(planSteps(half)).toEqual([]);
      expect(planSteps({ ...half, ...makeWorkers(undefined, undefined) })).toEqual([
        "create worker-0 on node-worker-0, worker-1 on node-worker-1: missing",
      ]);
    });

    it("delays the gang before its recreation", () => {
      const plan = planJob(
        makeSnapshot({ spec: rule("RestartJob"), budget: 2, ...failing(42, { finishedMs: NOW_MS - 1000 }) }),
        POLICY,
      );
      expect(plan.steps).toEqual([]);
      expect(plan.recheckInMs).toBe(9000);
    });
  });
});

describe("clocks that differ", () => {
  const failedAt = (finishedMs: number) =>
    makeWorkers(makePodFact("worker-0"), makeEndedPod("worker-1", 1, { createdMs: NOW_MS, finishedMs }));

  it.each([
    ["far ahead", NOW_MS + 86_400_000],
    ["far behind", NOW_MS - 86_400_000],
  ])("neither skip nor lengthen the pause after a failure on a node whose clock is %s", (_title, finishedMs) => {
    const { steps, recheckInMs: recheckInMs } = planJob(makeSnapshot({ budget: 2, ...failedAt(finishedMs) }), POLICY);
    expect(steps).toEqual([]);
    expect(recheckInMs).toBe(POLICY.restartBackoffMs);
  });

  it("delay no deadline: a start in the future, by another leader's clock, counts as now", () => {
    const late = { spec: makeSpec({ activeDeadlineMs: 5000 }), status: makeStatus({ startMs: NOW_MS + 86_400_000 }) };
    const { status: after, recheckInMs: recheckInMs } = planJob(
      makeSnapshot({ budget: 2, ...late, ...makeWorkers(makePodFact("worker-0"), makePodFact("worker-1")) }),
      POLICY,
    );
    expect(after.startMs).toBe(Math.floor(NOW_MS / 1000) * 1000);
    expect(recheckInMs).toBeGreaterThan(0);
    expect(recheckInMs).toBeLessThanOrEqual(5000);
  });
});
