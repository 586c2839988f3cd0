import { describe, expect, it } from "vitest";
import {
  both,
  listConditions,
  GANG,
  planSteps,
  makeStatus,
  makeWaitingUnit,
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
import { buildMemberUnitId } from "./build-units.ts";
import { findCondition, type Condition } from "./job-status.ts";
import { planJob } from "./plan-job.ts";
import { findStatusChanges } from "./find-status-changes.ts";
import type { Snapshot, UnitPreemption, UnitSeen } from "./snapshot.ts";
import { summariseState } from "./summarise-state.ts";

const PREEMPTION: UnitPreemption = {
  beneficiary: { kind: "job", id: "urgent-0a1b" },
  queue: "team-b",
  reason: "RECLAIM",
  deadlineMs: NOW_MS + 40_000,
  accepted: true,
};

function preempted(
  more: Partial<UnitPreemption> = {},
  unit: UnitSeen = makeGrantedUnit("worker-0", "worker-1"),
): UnitSeen {
  return unit.state === "granted" ? { ...unit, preemption: { ...PREEMPTION, ...more } } : unit;
}

const OVERDUE = { units: [preempted({ deadlineMs: NOW_MS })] };
const leaving = [makePodFact("worker-0", { deleting: true }), makePodFact("worker-1", { deleting: true })];
const ready = { nodesReady: ["node-worker-0", "node-worker-1"] };
const condition = (type: Condition["type"], reason: string, is: Condition["status"] = "True"): Condition => ({
  type,
  status: is,
  reason,
  message: "",
  lastUpdateMs: NOW_MS,
  lastTransitionMs: NOW_MS,
});

describe("a job with preempted machines", () => {
  it.each<[string, Partial<Snapshot>, string[]]>([
    [
      "continues until the ledger knows that it leaves",
      { ...makeWorkers(...both), units: [preempted({ accepted: false })] },
      ["accept-preemption of gang: RECLAIM"],
    ],
    [
      "then ends its pods, services and budget, and keeps its machines meanwhile",
      {
        ...makeWorkers(...both),
        services: { present: ["train"], wanted: ["train"], settled: true },
        units: [preempted()],
      },
      [
        "delete train-worker-0: preempted",
        "delete train-worker-1: preempted",
        "delete-service train: preempted",
        "delete-budget: preempted",
      ],
    ],
    [
      "waits for its pods to end within their grace",
      { ...makeWorkers(...leaving), ...ready, units: [preempted()] },
      [],
    ],
    [
      "forces the pods that are left after the deadline",
      { ...makeWorkers(...leaving), ...ready, ...OVERDUE },
      ["remove train-worker-0 by force: preempted", "remove train-worker-1 by force: preempted"],
    ],
    [
      "deletes a pod before it forces it",
      { ...makeWorkers(...both), ...ready, ...OVERDUE },
      ["delete train-worker-0: preempted", "delete train-worker-1: preempted"],
    ],
    [
      "forces no pod on a node that does not answer, and keeps its machines",
      { ...makeWorkers(...leaving), nodesReady: ["node-worker-1"], ...OVERDUE },
      ["remove train-worker-1 by force: preempted"],
    ],
    [
      "waits again once no pod may run, even with finished pods",
      { ...makeWorkers(makeEndedPod("worker-0", 0), makeEndedPod("worker-1", 1)), units: [preempted()] },
      ["requeue of gang: preempted"],
    ],
    [
      "waits until creations that it has requested are observed",
      { replicas: [makeReplicaSeen("worker", [undefined, undefined], { podsSettled: false })], units: [preempted()] },
      [],
    ],
    ["waits again immediately if it has no pod yet", { units: [preempted()] }, ["requeue of gang: preempted"]],
    [
      "counts no exit after the announcement as an end",
      {
        ...makeWorkers(
          makeEndedPod("worker-0", 0, { preempted: true }),
          makeEndedPod("worker-1", 1, { preempted: true }),
        ),
        units: [preempted()],
      },
      ["delete train-worker-0: preempted", "delete train-worker-1: preempted", "requeue of gang: preempted"],
    ],
    [
      "releases the machines instead when it is suspended",
      { spec: makeSpec({ suspend: true }), units: [preempted()] },
      ["release gang: suspended"],
    ],
    [
      "releases the machines instead when it is cancelled",
      { job: { ...makeSnapshot().job, cancelled: true }, units: [preempted()] },
      ["release gang: job-over"],
    ],
    [
      "releases the machines instead when it has succeeded",
      { ...makeWorkers(makeEndedPod("worker-0", 0), makeEndedPod("worker-1", 0)), units: [preempted()] },
      ["release gang: job-over"],
    ],
    [
      "leaves although its spec has become unreadable",
      {
        spec: { ok: false, problems: [{ field: "spec", reason: "wrong" }], managedBy: undefined },
        replicas: [],
        unknownTypes: both,
        units: [preempted()],
      },
      ["delete train-worker-0: preempted", "delete train-worker-1: preempted"],
    ],
  ])("%s", (_title, more, steps) => {
    expect(
      planSteps({ budget: steps.some((step) => step.startsWith("delete-budget")) ? 2 : undefined, ...more }),
    ).toEqual(steps);
  });

  it("has a condition with the reason, the beneficiary and the deadline, and is neither running nor has machines", () => {
    const before = makeStatus({
      startMs: NOW_MS - 5000,
      conditions: [
        condition("Created", "JobCreated"),
        condition("MachinesReserved", "MachinesGranted"),
        condition("Running", "JobRunning"),
      ],
    });
    const { status: after, recheckInMs } = planJob(
      makeSnapshot({ ...makeWorkers(...both), status: before, units: [preempted()] }),
      POLICY,
    );
    expect(findCondition(after, "Preempted")).toMatchObject({
      status: "True",
      reason: "RECLAIM",
      message:
        "its machines are taken for job/urgent-0a1b of the queue team-b, which owns the quota that the job borrows; " +
        "its pods end by 1970-01-12T13:47:20.000Z, and then it waits again at its old place",
    });
    expect(findCondition(after, "Running")).toMatchObject({ status: "False" });
    expect(findCondition(after, "MachinesReserved")).toBeUndefined();
    expect(after.startMs).toBeUndefined();
    expect(recheckInMs).toBe(40_000);
    expect(summariseState(after, 2).state).toBe("Preempted");
    expect(findStatusChanges(before, after, [])).toMatchObject([
      { kind: "Preempted", type: "Normal", reason: "Preempted" },
    ]);
  });

  it("stays preempted while it waits and starts again, until it runs", () => {
    const before = makeStatus({ conditions: [condition("Preempted", "RECLAIM")] });
    expect(listConditions({ status: before, units: [makeWaitingUnit({ isRequeued: true })] })).toEqual([
      "Preempted: RECLAIM",
      "Created: JobCreated",
      "not MachinesReserved: POOL_AVAILABILITY",
    ]);
    expect(listConditions({ status: before })).toContain("Preempted: RECLAIM");
    expect(listConditions({ ...makeWorkers(...both), status: before })).toEqual(
      expect.arrayContaining(["not Preempted: JobRunning", "Running: JobRunning"]),
    );
  });
});

it.each<[string, Partial<Parameters<typeof makeWaitingUnit>[0]>, string[]]>([
  ["keeps its place with the machine of a member that has completed", { isRequeued: true }, []],
  ["is requested again if it never was preempted", {}, ["release gang: needs-changed"]],
  [
    "is requested again if it has a surplus member",
    { isRequeued: true, components: ["worker-0", "worker-1", "worker-2"] },
    ["release gang: needs-changed"],
  ],
  [
    "is requested again if it lacks a member",
    { isRequeued: true, components: ["worker-0"] },
    ["release gang: needs-changed"],
  ],
])("a waiting reservation %s", (_title, more, steps) => {
  expect(planSteps({ status: makeDoneWorkers(0), units: [makeWaitingUnit(more)], budget: undefined })).toEqual(steps);
});

describe("a member whose own machine is preempted", () => {
  const elastic = makeSpec({
    replicas: [makeReplica("worker", 3, { elastic: { minReplicas: 2, maxReplicas: 4 } })],
  });
  const extra: UnitSeen = { ...makeGrantedUnit("worker-2"), id: buildMemberUnitId(GANG, "worker-2") };
  const gang = makeGrantedUnit("worker-0", "worker-1");
  const with2 = (...third: Parameters<typeof makeReplicaSeen>[1]): Partial<Snapshot> => ({
    spec: elastic,
    replicas: [makeReplicaSeen("worker", [...both, ...third])],
    nodesReady: ["node-worker-2"],
    budget: 2,
  });

  it.each<[string, Partial<Snapshot>, UnitSeen, string[]]>([
    [
      "stays until the ledger knows",
      with2(makePodFact("worker-2")),
      preempted({ accepted: false }, extra),
      ["accept-preemption of gang--worker-2: RECLAIM"],
    ],
    ["ends alone", with2(makePodFact("worker-2")), preempted({}, extra), ["delete train-worker-2: preempted"]],
    [
      "is forced after the deadline",
      with2(makePodFact("worker-2", { deleting: true })),
      preempted({ deadlineMs: NOW_MS }, extra),
      ["remove train-worker-2 by force: preempted"],
    ],
    [
      "waits again, and is not recreated",
      with2(undefined),
      preempted({}, extra),
      ["requeue of gang--worker-2: preempted"],
    ],
    [
      "is deleted if it ended after the announcement",
      with2(makeEndedPod("worker-2", 0, { preempted: true })),
      preempted({}, extra),
      ["requeue of gang--worker-2: preempted", "delete train-worker-2: preempted"],
    ],
    [
      "leaves with its gang",
      with2(makePodFact("worker-2")),
      preempted({}, gang),
      [
        "delete train-worker-0: preempted",
        "delete train-worker-1: preempted",
        "delete train-worker-2: preempted",
        "delete-budget: preempted",
      ],
    ],
  ])("%s", (_title, more, unit, steps) => {
    const units = unit.id === GANG ? [unit, extra] : [gang, unit];
    expect(planSteps({ ...more, units })).toEqual(steps);
  });
});
