import { describe, expect, it } from "vitest";
import {
  both,
  listConditions,
  GANG,
  NONE,
  planSteps,
  makeStatus,
  succeeded,
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
  makeReplicaSeen,
  makeSnapshot,
  makeSpec,
} from "../../test/samples.ts";
import { findCondition } from "./job-status.ts";
import { planJob } from "./plan-job.ts";
import type { Snapshot, UnitSeen } from "./snapshot.ts";

describe("machines", () => {
  it.each<[string, Partial<Snapshot>, string[]]>([
    [
      "are requested together, before any pod",
      { units: [NONE], budget: undefined },
      ["reserve worker-0+worker-1: gang"],
    ],
    [
      "are requested if the ledger does not know the job",
      { units: [], budget: undefined },
      ["reserve worker-0+worker-1: gang"],
    ],
    ["delay the pods until the grant", { units: [makeWaitingUnit()], budget: undefined }, []],
    [
      "are not requested while the ledger is silent",
      { units: [{ id: GANG, state: "unknown" }], budget: undefined },
      [],
    ],
    [
      "are requested again after the pause of a refusal",
      { units: [makeWaitingUnit({ state: "refused", sinceMs: NOW_MS - 30_000 })], budget: undefined },
      ["reserve worker-0+worker-1: gang"],
    ],
    [
      "are not requested again during the pause",
      { units: [makeWaitingUnit({ state: "refused", sinceMs: NOW_MS - 29_999 })], budget: undefined },
      [],
    ],
    [
      "are requested again when the job grew while it waited",
      { units: [makeWaitingUnit({ components: ["worker-0"] })], budget: undefined },
      [`release gang: needs-changed`],
    ],
    ["get all their pods once granted", {}, ["create worker-0 on node-worker-0, worker-1 on node-worker-1: missing"]],
    [
      "are released when the job is being deleted, once its pods are gone",
      { job: { ...JOB, deleting: true } },
      ["release gang: job-over"],
    ],
    [
      "are kept while a pod of a deleted job may run",
      { job: { ...JOB, deleting: true }, ...makeWorkers(makePodFact("worker-0", { deleting: true }), undefined) },
      [],
    ],
    [
      "are kept while a requested pod was not observed",
      {
        job: { ...JOB, deleting: true },
        replicas: [makeReplicaSeen("worker", [undefined, undefined], { podsSettled: false })],
      },
      [],
    ],
    [
      "of a waiting job that is being deleted are withdrawn immediately",
      { job: { ...JOB, deleting: true }, units: [makeWaitingUnit()] },
      ["release gang: job-over"],
    ],
  ])("%s", (_title, world, steps) => {
    expect(planSteps(world)).toEqual(steps);
  });

  it("have a condition with the reason of the wait, and with the grant", () => {
    expect(listConditions({ units: [makeWaitingUnit()] })).toEqual([
      "Created: JobCreated",
      "not MachinesReserved: POOL_AVAILABILITY",
    ]);
    expect(listConditions({})).toEqual(["Created: JobCreated", "MachinesReserved: MachinesGranted"]);
  });

  it("do not write their numbers at every change", () => {
    const first = planJob(makeSnapshot({ units: [makeWaitingUnit()] }), POLICY).status;
    const other = makeWaitingUnit({
      because: { code: "POOL_AVAILABILITY", text: "2 of pool-a requested, 0 available" },
    });
    expect(planJob(makeSnapshot({ units: [other], status: first }), POLICY).status).toEqual(first);
    const later = planJob(
      makeSnapshot({ units: [other], status: first, nowMs: NOW_MS + POLICY.explainEveryMs }),
      POLICY,
    ).status;
    expect(findCondition(later, "MachinesReserved")?.message).toBe("2 of pool-a requested, 0 available");
  });
});

describe("a machine that is lost", () => {
  const lost = { nodesLost: ["node-worker-1"] };
  const replaced = makeStatus({ replaced: ["worker-1"] });
  const REJECTIONS = [
    { component: "worker-1", node: "node-worker-1", podUid: "uid-1", text: "OutOfcpu", untilMs: NOW_MS + 1 },
  ];
  const unbound = (pinned: string) =>
    makePodFact("worker-1", { phase: "Pending", ready: false, node: undefined, pinned });
  const own = (state: "waiting" | "granted", sinceMs = NOW_MS): UnitSeen =>
    state === "granted"
      ? { id: `${GANG}--worker-1`, state, nodes: new Map([["worker-1", "node-other"]]) }
      : {
          ...makeWaitingUnit({ sinceMs }),
          id: `${GANG}--worker-1`,
          state,
          components: ["worker-1"],
          because: { code: "POOL_AVAILABILITY", text: "" },
          sinceMs,
        };

  it.each<[string, Partial<Snapshot>, string[]]>([
    [
      "is replaced by another machine, and its pod is deleted",
      { ...lost, ...makeWorkers(...both) },
      ["reserve worker-1: machine-lost", "delete train-worker-1: machine-lost"],
    ],
    [
      "is not requested again when it returns",
      { status: replaced, ...makeWorkers(both[0], undefined) },
      ["reserve worker-1: machine-lost"],
    ],
    [
      "has its member created on the replacement, once the first pod is gone",
      {
        ...lost,
        status: replaced,
        units: [makeGrantedUnit("worker-0", "worker-1"), own("granted")],
        ...makeWorkers(both[0], undefined),
      },
      ["create worker-1 on node-other: missing"],
    ],
    [
      "has its unplaced pod deleted, which is recreated on the member's present machine",
      {
        ...lost,
        status: replaced,
        units: [makeGrantedUnit("worker-0", "worker-1"), own("granted")],
        ...makeWorkers(both[0], unbound("node-worker-1")),
      },
      ["delete train-worker-1: machine-lost"],
    ],
    [
      "has its unplaced pod deleted even after its return, once its member is elsewhere",
      {
        status: replaced,
        units: [makeGrantedUnit("worker-0", "worker-1"), own("granted")],
        ...makeWorkers(both[0], unbound("node-worker-1")),
      },
      ["delete train-worker-1: machine-lost"],
    ],
    [
      "leaves a pod that is bound to its member's machine",
      {
        ...lost,
        status: replaced,
        units: [makeGrantedUnit("worker-0", "worker-1"), own("granted")],
        ...makeWorkers(both[0], unbound("node-other")),
      },
      [],
    ],
    [
      "does not affect unplaced pods while the ledger is silent",
      { units: [{ id: GANG, state: "unknown" }], ...makeWorkers(both[0], unbound("node-elsewhere")) },
      [],
    ],
    [
      "does not create its member twice while the first pod exists",
      {
        ...lost,
        status: replaced,
        units: [makeGrantedUnit("worker-0", "worker-1"), own("granted")],
        ...makeWorkers(both[0], makePodFact("worker-1", { deleting: true })),
      },
      ["remove train-worker-1 by force: machine-lost"],
    ],
    [
      "has its pod removed by force even after the job",
      {
        ...lost,
        status: makeStatus({ conditions: [succeeded] }),
        units: [],
        budget: undefined,
        ...makeWorkers(undefined, makePodFact("worker-1", { deleting: true })),
      },
      ["remove train-worker-1 by force: machine-lost"],
    ],
    [
      "lets other members run while its replacement is pending",
      {
        ...lost,
        status: replaced,
        units: [makeGrantedUnit("worker-0", "worker-1"), own("waiting")],
        ...makeWorkers(both[0], undefined),
      },
      [],
    ],
    [
      "that returns while its replacement is pending is used again",
      {
        nodesBack: ["node-worker-1"],
        status: replaced,
        units: [makeGrantedUnit("worker-0", "worker-1"), own("waiting")],
        ...makeWorkers(both[0], undefined),
      },
      ["release gang--worker-1: scaled-down", "create worker-1 on node-worker-1: missing"],
    ],
    [
      "that returns is used again if no replacement is available",
      {
        nodesBack: ["node-worker-1"],
        status: replaced,
        units: [makeGrantedUnit("worker-0", "worker-1"), { ...own("waiting"), state: "refused" } as UnitSeen],
        ...makeWorkers(both[0], undefined),
      },
      ["create worker-1 on node-worker-1: missing"],
    ],
    [
      "that returns is not used if foreign pods leave no room on it",
      {
        nodesBack: ["node-worker-1"],
        status: replaced,
        units: [makeGrantedUnit("worker-0", "worker-1"), own("waiting")],
        crowded: [
          {
            component: "worker-1",
            node: "node-worker-1",
            resources: [],
            foreign: { pods: 1, examples: [] },
            sinceMs: NOW_MS,
            isLost: false,
          },
        ],
        ...makeWorkers(both[0], undefined),
      },
      [],
    ],
    [
      "that has just rejected a pod of the member is not used, and another one is requested",
      {
        rejections: REJECTIONS,
        nodesBack: ["node-worker-1"],
        units: [makeGrantedUnit("worker-0", "worker-1")],
        ...makeWorkers(both[0], undefined),
      },
      ["reserve worker-1: machine-lost"],
    ],
    [
      "that rejected a pod is used again after 30 seconds if no other one was granted",
      {
        rejections: REJECTIONS.map((each) => ({ ...each, untilMs: NOW_MS })),
        nodesBack: ["node-worker-1"],
        status: replaced,
        units: [makeGrantedUnit("worker-0", "worker-1"), own("waiting")],
        ...makeWorkers(both[0], undefined),
      },
      ["release gang--worker-1: scaled-down", "create worker-1 on node-worker-1: missing"],
    ],
    [
      "that rejected a pod of another member is used",
      {
        rejections: REJECTIONS.map((each) => ({ ...each, component: "worker-0" })),
        units: [makeGrantedUnit("worker-0", "worker-1")],
        ...makeWorkers(both[0], undefined),
      },
      ["create worker-1 on node-worker-1: missing"],
    ],
    [
      "that was itself a replacement is released and requested again",
      {
        nodesLost: ["node-other"],
        status: replaced,
        units: [makeGrantedUnit("worker-0", "worker-1"), own("granted")],
        ...makeWorkers(both[0], undefined),
      },
      ["release gang--worker-1: machine-lost"],
    ],
    [
      "makes the gang release all machines without a replacement in time, so that two gangs cannot block each other",
      {
        ...lost,
        status: replaced,
        units: [makeGrantedUnit("worker-0", "worker-1"), own("waiting", NOW_MS - POLICY.replacementWaitMs)],
        ...makeWorkers(both[0], undefined),
      },
      ["delete train-worker-0: gang-restarts", "release gang--worker-1: gang-restarts"],
    ],
    [
      "that is used again, such as after a suspension, gets its member, and its replacement is released",
      { units: [makeGrantedUnit("worker-0", "worker-1"), own("granted")], ...makeWorkers(both[0], undefined) },
      ["release gang--worker-1: scaled-down", "create worker-1 on node-worker-1: missing"],
    ],
    [
      "has all machines requested again once all were released",
      {
        status: makeStatus({ replaced: ["worker-1"], regrouping: true, attempt: 1 }),
        units: [makeGrantedUnit("worker-0", "worker-1")],
        ...makeWorkers(undefined, undefined),
      },
      ["release gang: gang-restarts"],
    ],
  ])("%s", (_title, world, steps) => {
    expect(planSteps(world)).toEqual(steps);
  });

  it("omits completed members when all machines are requested again, and keeps their pods", () => {
    const done = { ...makeDoneWorkers(0), attempt: 1 };
    const world = { status: done, ...makeWorkers(makeEndedPod("worker-0", 0), undefined) };
    expect(planSteps({ ...world, units: [NONE], budget: undefined })).toEqual(["reserve worker-1: gang"]);
    expect(planSteps({ ...world, units: [makeGrantedUnit("worker-1")] })).toEqual([
      "create worker-1 on node-worker-1: missing",
    ]);
  });

  it("does not restart the deadline when all machines are requested again", () => {
    const startMs = NOW_MS - 100_000;
    const regrouping = makeStatus({ startMs, regrouping: true, attempt: 1 });
    const gone = planJob(makeSnapshot({ status: regrouping, units: [NONE] }), POLICY).status;
    expect(gone).toMatchObject({ regrouping: false, startMs });
    expect(
      listConditions({ status: gone, spec: makeSpec({ activeDeadlineMs: 100_000 }), units: [makeWaitingUnit()] }),
    ).toContain("Failed: DeadlineExceeded");
  });

  it("does not count against the restart budget", () => {
    const world = { spec: makeSpec({ backoffLimit: 0 }), ...lost, ...makeWorkers(...both) };
    expect(listConditions(world)).toContain("Restarting: JobRestarting");
    expect(planJob(makeSnapshot(world), POLICY).status.replicas[0]?.restarts).toBe(0);
  });
});
