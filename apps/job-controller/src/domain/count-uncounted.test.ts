import { describe, expect, it } from "vitest";
import {
  makeEndedPod,
  NOW_MS,
  makePodFact,
  POLICY,
  makeReplica,
  makeReplicaSeen,
  makeSnapshot,
  makeSpec,
} from "../../test/samples.ts";
import { countUncounted } from "./count-uncounted.ts";
import type { FailureRule, JobSpec } from "./job.ts";
import { NEW_STATUS, type JobStatus, type UncountedRecreations } from "./job-status.ts";
import { planJob } from "./plan-job.ts";
import type { PodFact, Snapshot } from "./snapshot.ts";

const DISRUPTED = [{ type: "DisruptionTarget", status: "True" }];
const on = { exitCodes: "In", values: [42], container: undefined } as const;
const rule = (action: FailureRule["action"]): JobSpec =>
  makeSpec({ backoffLimit: 0, failurePolicy: [{ action, replicaTypes: [], on }] });
const row = (more: Partial<UncountedRecreations> = {}): UncountedRecreations => ({
  index: 1,
  pod: "uid-before",
  times: 2,
  atMs: NOW_MS - 100_000,
  because: "disrupted",
  ...more,
});
const status = (uncounted: readonly UncountedRecreations[], completedIndexes: number[] = []): JobStatus => {
  const counts = { active: 0, ready: 0, succeeded: 0, failed: 0, restarts: 0, counted: [] };
  return { ...NEW_STATUS, replicas: [{ ...counts, type: "worker", completedIndexes, uncounted }] };
};

function rowAfter(second: PodFact | undefined, more: Partial<Snapshot> = {}, of = rule("Ignore")): string {
  const world = makeSnapshot({
    spec: of,
    status: status([row()]),
    replicas: [makeReplicaSeen("worker", [undefined, second])],
    ...more,
  });
  const [next] = countUncounted(world, of, world.status, POLICY).replicas[0]?.uncounted ?? [];
  return next === undefined ? "none" : `${next.times} ${next.because} ${next.pod}`;
}

describe("a row of uncounted restarts", () => {
  const calm = { startedMs: NOW_MS - POLICY.calmAfterMs };
  const notCalm = { startedMs: NOW_MS - POLICY.calmAfterMs + 1 };
  it.each<[string, PodFact | undefined, string]>([
    ["stays while the member has no pod", undefined, "2 disrupted uid-before"],
    ["stays while the next pod runs", makePodFact("worker-1", notCalm), "2 disrupted uid-before"],
    ["ends when the next pod has run for long enough", makePodFact("worker-1", calm), "none"],
    ["grows by a failure that a rule ignores", makeEndedPod("worker-1", 42, notCalm), "3 failure-policy uid-worker-1"],
    ["grows by a pod that never ran", makeEndedPod("worker-1", 42), "3 failure-policy uid-worker-1"],
    [
      "starts over with a pod that had run for long",
      makeEndedPod("worker-1", 42, calm),
      "1 failure-policy uid-worker-1",
    ],
    ["grows by a disruption", makeEndedPod("worker-1", 1, { conditions: DISRUPTED }), "3 disrupted uid-worker-1"],
    [
      "grows by an evicted pod",
      makePodFact("worker-1", { deleting: true, conditions: DISRUPTED }),
      "3 disrupted uid-worker-1",
    ],
    [
      "does not grow by a pod that a client deletes",
      makePodFact("worker-1", { deleting: true }),
      "2 disrupted uid-before",
    ],
    [
      "does not grow by a preempted pod, whatever its end",
      makeEndedPod("worker-1", 42, { preempted: true, conditions: DISRUPTED }),
      "2 disrupted uid-before",
    ],
    ["does not grow by a counted failure", makeEndedPod("worker-1", 1), "2 disrupted uid-before"],
    [
      "does not grow by a pod that was already counted",
      makeEndedPod("worker-1", 42, { uid: "uid-before" }),
      "2 disrupted uid-before",
    ],
    [
      "does not grow by a pod of an earlier attempt",
      makeEndedPod("worker-1", 42, { attempt: 7 }),
      "2 disrupted uid-before",
    ],
  ])("%s", (_title, second, said) => {
    expect(rowAfter(second)).toBe(said);
  });

  it("grows by one for a lost machine", () => {
    const lost = { nodesLost: ["node-worker-1"] };
    expect(rowAfter(makePodFact("worker-1"), lost)).toBe("3 machine-lost uid-worker-1");
    const noted = { ...lost, status: status([row({ pod: "uid-worker-1" })]) };
    expect(rowAfter(makePodFact("worker-1", { deleting: true, conditions: DISRUPTED }), noted)).toBe(
      "2 disrupted uid-worker-1",
    );
  });

  it("ends when the member completes", () => {
    expect(rowAfter(makeEndedPod("worker-1", 42), { status: status([row()], [1]) })).toBe("none");
  });

  it("ends at a suspension of the job, after which its pod waits for no pause", () => {
    const job = rule("Ignore");
    const slots = [makeReplicaSeen("worker", [undefined, undefined])];
    const before = status([row({ times: 19, atMs: NOW_MS })]);
    const suspended = { spec: { ...job, suspend: true }, status: before, replicas: slots };
    const stopped = planJob(makeSnapshot(suspended), POLICY).status;
    expect(stopped.replicas[0]?.uncounted).toEqual([]);
    const resumed = planJob(makeSnapshot({ spec: job, status: stopped, replicas: slots }), POLICY);
    const made = resumed.steps.flatMap((step) =>
      step.kind === "create-pods" ? step.pods.map(({ index }) => index) : [],
    );
    expect(made).toEqual([0, 1]);
  });

  it("does not grow by a disruption that a rule counts", () => {
    const counts: JobSpec = makeSpec({
      failurePolicy: [
        { action: "RestartPod", replicaTypes: [], on: { podCondition: "DisruptionTarget", status: "True" } },
      ],
    });
    const second = makeEndedPod("worker-1", 1, { conditions: DISRUPTED });
    expect(rowAfter(second, {}, counts)).toBe("2 disrupted uid-before");
    expect(rowAfter({ ...second, deleting: true }, {}, counts)).toBe("2 disrupted uid-before");
  });
});

describe("a member that is recreated without counting", () => {
  const failing = (times: number, more: Partial<Snapshot> = {}): Snapshot =>
    makeSnapshot({
      spec: rule("Ignore"),
      budget: 2,
      status: status([row({ times })]),
      replicas: [makeReplicaSeen("worker", [makePodFact("worker-0"), makeEndedPod("worker-1", 42)])],
      ...more,
    });

  it.each([
    [0, 10_000],
    [1, 20_000],
    [4, 160_000],
    [19, POLICY.maxRestartBackoffMs],
  ])("waits after %i earlier restarts for %i ms from its end, whichever replica leads", (times, pauseMs) => {
    const first = planJob(failing(times), POLICY);
    expect(first.steps).toEqual([]);
    expect(first.recheckInMs).toBe(pauseMs);
    const later = { status: first.status, nowMs: NOW_MS + pauseMs };
    expect(planJob(failing(times, { ...later, nowMs: later.nowMs - 1 }), POLICY).steps).toEqual([]);
    expect(planJob(failing(times, later), POLICY).steps).toMatchObject([{ kind: "delete-pod", pod: "train-worker-1" }]);
  });

  it("also waits if its pod is already gone, unless the time of its end is implausible", () => {
    const gone = (atMs: number): Snapshot =>
      failing(3, {
        status: status([row({ times: 3, atMs })]),
        replicas: [makeReplicaSeen("worker", [makePodFact("worker-0"), undefined])],
      });
    const made = { kind: "create-pods", pods: [{ type: "worker", index: 1 }] };
    expect(planJob(gone(NOW_MS - 39_999), POLICY)).toMatchObject({ steps: [], recheckInMs: 1 });
    expect(planJob(gone(NOW_MS - 40_000), POLICY).steps).toMatchObject([made]);
    expect(planJob(gone(NOW_MS + 86_400_000), POLICY).steps).toMatchObject([made]);
  });

  it("fails its job beyond the limit, and the reason names it, the rule and the number", () => {
    const said = (times: number): unknown => planJob(failing(times), POLICY).status.conditions.at(-1);
    expect(said(POLICY.maxUncountedRestarts - 1)).toMatchObject({ type: "Restarting" });
    expect(said(POLICY.maxUncountedRestarts)).toMatchObject({
      type: "Failed",
      reason: "UncountedRestartsExceeded",
      message:
        "worker-1 ended 21 times in a row without that counting, the last time because a failure rule has the action Ignore, and the limit is 20",
    });
  });

  it("never fails its job if failures of its type are ignored, and waits equally long", () => {
    const dynamic = makeSpec({ replicas: [makeReplica("worker", 2, { failuresIgnored: true })] });
    const { status: after, recheckInMs: recheckInMs } = planJob(failing(100, { spec: dynamic }), POLICY);
    expect(after.replicas[0]?.uncounted).toMatchObject([{ times: 101, because: "failures-ignored" }]);
    expect(after.conditions.at(-1)).toMatchObject({ type: "Restarting" });
    expect(recheckInMs).toBe(POLICY.maxRestartBackoffMs);
  });
});
