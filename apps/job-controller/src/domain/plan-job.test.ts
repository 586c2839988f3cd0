import { describe, expect, it } from "vitest";
import { ended, granted, JOB, NOW_MS, pod, POLICY, replica, seen, snapshot, spec } from "../../test/samples.ts";
import { ownerIdOf } from "./build-units.ts";
import { conditionOf, NEW_STATUS, type JobStatus } from "./job-status.ts";
import { planJob } from "./plan-job.ts";
import type { JobStep } from "./plan-steps.ts";
import type { Snapshot, UnitSeen } from "./snapshot.ts";
import { summariseState } from "./summarise-state.ts";

const GANG = ownerIdOf(JOB);
const NONE: UnitSeen = { id: GANG, state: "none" };
const waiting = (more: Partial<Extract<UnitSeen, { state: "waiting" | "refused" }>> = {}): UnitSeen => ({
  id: GANG,
  state: "waiting",
  components: ["worker-0", "worker-1"],
  because: { code: "POOL_AVAILABILITY", text: "2 of pool-a requested, 1 available" },
  sinceMs: NOW_MS - 1000,
  ...more,
});
const both = [pod("worker-0"), pod("worker-1")];

/** One line a step: what, of what, why. */
function line(step: JobStep): string {
  switch (step.do) {
    case "reserve":
      return `reserve ${step.unit.needs.map(({ component }) => component).join("+")}: ${step.because}`;
    case "release":
      return `release ${step.unitId.replace(GANG, "gang")}: ${step.because}`;
    case "create-pods":
      return `create ${step.pods.map(({ type, index, node }) => `${type}-${index} on ${node}`).join(", ")}: ${step.because}`;
    case "delete-pod":
      return `delete ${step.pod}: ${step.because}`;
    case "force-pod":
      return `remove ${step.pod} by force: ${step.because}`;
    case "create-service":
    case "delete-service":
      return `${step.do} ${step.service}: ${step.because}`;
    case "sync-budget":
      return `budget of ${step.minAvailable}: ${step.because}`;
    case "create-companions":
      return `create ${step.names.join(", ")}: ${step.because}`;
    case "sync-group":
      return `group of ${step.group.minMember}: ${step.because}`;
    case "delete-group":
    case "delete-budget":
    case "delete-job":
      return `${step.do}: ${step.because}`;
  }
}

function plan(more: Partial<Snapshot>): string[] {
  return planJob(snapshot({ budget: 2, ...more }), POLICY).steps.map(line);
}

/** The true conditions, and the reasons of those that are not. */
function conditions(more: Partial<Snapshot>): string[] {
  return planJob(snapshot(more), POLICY).status.conditions.map(({ type, status, reason }) =>
    status === "True" ? `${type}: ${reason}` : `not ${type}: ${reason}`,
  );
}

const succeeded = {
  type: "Succeeded",
  status: "True",
  reason: "JobSucceeded",
  message: "",
  lastUpdateMs: NOW_MS,
  lastTransitionMs: NOW_MS,
} as const;
const workers = (...slots: Parameters<typeof seen>[1]) => ({ replicas: [seen("worker", slots)] });
const status = (more: Partial<JobStatus> = {}): JobStatus => ({ ...NEW_STATUS, ...more });
const workersDone = (...completedIndexes: number[]): JobStatus =>
  status({
    replicas: [
      {
        type: "worker",
        active: 0,
        ready: 0,
        succeeded: 0,
        failed: 0,
        restarts: 0,
        completedIndexes,
        counted: [],
        uncounted: [],
      },
    ],
  });

describe("machines", () => {
  it.each<[string, Partial<Snapshot>, string[]]>([
    ["are asked for as one, before any pod", { units: [NONE], budget: undefined }, ["reserve worker-0+worker-1: gang"]],
    [
      "are asked for when the ledger has not heard of the job",
      { units: [], budget: undefined },
      ["reserve worker-0+worker-1: gang"],
    ],
    ["are waited for without a pod", { units: [waiting()], budget: undefined }, []],
    [
      "are not asked for while the ledger is silent",
      { units: [{ id: GANG, state: "unknown" }], budget: undefined },
      [],
    ],
    [
      "are asked for again a while after they were refused",
      { units: [waiting({ state: "refused", sinceMs: NOW_MS - 30_000 })], budget: undefined },
      ["reserve worker-0+worker-1: gang"],
    ],
    [
      "are not asked for again at once",
      { units: [waiting({ state: "refused", sinceMs: NOW_MS - 29_999 })], budget: undefined },
      [],
    ],
    [
      "are asked for anew when the job grew while it waited",
      { units: [waiting({ components: ["worker-0"] })], budget: undefined },
      [`release gang: needs-changed`],
    ],
    [
      "once granted get their pods, all of them",
      {},
      ["create worker-0 on node-worker-0, worker-1 on node-worker-1: missing"],
    ],
    [
      "are given back when the job is being deleted, once its pods are gone",
      { job: { ...JOB, deleting: true } },
      ["release gang: job-over"],
    ],
    [
      "are kept while a pod of a deleted job may run",
      { job: { ...JOB, deleting: true }, ...workers(pod("worker-0", { deleting: true }), undefined) },
      [],
    ],
    [
      "are kept while a pod that was asked for has not been seen",
      { job: { ...JOB, deleting: true }, replicas: [seen("worker", [undefined, undefined], { podsSettled: false })] },
      [],
    ],
    [
      "of a waiting job that is being deleted are withdrawn at once",
      { job: { ...JOB, deleting: true }, units: [waiting()] },
      ["release gang: job-over"],
    ],
  ])("%s", (_title, world, steps) => {
    expect(plan(world)).toEqual(steps);
  });

  it("say in a condition why they are waited for, and that they came", () => {
    expect(conditions({ units: [waiting()] })).toEqual([
      "Created: JobCreated",
      "not MachinesReserved: POOL_AVAILABILITY",
    ]);
    expect(conditions({})).toEqual(["Created: JobCreated", "MachinesReserved: MachinesGranted"]);
  });

  it("do not have their numbers written with every change", () => {
    const first = planJob(snapshot({ units: [waiting()] }), POLICY).status;
    const other = waiting({ because: { code: "POOL_AVAILABILITY", text: "2 of pool-a requested, 0 available" } });
    expect(planJob(snapshot({ units: [other], status: first }), POLICY).status).toEqual(first);
    const later = planJob(
      snapshot({ units: [other], status: first, nowMs: NOW_MS + POLICY.explainEveryMs }),
      POLICY,
    ).status;
    expect(conditionOf(later, "MachinesReserved")?.message).toBe("2 of pool-a requested, 0 available");
  });
});

describe("a machine that is lost", () => {
  const lost = { nodesLost: ["node-worker-1"] };
  const replaced = status({ replaced: ["worker-1"] });
  const unbound = (pinned: string) => pod("worker-1", { phase: "Pending", ready: false, node: undefined, pinned });
  const own = (state: "waiting" | "granted", sinceMs = NOW_MS): UnitSeen =>
    state === "granted"
      ? { id: `${GANG}--worker-1`, state, nodes: new Map([["worker-1", "node-other"]]) }
      : {
          ...waiting({ sinceMs }),
          id: `${GANG}--worker-1`,
          state,
          components: ["worker-1"],
          because: { code: "POOL_AVAILABILITY", text: "" },
          sinceMs,
        };

  it.each<[string, Partial<Snapshot>, string[]]>([
    [
      "is replaced by one more, and its pod deleted",
      { ...lost, ...workers(...both) },
      ["reserve worker-1: machine-lost", "delete train-worker-1: machine-lost"],
    ],
    [
      "is not waited for again when it comes back",
      { status: replaced, ...workers(both[0], undefined) },
      ["reserve worker-1: machine-lost"],
    ],
    [
      "has its member made on the other one, once the first pod is gone",
      {
        ...lost,
        status: replaced,
        units: [granted("worker-0", "worker-1"), own("granted")],
        ...workers(both[0], undefined),
      },
      ["create worker-1 on node-other: missing"],
    ],
    [
      "has a pod that was made for it and is on no machine yet deleted, so that it is made anew where its member is now",
      {
        ...lost,
        status: replaced,
        units: [granted("worker-0", "worker-1"), own("granted")],
        ...workers(both[0], unbound("node-worker-1")),
      },
      ["delete train-worker-1: machine-lost"],
    ],
    [
      "and is back has such a pod deleted, too, once its member is somewhere else",
      {
        status: replaced,
        units: [granted("worker-0", "worker-1"), own("granted")],
        ...workers(both[0], unbound("node-worker-1")),
      },
      ["delete train-worker-1: machine-lost"],
    ],
    [
      "has nothing to do with a pod that is pinned where its member is",
      {
        ...lost,
        status: replaced,
        units: [granted("worker-0", "worker-1"), own("granted")],
        ...workers(both[0], unbound("node-other")),
      },
      [],
    ],
    [
      "is not seen in pods that are on no machine yet while the ledger is silent",
      { units: [{ id: GANG, state: "unknown" }], ...workers(both[0], unbound("node-elsewhere")) },
      [],
    ],
    [
      "has its member not made twice while the first pod is still there",
      {
        ...lost,
        status: replaced,
        units: [granted("worker-0", "worker-1"), own("granted")],
        ...workers(both[0], pod("worker-1", { deleting: true })),
      },
      ["remove train-worker-1 by force: machine-lost"],
    ],
    [
      "has its pod removed by force also when the job is over",
      {
        ...lost,
        status: status({ conditions: [succeeded] }),
        units: [],
        budget: undefined,
        ...workers(undefined, pod("worker-1", { deleting: true })),
      },
      ["remove train-worker-1 by force: machine-lost"],
    ],
    [
      "lets the others run on while the replacement is waited for",
      {
        ...lost,
        status: replaced,
        units: [granted("worker-0", "worker-1"), own("waiting")],
        ...workers(both[0], undefined),
      },
      [],
    ],
    [
      "that was a replacement itself is given back and asked for anew",
      {
        nodesLost: ["node-other"],
        status: replaced,
        units: [granted("worker-0", "worker-1"), own("granted")],
        ...workers(both[0], undefined),
      },
      ["release gang--worker-1: machine-lost"],
    ],
    [
      "has the whole gang give back its machines when no other one comes in time, so that two gangs cannot wait for each other for ever",
      {
        ...lost,
        status: replaced,
        units: [granted("worker-0", "worker-1"), own("waiting", NOW_MS - POLICY.replacementWaitMs)],
        ...workers(both[0], undefined),
      },
      ["delete train-worker-0: gang-restarts", "release gang--worker-1: gang-restarts"],
    ],
    [
      "leads to all machines being asked for anew once all were given back",
      {
        status: status({ replaced: ["worker-1"], regrouping: true, attempt: 1 }),
        units: [granted("worker-0", "worker-1")],
        ...workers(undefined, undefined),
      },
      ["release gang: gang-restarts"],
    ],
  ])("%s", (_title, world, steps) => {
    expect(plan(world)).toEqual(steps);
  });

  it("asks for no machine of who has ended well when all are asked for anew, and keeps their pods", () => {
    const done = { ...workersDone(0), attempt: 1 };
    const world = { status: done, ...workers(ended("worker-0", 0), undefined) };
    expect(plan({ ...world, units: [NONE], budget: undefined })).toEqual(["reserve worker-1: gang"]);
    expect(plan({ ...world, units: [granted("worker-1")] })).toEqual(["create worker-1 on node-worker-1: missing"]);
  });

  it("does not begin the deadline anew when all machines are asked for anew", () => {
    const startMs = NOW_MS - 100_000;
    const regrouping = status({ startMs, regrouping: true, attempt: 1 });
    const gone = planJob(snapshot({ status: regrouping, units: [NONE] }), POLICY).status;
    expect(gone).toMatchObject({ regrouping: false, startMs });
    expect(conditions({ status: gone, spec: spec({ activeDeadlineMs: 100_000 }), units: [waiting()] })).toContain(
      "Failed: DeadlineExceeded",
    );
  });

  it("does not eat the budget", () => {
    const world = { spec: spec({ backoffLimit: 0 }), ...lost, ...workers(...both) };
    expect(conditions(world)).toContain("Restarting: JobRestarting");
    expect(planJob(snapshot(world), POLICY).status.replicas[0]?.restarts).toBe(0);
  });
});

describe("pods", () => {
  it.each<[string, Partial<Snapshot>, string[]]>([
    ["that are there are not made again", workers(...both), []],
    [
      "that are missing are made, and no others",
      workers(both[0], undefined),
      ["create worker-1 on node-worker-1: missing"],
    ],
    [
      "that were ordered and not seen yet are not ordered again",
      { replicas: [seen("worker", [undefined, undefined], { podsSettled: false })] },
      [],
    ],
    [
      "of another type are made although one type waits for its orders to be seen",
      {
        spec: spec({ replicas: [replica("ps", 1), replica("worker", 1)] }),
        units: [granted("ps-0", "worker-0")],
        replicas: [seen("ps", [undefined], { podsSettled: false }), seen("worker", [undefined])],
      },
      ["create worker-0 on node-worker-0: missing"],
    ],
    [
      "that are twins of another, or beyond the count, are deleted",
      {
        replicas: [
          seen("worker", both, {
            surplus: [
              { pod: pod("worker-1", { name: "twin" }), because: "duplicate-index" },
              { pod: pod("worker-7"), because: "index-out-of-range" },
              { pod: pod("worker-8", { deleting: true }), because: "index-out-of-range" },
            ],
          }),
        ],
      },
      ["delete twin: duplicate-index", "delete train-worker-7: index-out-of-range"],
    ],
    ["that are going away are waited for", workers(both[0], pod("worker-1", { deleting: true })), []],
    [
      "that ended well are not run again, whatever becomes of them",
      { status: workersDone(1), ...workers(both[0], undefined) },
      [],
    ],
    [
      "of an index that had ended well before do not run",
      { status: workersDone(1), ...workers(both[0], pod("worker-1")) },
      ["delete train-worker-1: already-completed"],
    ],
    [
      "of a type that the spec does not have any more are deleted",
      { strangers: [pod("chief-0")], ...workers(...both) },
      ["delete train-chief-0: type-removed"],
    ],
  ])("%s", (_title, world, steps) => {
    expect(plan(world)).toEqual(steps);
  });

  it("are made only once what they depend on is so far", () => {
    const order = (wanted: "Ready" | "Complete", server: ReturnType<typeof pod> | undefined): string[] =>
      plan({
        spec: spec({
          replicas: [replica("server", 1), replica("worker", 1, { dependsOn: [{ type: "server", status: wanted }] })],
        }),
        units: [granted("server-0", "worker-0")],
        replicas: [seen("server", [server]), seen("worker", [undefined])],
      });
    const made = ["create worker-0 on node-worker-0: missing"];
    expect(order("Ready", undefined)).toEqual(["create server-0 on node-server-0: missing"]);
    expect(order("Ready", pod("server-0", { ready: false }))).toEqual([]);
    expect(order("Ready", pod("server-0"))).toEqual(made);
    expect(order("Ready", ended("server-0", 0))).toEqual(made);
    expect(order("Complete", pod("server-0"))).toEqual([]);
    expect(order("Complete", ended("server-0", 0))).toEqual(made);
  });

  it("wait for the objects that they need beside them", () => {
    expect(plan({ companionsMissing: ["ConfigMap/train-config"] })).toEqual(["create ConfigMap/train-config: missing"]);
  });
});

describe("a pod that failed", () => {
  const failing = (code: number, more: Parameters<typeof ended>[2] = {}) =>
    workers(both[0], ended("worker-1", code, { finishedMs: NOW_MS - 10_000, ...more }));
  const withPolicy = (restartPolicy: "Always" | "OnFailure" | "Never" | "ExitCode") =>
    spec({ replicas: [replica("worker", 2, { restartPolicy })] });

  it.each<[string, Partial<Snapshot>, string[]]>([
    ["is deleted to be made anew after the pause", failing(1), ["delete train-worker-1: failed"]],
    ["is kept until then", failing(1, { finishedMs: NOW_MS - 9999 }), []],
    [
      "ends the job when its type is never restarted",
      { spec: withPolicy("Never"), ...failing(1) },
      ["delete train-worker-0: job-over", "delete-budget: job-over"],
    ],
    [
      "ends the job with an exit code that is not retried",
      { spec: withPolicy("ExitCode"), ...failing(1) },
      ["delete train-worker-0: job-over", "delete-budget: job-over"],
    ],
    [
      "is made anew with an exit code of 128 or more",
      { spec: withPolicy("ExitCode"), ...failing(139) },
      ["delete train-worker-1: failed"],
    ],
    [
      "is made anew without an exit code",
      { spec: withPolicy("ExitCode"), ...failing(1, { exits: [] }) },
      ["delete train-worker-1: failed"],
    ],
    [
      "is made anew with a code that the job calls retryable",
      { spec: { ...withPolicy("ExitCode"), exitCodes: { retryable: [1], permanent: [] } }, ...failing(1) },
      ["delete train-worker-1: failed"],
    ],
    [
      "ends the job with a code that the job calls permanent",
      { spec: { ...withPolicy("ExitCode"), exitCodes: { retryable: [], permanent: [139] } }, ...failing(139) },
      ["delete train-worker-0: job-over", "delete-budget: job-over"],
    ],
    [
      "because it was preempted is made anew although its type is never restarted",
      { spec: withPolicy("Never"), ...failing(137, { conditions: [{ type: "DisruptionTarget", status: "True" }] }) },
      ["delete train-worker-1: failed"],
    ],
    ["is let go when it is going already", failing(1, { deleting: true }), []],
  ])("%s", (_title, world, steps) => {
    expect(plan(world)).toEqual(steps);
  });

  it("waits twice as long with every failure of its type, up to a limit", () => {
    const pauses = [0, 1, 2, 3, 40].map((restarts) => {
      const [worker] = workersDone().replicas;
      if (worker === undefined) throw new Error("the sample has a worker");
      const before = status({ replicas: [{ ...worker, restarts }] });
      return planJob(snapshot({ status: before, ...failing(1, { finishedMs: NOW_MS }) }), POLICY).lookAgainInMs;
    });
    expect(pauses).toEqual([10_000, 20_000, 40_000, 80_000, 360_000]);
  });

  it("says which restart it is and when it comes, again when that was long ago, and what it is once it has come", () => {
    const [worker] = workersDone().replicas;
    if (worker === undefined) throw new Error("the sample has a worker");
    const budget = { spec: spec({ backoffLimit: 6 }) };
    let before = status({ replicas: [{ ...worker, restarts: 2 }] });
    const told = [0, 29_000, 31_000, 39_000, 40_000].map((laterMs) => {
      const world = { ...budget, ...failing(1, { finishedMs: NOW_MS }), nowMs: NOW_MS + laterMs, status: before };
      before = planJob(snapshot(world), POLICY).status;
      return summariseState(before, 2);
    });
    expect(told.map(({ message }) => message)).toEqual([
      "restart 3 of 6 in 40 s: pod train-worker-1 failed with exit code 1",
      "restart 3 of 6 in 40 s: pod train-worker-1 failed with exit code 1",
      "restart 3 of 6 in 9 s: pod train-worker-1 failed with exit code 1",
      "restart 3 of 6 in 9 s: pod train-worker-1 failed with exit code 1",
      "restart 3 of 6: pod train-worker-1 failed with exit code 1",
    ]);
    expect(told[0]).toMatchObject({ state: "Restarting", restarts: 3 });
  });

  it("is counted once, however often it is seen, and by its restarts in place too", () => {
    const world = failing(1, { containerRestarts: 2 });
    const once = planJob(snapshot(world), POLICY).status;
    expect(once.replicas[0]).toMatchObject({ restarts: 3, counted: [{ pod: "uid-worker-1", failures: 3 }] });
    expect(planJob(snapshot({ ...world, status: once }), POLICY).status.replicas).toEqual(once.replicas);
  });

  it("stays counted when its pod is gone and another one is there", () => {
    const once = planJob(snapshot(failing(1)), POLICY).status;
    const again = planJob(
      snapshot({ status: once, ...workers(both[0], ended("worker-1", 1, { uid: "another" })) }),
      POLICY,
    ).status;
    expect(again.replicas[0]).toMatchObject({ restarts: 2, counted: [{ pod: "another", failures: 1 }] });
  });

  it("ends the job when it is one more than backoffLimit", () => {
    const limit = (backoffLimit: number) => conditions({ spec: spec({ backoffLimit }), ...failing(1) });
    expect(limit(0)).toContain("Failed: BackoffLimitExceeded");
    expect(limit(1)).toContain("Restarting: JobRestarting");
  });

  describe("under a failure policy", () => {
    const rule = (action: "FailJob" | "RestartPod" | "RestartJob" | "Ignore") =>
      spec({
        backoffLimit: 1,
        failurePolicy: [{ action, replicaTypes: [], on: { exitCodes: "In", values: [42], container: undefined } }],
      });

    it.each([
      ["ends the job when a rule says so", "FailJob", "Failed: FailurePolicy", 0, 0],
      ["is made anew and counted when a rule says so", "RestartPod", "Restarting: JobRestarting", 1, 0],
      ["is made anew without counting when a rule says Ignore", "Ignore", "Restarting: JobRestarting", 0, 0],
      ["has the whole gang made anew, counted once", "RestartJob", "Restarting: JobRestarting", 0, 1],
    ] as const)("%s", (_title, action, condition, restarts, attempts) => {
      const plan = planJob(snapshot({ spec: rule(action), ...failing(42) }), POLICY);
      expect(conditions({ spec: rule(action), ...failing(42) })).toContain(condition);
      expect(plan.status.replicas[0]?.restarts).toBe(restarts);
      expect(plan.status.attemptsCounted).toBe(attempts);
    });

    it("falls back to the restart policy when no rule matches", () => {
      expect(plan({ spec: rule("FailJob"), ...failing(41) })).toEqual(["delete train-worker-1: failed"]);
    });

    it("may look at a pod's condition instead of its exit code", () => {
      const byCondition = spec({
        failurePolicy: [
          { action: "FailJob", replicaTypes: ["worker"], on: { podCondition: "DisruptionTarget", status: "True" } },
        ],
      });
      const world = failing(1, { conditions: [{ type: "DisruptionTarget", status: "True" }] });
      expect(conditions({ spec: byCondition, ...world })).toContain("Failed: FailurePolicy");
    });

    it("has nothing of the next attempt begin beside the one before", () => {
      const first = planJob(snapshot({ spec: rule("RestartJob"), ...failing(42) }), POLICY);
      expect(first.steps.map(line)).toContain("delete train-worker-0: gang-restarts");
      const half = {
        spec: rule("RestartJob"),
        status: first.status,
        budget: 2,
        ...workers(pod("worker-0", { deleting: true }), undefined),
      };
      expect(plan(half)).toEqual([]);
      expect(plan({ ...half, ...workers(undefined, undefined) })).toEqual([
        "create worker-0 on node-worker-0, worker-1 on node-worker-1: missing",
      ]);
    });

    it("gives the gang a pause before it is made anew", () => {
      const plan = planJob(
        snapshot({ spec: rule("RestartJob"), budget: 2, ...failing(42, { finishedMs: NOW_MS - 1000 }) }),
        POLICY,
      );
      expect(plan.steps).toEqual([]);
      expect(plan.lookAgainInMs).toBe(9000);
    });
  });
});

describe("clocks that differ", () => {
  const failedAt = (finishedMs: number) =>
    workers(pod("worker-0"), ended("worker-1", 1, { createdMs: NOW_MS, finishedMs }));

  it.each([
    ["far ahead", NOW_MS + 86_400_000],
    ["far behind", NOW_MS - 86_400_000],
  ])("neither leave out nor lengthen the pause after a failure on a node whose clock is %s", (_title, finishedMs) => {
    const { steps, lookAgainInMs } = planJob(snapshot({ budget: 2, ...failedAt(finishedMs) }), POLICY);
    expect(steps).toEqual([]);
    expect(lookAgainInMs).toBe(POLICY.restartBackoffMs);
  });

  it("put no deadline off: a start in the future, by the clock of another leader, is now", () => {
    const late = { spec: spec({ activeDeadlineMs: 5000 }), status: status({ startMs: NOW_MS + 86_400_000 }) };
    const { status: after, lookAgainInMs } = planJob(
      snapshot({ budget: 2, ...late, ...workers(pod("worker-0"), pod("worker-1")) }),
      POLICY,
    );
    expect(after.startMs).toBe(Math.floor(NOW_MS / 1000) * 1000);
    expect(lookAgainInMs).toBeGreaterThan(0);
    expect(lookAgainInMs).toBeLessThanOrEqual(5000);
  });
});

describe("the end of a job", () => {
  const done = workers(ended("worker-0", 0), ended("worker-1", 0));
  const over = (more: Partial<Snapshot> = {}): JobStatus => planJob(snapshot({ ...done, ...more }), POLICY).status;

  it("is success when its rule holds, even where another pod failed for good", () => {
    const world = {
      spec: spec({
        replicas: [replica("chief", 1), replica("worker", 1, { restartPolicy: "Never" })],
        success: [[{ type: "chief", indexes: "all" }]],
      }),
      replicas: [seen("chief", [ended("chief-0", 0)]), seen("worker", [ended("worker-0", 1)])],
    };
    expect(conditions(world)).toContain("Succeeded: JobSucceeded");
  });

  it.each([
    ["one index", [0], [0], true],
    ["another index", [1], [0], false],
    ["any index", "any", [1], true],
    ["all indexes", "all", [1], false],
  ] as const)("may be decided by %s", (_title, indexes, completed, succeeded) => {
    const world = {
      spec: spec({ success: [[{ type: "worker", indexes }]] }),
      status: workersDone(...completed),
      ...workers(...both),
    };
    expect(conditions(world).includes("Succeeded: JobSucceeded")).toBe(succeeded);
  });

  it("is final: neither success nor failure, nor its time, is changed by what comes after", () => {
    const succeeded = over();
    const failing = workers(ended("worker-0", 1), ended("worker-1", 1));
    for (const world of [failing, { spec: spec({ suspend: true }) }, { nodesLost: ["node-worker-0"] }]) {
      const later = planJob(snapshot({ status: succeeded, nowMs: NOW_MS + 99_000, ...world }), POLICY).status;
      expect(later.conditions).toEqual(succeeded.conditions);
      expect(later.completionMs).toBe(succeeded.completionMs);
    }
  });

  it("takes MachinesReserved away, leaves Running false, and never both Succeeded and Failed", () => {
    const running = planJob(snapshot(workers(...both)), POLICY).status;
    const ended = planJob(snapshot({ status: running, ...done }), POLICY).status;
    expect(ended.conditions.map(({ type, status }) => `${type} ${status}`)).toEqual([
      "Created True",
      "Running False",
      "Succeeded True",
    ]);
  });

  it.each<[string, Parameters<typeof spec>[0], Partial<Snapshot>, string[]]>([
    [
      "deletes what runs",
      { cleanPodPolicy: "Running" },
      workers(both[0], ended("worker-1", 0)),
      ["delete train-worker-0: job-over"],
    ],
    [
      "deletes everything",
      { cleanPodPolicy: "All" },
      workers(both[0], ended("worker-1", 0)),
      ["delete train-worker-0: job-over", "delete train-worker-1: job-over"],
    ],
    [
      "deletes no pod, and keeps the machines while one runs",
      { cleanPodPolicy: "None" },
      workers(both[0], ended("worker-1", 0)),
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
  ])("%s, as its policy says", (_title, policy, world, steps) => {
    expect(plan({ spec: spec(policy), status: over(), budget: undefined, ...world })).toEqual(steps);
  });

  it("comes at the deadline to the second, counted from when it had its machines", () => {
    const limited = spec({ activeDeadlineMs: 60_000 });
    const started = status({ startMs: NOW_MS - 59_000 });
    const before = planJob(snapshot({ spec: limited, status: started, ...workers(...both) }), POLICY);
    expect(before.lookAgainInMs).toBe(1000);
    expect(conditions({ spec: limited, status: started, nowMs: NOW_MS + 1000, ...workers(...both) })).toContain(
      "Failed: DeadlineExceeded",
    );
    expect(conditions({ spec: limited, units: [waiting()], nowMs: NOW_MS + 1e9 })).not.toContain(
      "Failed: DeadlineExceeded",
    );
  });

  it("names the budget rather than the deadline when both are over", () => {
    const world = {
      spec: spec({ backoffLimit: 0, activeDeadlineMs: 1000 }),
      status: status({ startMs: 0 }),
      ...workers(ended("worker-0", 1), both[1]),
    };
    expect(conditions(world)).toContain("Failed: BackoffLimitExceeded");
  });

  it("is Failed with every problem of a spec that could never be read", () => {
    const problems = [
      { field: "spec.a", reason: "is required" },
      { field: "spec.b", reason: "must be positive" },
    ] as const;
    const unreadable = { ok: false, problems, managedBy: undefined } as const;
    const broken = planJob(snapshot({ spec: unreadable, replicas: [], units: [NONE] }), POLICY);
    const failed = conditionOf(broken.status, "Failed");
    expect(failed).toMatchObject({
      status: "True",
      reason: "InvalidSpec",
      message: "the spec is invalid: spec.a: is required; spec.b: must be positive",
    });
    expect(broken.steps).toEqual([]);
  });
});

describe("a job that has begun and whose spec cannot be read any more", () => {
  const problems = [{ field: "spec.a", reason: "no pool of machines" }] as const;
  const unreadable = { ok: false, problems, managedBy: undefined } as const;
  const world = { spec: unreadable, replicas: [], units: [NONE] };

  it.each<[string, Partial<Snapshot>]>([
    ["pods", { strangers: [pod("worker-0")] }],
    ["machines", { units: [granted("worker-0", "worker-1")] }],
    ["a start time", { status: status({ startMs: 5000 }) }],
  ])("keeps everything while it has %s, and says so", (_title, more) => {
    const { status: after, steps } = planJob(snapshot({ ...world, ...more }), POLICY);
    expect(steps).toEqual([]);
    expect(conditionOf(after, "Failed")).toBeUndefined();
    expect(conditionOf(after, "SpecUnreadable")).toMatchObject({
      status: "True",
      reason: "InvalidSpec",
      message:
        "pods and machines stay as they are until the spec can be read again; put right the spec or the controller's configuration, or cancel the job: spec.a: no pool of machines",
    });
  });

  it("goes on as if nothing had been when it can be read again", () => {
    const before = planJob(snapshot(workers(...both)), POLICY).status;
    const kept = planJob(snapshot({ ...world, status: before, strangers: both }), POLICY).status;
    const after = planJob(snapshot({ status: kept, budget: 2, ...workers(...both) }), POLICY);
    expect(after).toMatchObject({ status: before, steps: [] });
  });

  it("ends when somebody asks for it", () => {
    const job = { ...JOB, cancelled: true };
    const { status: after, steps } = planJob(snapshot({ ...world, job, strangers: [pod("worker-0")] }), POLICY);
    expect(conditionOf(after, "Failed")?.reason).toBe("Cancelled");
    expect(steps.map(line)).toEqual(["delete train-worker-0: job-over"]);
  });

  it("keeps its machines when it ends until every pod that was asked for has been seen", () => {
    const over = { ...world, job: { ...JOB, cancelled: true }, units: [granted("worker-0", "worker-1")] };
    expect(plan({ ...over, podsSettled: false })).not.toContainEqual(expect.stringMatching(/^release/));
    expect(plan({ ...over, podsSettled: true })).toContainEqual(expect.stringMatching(/^release .*: job-over$/));
  });
});

describe("a suspended job", () => {
  const suspended = spec({ suspend: true });

  it("has no pods, services, budget or machines, and says so", () => {
    const world = { spec: suspended, budget: 2, services: { present: ["train"], wanted: ["train"], settled: true } };
    expect(plan({ ...world, ...workers(...both) })).toEqual([
      "delete train-worker-0: suspended",
      "delete train-worker-1: suspended",
      "delete-service train: suspended",
      "delete-budget: suspended",
    ]);
    expect(plan({ spec: suspended, budget: undefined })).toEqual(["release gang: suspended"]);
    expect(conditions(world)).toEqual(["Created: JobCreated", "Suspended: JobSuspended"]);
  });

  it("begins anew when it is resumed, with its time and its queue", () => {
    const stopped = planJob(snapshot({ spec: suspended, status: status({ startMs: 5000 }) }), POLICY).status;
    expect(stopped.startMs).toBeUndefined();
    const resumed = planJob(snapshot({ status: stopped, units: [NONE] }), POLICY);
    expect(resumed.status.conditions.map(({ type, status }) => `${type} ${status}`)).toEqual([
      "Created True",
      "Suspended False",
    ]);
    expect(resumed.steps.map(line)).toEqual(["reserve worker-0+worker-1: gang"]);
  });
});

describe("a pod that is evicted while its job is suspended", () => {
  const strict = { replicas: [replica("worker", 2, { restartPolicy: "Never" })], backoffLimit: 0 } as const;
  const conditions = [{ type: "DisruptionTarget", status: "True" }];
  const evicted = ended("worker-1", 143, { reason: "Evicted", conditions, finishedMs: NOW_MS - 60_000 });
  const suspended = { spec: spec({ ...strict, suspend: true }), budget: undefined };

  it("keeps no machine, and the others keep theirs until they are gone", () => {
    expect(plan({ ...suspended, ...workers(both[0], evicted) })).toEqual(["delete train-worker-0: suspended"]);
    expect(plan({ ...suspended, ...workers(pod("worker-0", { deleting: true }), evicted) })).toEqual([]);
    expect(plan({ ...suspended, ...workers(undefined, evicted) })).toEqual(["release gang: suspended"]);
  });

  it("is made anew when the job goes on, and counts for nothing", () => {
    const stopped = planJob(snapshot({ ...suspended, ...workers(undefined, evicted) }), POLICY).status;
    const resumed = { spec: spec(strict), status: stopped, budget: 2, ...workers(undefined, evicted) };
    expect(plan(resumed)).toEqual(["delete train-worker-1: failed", "create worker-0 on node-worker-0: missing"]);
    expect(summariseState(planJob(snapshot(resumed), POLICY).status, 2)).toMatchObject({
      state: "Restarting",
      restarts: 0,
    });
  });
});

describe("an elastic job", () => {
  const elastic = (replicas: number) =>
    spec({ replicas: [replica("worker", replicas, { elastic: { minReplicas: 2, maxReplicas: 8 } })] });
  const extra = (component: string): UnitSeen => ({
    id: `${GANG}--${component}`,
    state: "granted",
    nodes: new Map([[component, `node-${component}`]]),
  });

  it("starts with its least, and asks for each more by itself", () => {
    const world = { spec: elastic(3), replicas: [seen("worker", [...both, undefined])] };
    expect(plan({ ...world, units: [NONE], budget: undefined })).toEqual(["reserve worker-0+worker-1: gang"]);
    expect(plan(world)).toEqual(["reserve worker-2: scaled-up"]);
    expect(plan({ ...world, units: [granted("worker-0", "worker-1"), extra("worker-2")] })).toEqual([
      "create worker-2 on node-worker-2: missing",
    ]);
  });

  it("is over once all that have machines are done, though others still wait for theirs", () => {
    const extras = ["worker-2", "worker-3"].map((component) =>
      waiting({ id: `${GANG}--${component}`, components: [component] }),
    );
    const units = [granted("worker-0", "worker-1"), ...extras];
    const slots = (third: ReturnType<typeof pod> | undefined) => ({
      spec: elastic(4),
      replicas: [seen("worker", [ended("worker-0", 0), ended("worker-1", 0), third, undefined])],
    });
    expect(conditions({ ...slots(undefined), units })).toContain("Succeeded: JobSucceeded");
    const more = [granted("worker-0", "worker-1"), extra("worker-2")];
    expect(conditions({ ...slots(undefined), units: more })).not.toContain("Succeeded: JobSucceeded");
    expect(conditions({ ...slots(pod("worker-2")), units: more })).not.toContain("Succeeded: JobSucceeded");
    expect(conditions({ ...slots(ended("worker-2", 0)), units: more })).toContain("Succeeded: JobSucceeded");
  });

  it.each(["Ready", "Complete"] as const)("has those that need it %s wait only for members with machines", (wanted) => {
    const driver = replica("driver", 1, { dependsOn: [{ type: "worker", status: wanted }] });
    const success = [[{ type: "driver", indexes: "all" as const }]];
    const of = spec({ replicas: [...elastic(4).replicas, driver], success });
    const far = (component: string) => (wanted === "Ready" ? pod(component) : ended(component, 0));
    const plans = (third: ReturnType<typeof pod> | undefined, ...more: UnitSeen[]) =>
      plan({
        spec: of,
        budget: 3,
        units: [granted("worker-0", "worker-1", "driver-0"), ...more],
        replicas: [seen("worker", [far("worker-0"), far("worker-1"), third, undefined]), seen("driver", [undefined])],
      }).filter((step) => step.includes("driver"));
    const made = ["create driver-0 on node-driver-0: missing"];
    expect(plans(undefined)).toEqual(made);
    expect(plans(undefined, extra("worker-2"))).toEqual([]);
    expect(plans(pod("worker-2", { ready: false }), extra("worker-2"))).toEqual([]);
    expect(plans(far("worker-2"), extra("worker-2"))).toEqual(made);
  });

  it("gives back the machines of those that are too many, once their pods are gone", () => {
    const units = [granted("worker-0", "worker-1"), extra("worker-2")];
    const surplus = [{ pod: pod("worker-2"), because: "index-out-of-range" as const }];
    expect(plan({ spec: elastic(2), units, replicas: [seen("worker", both, { surplus })] })).toEqual([
      "delete train-worker-2: index-out-of-range",
    ]);
    expect(plan({ spec: elastic(2), units, ...workers(...both) })).toEqual(["release gang--worker-2: scaled-down"]);
  });
});

describe("other objects of a gang", () => {
  it("are made, changed and removed as it needs them", () => {
    const services = { present: ["train-worker-7"], wanted: ["train-worker-0"], settled: true };
    expect(plan({ services, budget: undefined, ...workers(...both) })).toEqual([
      "delete-service train-worker-7: scaled-down",
      "create-service train-worker-0: missing",
      "budget of 2: missing",
    ]);
    expect(plan({ budget: 5, ...workers(...both) })).toEqual(["budget of 2: changed"]);
    const none = { spec: spec({ minAvailable: 0 }), ...workers(...both) };
    expect(plan({ ...none, budget: 0 })).toEqual([]);
    expect(plan({ ...none, budget: "edited" })).toEqual(["budget of 0: changed"]);
    expect(plan({ services: { ...services, settled: false }, ...workers(...both) })).toEqual([]);
  });
});

it.each([
  ["a job", spec({ managedBy: "another" })],
  [
    "a job that it cannot read",
    { ok: false, problems: [{ field: "spec", reason: "" }], managedBy: "another" } as const,
  ],
])("leaves %s alone that another controller has", (_title, spec) => {
  const plan = planJob(snapshot({ spec, units: [NONE] }), POLICY);
  expect(plan).toEqual({ status: NEW_STATUS, steps: [], lookAgainInMs: undefined });
});

it("ends a job as cancelled when somebody asks for it, suspended or not, unless it is over", () => {
  const job = { ...JOB, cancelled: true };
  expect(conditions({ job, ...workers(...both) })).toContain("Failed: Cancelled");
  expect(conditions({ job, spec: spec({ suspend: true }) })).toContain("Failed: Cancelled");
  const succeeded = planJob(snapshot(workers(ended("worker-0", 0), ended("worker-1", 0))), POLICY).status;
  expect(conditions({ job, status: succeeded })).not.toContain("Failed: Cancelled");
});

describe("names that pods of others have", () => {
  const taken = (...pods: string[]) => pods.map((name) => ({ pod: name, owner: "TFJob train" }));
  const noted = (more: Partial<Snapshot>) =>
    planJob(snapshot(more), POLICY).status.conditions.find(({ type }) => type === "PodNamesTaken");

  it("are told with their owners, a few of many", () => {
    const one = noted({ namesTaken: taken("train-worker-0") });
    expect(one).toMatchObject({ status: "True", reason: "NameConflict" });
    expect(one?.message).toBe("pod train-worker-0 belongs to TFJob train; this job needs the name");
    expect(noted({ namesTaken: taken("a", "b", "c", "d", "e") })?.message).toMatch(/pod c belongs .*, and 2 more;/);
  });

  it("are nobody's business before there are machines, and are forgotten once they are free or the job is over", () => {
    expect(noted({ namesTaken: taken("train-worker-0"), units: [NONE] })).toBeUndefined();
    const before = planJob(snapshot({ namesTaken: taken("train-worker-0") }), POLICY).status;
    expect(noted({ status: before })).toBeUndefined();
    for (const change of [{ job: { ...JOB, cancelled: true } }, { spec: spec({ suspend: true }) }])
      expect(noted({ status: before, namesTaken: taken("train-worker-0"), ...change })).toBeUndefined();
  });

  it("are why the job only starts", () => {
    const { status: after } = planJob(snapshot({ namesTaken: taken("train-worker-0") }), POLICY);
    expect(summariseState(after, 2)).toMatchObject({
      state: "Starting",
      message: expect.stringContaining("belongs to TFJob train") as unknown,
    });
  });
});
