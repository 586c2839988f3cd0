import { describe, expect, it } from "vitest";
import {
  both,
  listConditions,
  printStep,
  NONE,
  planSteps,
  makeStatus,
  makeWaitingUnit,
  makeWorkers,
  makeDoneWorkers,
} from "../../test/planned-job.ts";
import {
  makeEndedPod,
  makeGrantedUnit,
  JOB,
  NOW_MS,
  makePodFact,
  POLICY,
  makeReplica,
  makeReplicaSeen,
  makeSnapshot,
  makeSpec,
} from "../../test/samples.ts";
import { findCondition, type JobStatus } from "./job-status.ts";
import { planJob } from "./plan-job.ts";
import type { Snapshot } from "./snapshot.ts";

describe("the end of a job", () => {
  const done = makeWorkers(makeEndedPod("worker-0", 0), makeEndedPod("worker-1", 0));
  const over = (more: Partial<Snapshot> = {}): JobStatus => planJob(makeSnapshot({ ...done, ...more }), POLICY).status;

  it("is success if its rule holds, even if another pod failed permanently", () => {
    const world = {
      spec: makeSpec({
        replicas: [makeReplica("chief", 1), makeReplica("worker", 1, { restartPolicy: "Never" })],
        success: [[{ type: "chief", indexes: "all" }]],
      }),
      replicas: [
        makeReplicaSeen("chief", [makeEndedPod("chief-0", 0)]),
        makeReplicaSeen("worker", [makeEndedPod("worker-0", 1)]),
      ],
    };
    expect(listConditions(world)).toContain("Succeeded: JobSucceeded");
  });

  it.each([
    ["one index", [0], [0], true],
    ["another index", [1], [0], false],
    ["any index", "any", [1], true],
    ["all indexes", "all", [1], false],
  ] as const)("may be decided by %s", (_title, indexes, completed, succeeded) => {
    const world = {
      spec: makeSpec({ success: [[{ type: "worker", indexes }]] }),
      status: makeDoneWorkers(...completed),
      ...makeWorkers(...both),
    };
    expect(listConditions(world).includes("Succeeded: JobSucceeded")).toBe(succeeded);
  });

  it("records which members had failed and how, which stays after their pods are deleted", () => {
    const ends = [
      makeEndedPod("worker-0", 3),
      makePodFact("worker-1"),
      makeEndedPod("worker-2", 3),
      makeEndedPod("worker-3", 137),
    ];
    const gang = {
      spec: makeSpec({ replicas: [makeReplica("worker", 4, { restartPolicy: "Never" })], backoffLimit: 0 }),
    };
    const failed = planJob(makeSnapshot({ ...gang, ...makeWorkers(...ends) }), POLICY).status;
    expect(failed.failedMembers).toEqual([
      { type: "worker", indexes: [0, 2], message: "exit code 3" },
      { type: "worker", indexes: [3], message: "exit code 137" },
    ]);
    const later = planJob(makeSnapshot({ ...gang, status: failed, replicas: [] }), POLICY).status;
    expect(later.failedMembers).toEqual(failed.failedMembers);
  });

  it("is final: no later event changes the outcome or its time", () => {
    const succeeded = over();
    const failing = makeWorkers(makeEndedPod("worker-0", 1), makeEndedPod("worker-1", 1));
    for (const world of [failing, { spec: makeSpec({ suspend: true }) }, { nodesLost: ["node-worker-0"] }]) {
      const later = planJob(makeSnapshot({ status: succeeded, nowMs: NOW_MS + 99_000, ...world }), POLICY).status;
      expect(later.conditions).toEqual(succeeded.conditions);
      expect(later.completionMs).toBe(succeeded.completionMs);
    }
  });

  it("removes MachinesReserved, sets Running to false, and never sets both Succeeded and Failed", () => {
    const running = planJob(makeSnapshot(makeWorkers(...both)), POLICY).status;
    const ended = planJob(makeSnapshot({ status: running, ...done }), POLICY).status;
    expect(ended.conditions.map(({ type, status }) => `${type} ${status}`)).toEqual([
      "Created True",
      "Running False",
      "Succeeded True",
    ]);
  });

  it.each<[string, Parameters<typeof makeSpec>[0], Partial<Snapshot>, string[]]>([
    [
      "deletes what runs",
      { cleanPodPolicy: "Running" },
      makeWorkers(both[0], makeEndedPod("worker-1", 0)),
      ["delete train-worker-0: job-over"],
    ],
    [
      "deletes everything",
      { cleanPodPolicy: "All" },
      makeWorkers(both[0], makeEndedPod("worker-1", 0)),
      ["delete train-worker-0: job-over", "delete train-worker-1: job-over"],
    ],
    [
      "deletes no pod, and keeps the machines while one runs",
      { cleanPodPolicy: "None" },
      makeWorkers(both[0], makeEndedPod("worker-1", 0)),
      [],
    ],
    ["gives machines back although ended pods are kept", { cleanPodPolicy: "None" }, done, ["release gang: job-over"]],
    [
      "deletes services although no pod is left",
      { cleanPodPolicy: "All" },
      { services: { present: ["train"], wanted: ["train"], settled: true } },
      ["delete-service train: job-over", "release gang: job-over"],
    ],
    ["deletes the budget", {}, { ...done, budget: 2 }, ["delete-budget: job-over", "release gang: job-over"]],
    [
      "deletes the job when its time after the end is over",
      { ttlAfterFinishedMs: 5000 },
      { ...done, units: [], nowMs: NOW_MS + 5000 },
      ["delete-job: ttl-over"],
    ],
    ["keeps the job until then", { ttlAfterFinishedMs: 5000 }, { ...done, units: [], nowMs: NOW_MS + 4999 }, []],
    [
      "keeps the job for a clock that is behind the one that wrote its end",
      { ttlAfterFinishedMs: 5000 },
      { ...done, units: [], nowMs: NOW_MS - 60_000 },
      [],
    ],
  ])("%s, by its policy", (_title, policy, world, steps) => {
    expect(planSteps({ spec: makeSpec(policy), status: over(), budget: undefined, ...world })).toEqual(steps);
  });

  it("comes exactly at the deadline, counted from the grant of its machines", () => {
    const limited = makeSpec({ activeDeadlineMs: 60_000 });
    const started = makeStatus({ startMs: NOW_MS - 59_000 });
    const before = planJob(makeSnapshot({ spec: limited, status: started, ...makeWorkers(...both) }), POLICY);
    expect(before.recheckInMs).toBe(1000);
    expect(listConditions({ spec: limited, status: started, nowMs: NOW_MS + 1000, ...makeWorkers(...both) })).toContain(
      "Failed: DeadlineExceeded",
    );
    expect(listConditions({ spec: limited, units: [makeWaitingUnit()], nowMs: NOW_MS + 1e9 })).not.toContain(
      "Failed: DeadlineExceeded",
    );
  });

  it("names the restart budget, not the deadline, if both are exceeded", () => {
    const world = {
      spec: makeSpec({ backoffLimit: 0, activeDeadlineMs: 1000 }),
      status: makeStatus({ startMs: 0 }),
      ...makeWorkers(makeEndedPod("worker-0", 1), both[1]),
    };
    expect(listConditions(world)).toContain("Failed: BackoffLimitExceeded");
  });

  it("is Failed with every problem of a spec that was never readable", () => {
    const problems = [
      { field: "spec.a", reason: "is required" },
      { field: "spec.b", reason: "must be positive" },
    ] as const;
    const unreadable = { ok: false, problems, managedBy: undefined } as const;
    const broken = planJob(makeSnapshot({ spec: unreadable, replicas: [], units: [NONE] }), POLICY);
    const failed = findCondition(broken.status, "Failed");
    expect(failed).toMatchObject({
      status: "True",
      reason: "InvalidSpec",
      message: "the spec is invalid: spec.a: is required; spec.b: must be positive",
    });
    expect(broken.steps).toEqual([]);
  });
});

describe("a started job whose spec has become unreadable", () => {
  const problems = [{ field: "spec.a", reason: "no pool of machines" }] as const;
  const unreadable = { ok: false, problems, managedBy: undefined } as const;
  const world = { spec: unreadable, replicas: [], units: [NONE] };
  const timeout = { type: "Requeued", status: "True", reason: "ReadyTimeout", message: "" } as const;
  const requeued = makeStatus({ conditions: [{ ...timeout, lastUpdateMs: NOW_MS, lastTransitionMs: NOW_MS }] });

  it.each<[string, Partial<Snapshot>]>([
    ["pods", { unknownTypes: [makePodFact("worker-0")] }],
    ["machines", { units: [makeGrantedUnit("worker-0", "worker-1")] }],
    ["a start time", { status: makeStatus({ startMs: 5000 }) }],
    ["a timeout, after which it requests its machines again", { status: requeued }],
  ])("keeps everything while it has %s, and reports it", (_title, more) => {
    const { status: after, steps } = planJob(makeSnapshot({ ...world, ...more }), POLICY);
    expect(steps).toEqual([]);
    expect(findCondition(after, "Failed")).toBeUndefined();
    expect(findCondition(after, "SpecUnreadable")).toMatchObject({
      status: "True",
      reason: "InvalidSpec",
      message:
        "pods and machines stay as they are until the spec can be read again; put right the spec or the controller's configuration, or cancel the job: spec.a: no pool of machines",
    });
  });

  it("continues unchanged when its spec is readable again", () => {
    const before = planJob(makeSnapshot(makeWorkers(...both)), POLICY).status;
    const kept = planJob(makeSnapshot({ ...world, status: before, unknownTypes: both }), POLICY).status;
    const after = planJob(makeSnapshot({ status: kept, budget: 2, ...makeWorkers(...both) }), POLICY);
    expect(after).toMatchObject({ status: before, steps: [] });
  });

  it("ends when a user requests it", () => {
    const job = { ...JOB, cancelled: true };
    const { status: after, steps } = planJob(
      makeSnapshot({ ...world, job, unknownTypes: [makePodFact("worker-0")] }),
      POLICY,
    );
    expect(findCondition(after, "Failed")?.reason).toBe("Cancelled");
    expect(steps.map(printStep)).toEqual(["delete train-worker-0: job-over"]);
  });

  it("keeps its machines at its end until every requested pod was observed", () => {
    const over = { ...world, job: { ...JOB, cancelled: true }, units: [makeGrantedUnit("worker-0", "worker-1")] };
    expect(planSteps({ ...over, podsSettled: false })).not.toContainEqual(expect.stringMatching(/^release/));
    expect(planSteps({ ...over, podsSettled: true })).toContainEqual(expect.stringMatching(/^release .*: job-over$/));
  });
});

it("ends as cancelled when a user requests it, suspended or not, unless it is over", () => {
  const job = { ...JOB, cancelled: true };
  expect(listConditions({ job, ...makeWorkers(...both) })).toContain("Failed: Cancelled");
  expect(listConditions({ job, spec: makeSpec({ suspend: true }) })).toContain("Failed: Cancelled");
  const succeeded = planJob(
    makeSnapshot(makeWorkers(makeEndedPod("worker-0", 0), makeEndedPod("worker-1", 0))),
    POLICY,
  ).status;
  expect(listConditions({ job, status: succeeded })).not.toContain("Failed: Cancelled");
});
