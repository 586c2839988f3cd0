import { describe, expect, it } from "vitest";
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
import { buildOwnerId } from "./build-units.ts";
import { findCondition, NEW_STATUS, type ConditionType, type JobStatus } from "./job-status.ts";
import { planJob } from "./plan-job.ts";
import type { Snapshot, UnitSeen } from "./snapshot.ts";

const planned = (more: Partial<Snapshot>): JobStatus => planJob(makeSnapshot(more), POLICY).status;
const said = (more: Partial<Snapshot>, type: ConditionType) => findCondition(planned(more), type);

describe("a gang with a member that waits for a replacement machine", () => {
  const own: UnitSeen = {
    id: `${buildOwnerId(JOB)}--worker-0`,
    state: "waiting",
    components: ["worker-0"],
    because: { code: "POOL_AVAILABILITY", text: "2 of pool-a requested, 0 available" },
    sinceMs: NOW_MS,
  };
  const look: Partial<Snapshot> = {
    status: { ...NEW_STATUS, replaced: ["worker-0"] },
    units: [makeGrantedUnit("worker-0", "worker-1"), own],
    replicas: [makeReplicaSeen("worker", [undefined, makePodFact("worker-1")])],
  };

  it("has the condition Restarting, and states which member waits and why", () => {
    expect(said(look, "Restarting")).toMatchObject({ status: "True" });
    expect(said(look, "Running")).toBeUndefined();
    expect(said(look, "MachinesReserved")).toMatchObject({
      status: "True",
      reason: "MembersWait",
      message: "2 machines are reserved, but worker-0 waits for another one: 2 of pool-a requested, 0 available",
    });
  });

  it("does not update numbers that were written recently", () => {
    const status = planned(look);
    const units = [
      makeGrantedUnit("worker-0", "worker-1"),
      { ...own, because: { code: "POOL_AVAILABILITY", text: "1 free" } },
    ];
    expect(findCondition(planned({ ...look, status, units }), "MachinesReserved")?.message).toContain("0 available");
    const nowMs = NOW_MS + POLICY.explainEveryMs;
    expect(findCondition(planned({ ...look, status, units, nowMs }), "MachinesReserved")?.message).toContain("1 free");
  });
});

describe("a job that ran", () => {
  const running = planned({
    replicas: [makeReplicaSeen("worker", [makePodFact("worker-0"), makePodFact("worker-1")])],
  });

  it("keeps the condition Running between the end of a quick member and the start of a slow one", () => {
    const pending = makePodFact("worker-1", { phase: "Pending", ready: false });
    const first = planned({ replicas: [makeReplicaSeen("worker", [makePodFact("worker-0"), pending])] });
    expect(findCondition(first, "Running")).toMatchObject({ status: "True" });
    const later = planned({
      status: first,
      replicas: [makeReplicaSeen("worker", [makeEndedPod("worker-0", 0), pending])],
    });
    expect(findCondition(later, "Running")).toEqual(findCondition(first, "Running"));
  });

  it("loses the condition Running if none of its pods runs", () => {
    expect(findCondition(running, "Running")).toMatchObject({ status: "True" });
    const idle = makePodFact("worker-0", { phase: "Pending", ready: false });
    const after = planned({ status: running, replicas: [makeReplicaSeen("worker", [idle, idle])] });
    expect(findCondition(after, "Running")).toMatchObject({ status: "False", reason: "NoPodRuns" });
  });
});

it("keeps the condition about taken names while the ledger is silent", () => {
  const namesTaken = [{ pod: "train-worker-0", owner: "no owner" }];
  const status = planned({ namesTaken });
  const silent: UnitSeen = { id: buildOwnerId(JOB), state: "unknown" };
  expect(said({ namesTaken, status, units: [silent] }, "PodNamesTaken")).toMatchObject({ status: "True" });
  expect(said({ namesTaken, units: [silent] }, "PodNamesTaken")).toBeUndefined();
});

it("states the reasons of deletions: an unneeded budget, a job of another controller", () => {
  const unwanted = planJob(makeSnapshot({ budget: 2 }), { ...POLICY, gangScheduling: false });
  expect(unwanted.steps).toContainEqual({ kind: "delete-budget", because: "not-wanted" });
  const handedOver = planJob(
    makeSnapshot({
      spec: makeSpec({ managedBy: "other.example/controller" }),
      replicas: [makeReplicaSeen("worker", [makePodFact("worker-0")])],
    }),
    POLICY,
  );
  expect(new Set(handedOver.steps.map(({ because }) => because))).toEqual(new Set(["handed-over"]));
});
