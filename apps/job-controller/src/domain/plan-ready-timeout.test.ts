import { describe, expect, it } from "vitest";
import { both, printStep, NONE, makeStatus, makeWaitingUnit, makeWorkers } from "../../test/planned-job.ts";
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
import { findCondition, type Condition, type JobStatus } from "./job-status.ts";
import { planJob } from "./plan-job.ts";
import { findStatusChanges } from "./find-status-changes.ts";
import { READY_TIMEOUT } from "./plan-ready-timeout.ts";
import type { Snapshot, UnitSeen } from "./snapshot.ts";
import { summariseState } from "./summarise-state.ts";

const TIMEOUT_MS = 60_000;
const gang = { ...makeGrantedUnit("worker-0", "worker-1"), queue: "team-a" } as UnitSeen;
const starting = makePodFact("worker-1", { ready: false });
const condition = (type: Condition["type"], reason: string, is: Condition["status"] = "True"): Condition => ({
  type,
  status: is,
  reason,
  message: "",
  lastUpdateMs: NOW_MS - 90_000,
  lastTransitionMs: NOW_MS - 90_000,
});
const startedAgo = (ms: number, more: Partial<JobStatus> = {}): JobStatus =>
  makeStatus({ startMs: NOW_MS - ms, conditions: [condition("Created", "JobCreated")], ...more });

/** Builds a gang that has had its machines for as long as its queue permits. */
const late = (more: Partial<Snapshot> = {}): Snapshot =>
  makeSnapshot({
    budget: 2,
    ...makeWorkers(makePodFact("worker-0"), starting),
    queue: { kind: "queue", name: "team-a" },
    readyTimeoutMs: TIMEOUT_MS,
    status: startedAgo(TIMEOUT_MS),
    units: [gang],
    ...more,
  });
const steps = (seenJob: Snapshot): readonly string[] => planJob(seenJob, POLICY).steps.map(printStep);
const budget = "delete-budget: ready-timeout";
const leaves = ["delete train-worker-0: ready-timeout", "delete train-worker-1: ready-timeout", budget];

describe("a gang that is not ready in time", () => {
  it.each<[string, Partial<Snapshot>, readonly string[]]>([
    ["leaves its machines", {}, leaves],
    ["waits until the time is over", { status: startedAgo(TIMEOUT_MS - 1000) }, []],
    ["stays where its queue has no limit", { readyTimeoutMs: undefined }, []],
    ["stays if it was ready once", { status: startedAgo(TIMEOUT_MS, { hasBeenReady: true }) }, []],
    ["stays if it is ready now", { ...makeWorkers(...both) }, []],
    [
      "counts a member that has completed as ready",
      { ...makeWorkers(makePodFact("worker-0"), makeEndedPod("worker-1", 0)) },
      [],
    ],
    [
      "leaves with a member that has no pod",
      { ...makeWorkers(makePodFact("worker-0"), undefined) },
      [leaves[0] ?? "", budget],
    ],
    [
      "leaves with a pod of an earlier attempt",
      { status: startedAgo(TIMEOUT_MS, { attempt: 1 }), ...makeWorkers(...both) },
      leaves,
    ],
    ["stays if the ledger does not answer", { units: [{ ...NONE, state: "unknown" }] }, []],
    [
      "stays with the members that an elastic type needs",
      {
        spec: makeSpec({ replicas: [makeReplica("worker", 3, { elastic: { minReplicas: 2, maxReplicas: 4 } })] }),
        replicas: [makeReplicaSeen("worker", [...both, makePodFact("worker-2", { ready: false })])],
      },
      ["reserve worker-2: scaled-up", "delete train-worker-2: machine-lost"],
    ],
    [
      "keeps its machines while a pod may run",
      {
        status: leaving(),
        budget: undefined,
        ...makeWorkers(makePodFact("worker-0", { attempt: 0, deleting: true }), undefined),
      },
      [],
    ],
    [
      "releases them once none may",
      { status: leaving(), budget: undefined, ...makeWorkers(undefined, undefined) },
      ["release gang: ready-timeout"],
    ],
  ])("%s", (_title, more, planned) => {
    expect(steps(late(more))).toEqual(planned);
  });

  it("has a condition and a wait with the reason and the time of the next request, and an event", () => {
    const trouble = { reason: "ImagePullBackOff", message: "no such image" };
    const before = startedAgo(TIMEOUT_MS, {
      readyTimeouts: 2,
      lastReadyTimeoutMs: NOW_MS - 300_000,
      conditions: [
        condition("Created", "JobCreated"),
        condition("Requeued", "ReadyTimeout"),
        condition("MachinesReserved", "MachinesGranted"),
        { ...condition("PodsWaiting", trouble.reason), message: "worker-1: no such image" },
        condition("Running", "JobRunning"),
      ],
    });
    const { status: after } = planJob(late({ status: before }), POLICY);
    const message =
      "1 of 2 members were ready within the readyTimeout 1m of the queue team-a, 3 times in a row; its machines are released, " +
      "and requested again at 1970-01-12T13:47:20.000Z: worker-1: no such image";
    expect(findCondition(after, "Requeued")).toMatchObject({ status: "True", reason: "ReadyTimeout", message });
    expect(findCondition(after, "MachinesReserved")).toMatchObject({ status: "False", reason: READY_TIMEOUT, message });
    expect(findCondition(after, "Running")).toMatchObject({ status: "False" });
    expect(after).toMatchObject({ regrouping: true, readyTimeouts: 3, lastReadyTimeoutMs: NOW_MS, attempt: 1 });
    expect(after).toMatchObject({ startMs: undefined, attemptsCounted: 0 });
    expect(summariseState(after, 2)).toMatchObject({ state: "Queued", message, restarts: 0 });
    expect(findStatusChanges(before, after, [])).toMatchObject([
      { kind: "Requeued", type: "Warning", reason: "ReadyTimeout" },
    ]);
    expect(planJob(late({ status: startedAgo(20_000) }), POLICY).recheckInMs).toBe(TIMEOUT_MS - 20_000);
  });

  it.each<[string, UnitSeen, Partial<JobStatus>, readonly string[], number | undefined]>([
    ["requests nothing in the pause", NONE, { readyTimeouts: 2 }, [], 5000],
    [
      "requests its machines again afterwards",
      NONE,
      { readyTimeouts: 1 },
      ["reserve worker-0+worker-1: gang"],
      undefined,
    ],
    [
      "withdraws a request that waits again too early",
      makeWaitingUnit({ queue: "team-a" }),
      { readyTimeouts: 2 },
      ["release gang: ready-timeout"],
      5000,
    ],
    [
      "keeps machines that it has all the same",
      gang,
      { readyTimeouts: 2 },
      ["create worker-0 on node-worker-0, worker-1 on node-worker-1: missing"],
      5000,
    ],
    [
      "waits for no time that is by another clock",
      NONE,
      { readyTimeouts: 1, lastReadyTimeoutMs: NOW_MS + 60_000 },
      ["reserve worker-0+worker-1: gang"],
      undefined,
    ],
  ])("%s", (_title, unit, more, planned, recheckInMs) => {
    const before = startedAgo(0, { startMs: undefined, lastReadyTimeoutMs: NOW_MS - 15_000, ...more });
    const seenJob = late({ status: before, units: [unit], ...makeWorkers(undefined, undefined) });
    expect(steps(seenJob)).toEqual(planned);
    expect(planJob(seenJob, POLICY).recheckInMs).toBe(recheckInMs);
  });

  it("begins a new row of timeouts once it is ready, and at a suspension", () => {
    const row = { readyTimeouts: 2, lastReadyTimeoutMs: NOW_MS - 300_000 };
    const before = startedAgo(5000, { ...row, conditions: [condition("Requeued", "ReadyTimeout")] });
    const ready = planJob(late({ status: before, ...makeWorkers(...both) }), POLICY).status;
    expect(ready).toMatchObject({ hasBeenReady: true, readyTimeouts: 0, lastReadyTimeoutMs: undefined });
    expect(findCondition(ready, "Requeued")).toMatchObject({ status: "False", reason: "GangReady" });
    const suspended = planJob(late({ status: ready, spec: makeSpec({ suspend: true }) }), POLICY).status;
    expect(suspended).toMatchObject({ hasBeenReady: false, readyTimeouts: 0 });
    const left = planJob(late({ status: before, spec: makeSpec({ suspend: true }) }), POLICY).status;
    expect(left).toMatchObject({ readyTimeouts: 0, lastReadyTimeoutMs: undefined });
    expect(findCondition(left, "Requeued")).toBeUndefined();
  });

  it("records nothing for a job without a queue", () => {
    const units = [makeGrantedUnit("worker-0", "worker-1")];
    expect(planJob(late({ ...makeWorkers(...both), units }), POLICY).status.hasBeenReady).toBe(false);
  });
});

/** Builds the status after the decision, while the pods end. */
function leaving(): JobStatus {
  const timeout = { readyTimeouts: 1, lastReadyTimeoutMs: NOW_MS, conditions: [condition("Requeued", "ReadyTimeout")] };
  return startedAgo(0, { startMs: undefined, regrouping: true, attempt: 1, ...timeout });
}
