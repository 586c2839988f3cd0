import fc from "fast-check";
import { describe, expect, it } from "vitest";
import type { ConditionFacts, ContainerStateFacts, ContainerStatusFacts, PodFacts } from "./pod-facts.ts";
import { decidePodHealth, type PodVerdict } from "./pod-health.ts";

const CREATED = Date.UTC(2026, 0, 1);
const GRACE = 120_000;
const at = (seconds: number) => new Date(CREATED + seconds * 1000).toISOString();

type Sketch = {
  readonly node?: string;
  readonly restart?: string;
  readonly probe?: boolean;
  readonly phase?: string;
  readonly reason?: string;
  readonly message?: string;
  readonly main?: Partial<ContainerStatusFacts>;
  readonly sidecar?: Partial<ContainerStatusFacts>;
  readonly init?: Partial<ContainerStatusFacts>;
  readonly initBeside?: boolean;
  readonly conditions?: readonly ConditionFacts[];
  /** Seconds after creation at which deletion was requested, with 30 s of grace. */
  readonly deletionAsked?: number;
};

function pod(sketch: Sketch): PodFacts {
  const status = (name: string, part: Partial<ContainerStatusFacts> | undefined) =>
    part === undefined ? [] : [{ name, ...part }];
  return {
    metadata: {
      creationTimestamp: at(0),
      ...(sketch.deletionAsked === undefined
        ? {}
        : { deletionTimestamp: at(sketch.deletionAsked + 30), deletionGracePeriodSeconds: 30 }),
    },
    spec: {
      ...(sketch.node === undefined ? {} : { nodeName: sketch.node }),
      restartPolicy: sketch.restart ?? "Never",
      containers: [
        { name: "main", ...(sketch.probe === true ? { readinessProbe: {} } : {}) },
        ...(sketch.sidecar === undefined ? [] : [{ name: "sidecar" }]),
      ],
      initContainers: [{ name: "setup", ...(sketch.initBeside === true ? { restartPolicy: "Always" } : {}) }],
    },
    status: {
      ...(sketch.phase === undefined ? {} : { phase: sketch.phase }),
      ...(sketch.reason === undefined ? {} : { reason: sketch.reason }),
      ...(sketch.message === undefined ? {} : { message: sketch.message }),
      conditions: sketch.conditions ?? [],
      containerStatuses: [...status("sidecar", sketch.sidecar), ...status("main", sketch.main)],
      initContainerStatuses: status("setup", sketch.init),
    },
  };
}

const runs: ContainerStateFacts = { running: { startedAt: at(5) } };
const waits = (reason: string, message = "why"): ContainerStateFacts => ({ waiting: { reason, message } });
const ended = (
  exitCode: number,
  reason = exitCode === 0 ? "Completed" : "Error",
  atSeconds = 20,
): ContainerStateFacts => ({
  terminated: { exitCode, reason, finishedAt: at(atSeconds) },
});
const unschedulable: ConditionFacts = {
  type: "PodScheduled",
  status: "False",
  reason: "Unschedulable",
  message: "0/3 nodes are available",
};
const disrupted = (reason: string, atSeconds: number): ConditionFacts => ({
  type: "DisruptionTarget",
  status: "True",
  reason,
  message: "reported",
  lastTransitionTime: at(atSeconds),
});

/** Judged 30 s after creation, inside the start grace, unless the row states otherwise. */
const judge = (sketch: Sketch, seconds = 30) =>
  decidePodHealth(pod(sketch), { startGraceMs: GRACE, nowMs: CREATED + seconds * 1000 });

type Row = readonly [title: string, sketch: Sketch, expected: Partial<PodVerdict>];

describe("a pod without statuses", () => {
  it.each<Row>([
    [
      "is not ready, and states the number of statuses",
      {},
      { health: "NOT_READY", reason: "Pending", message: '0 container statuses, none of "main"' },
    ],
    [
      "is not ready when only another container has a status",
      { sidecar: { state: runs } },
      { health: "NOT_READY", reason: "Pending", message: '1 container statuses, none of "main"' },
    ],
    [
      "is not ready while it is unschedulable",
      { conditions: [unschedulable] },
      {
        health: "NOT_READY",
        reason: "Unschedulable",
        message: "0/3 nodes are available",
        reevaluateAtMs: CREATED + GRACE,
      },
    ],
    [
      "waits for ever behind a scheduling gate",
      { conditions: [{ ...unschedulable, reason: "SchedulingGated" }] },
      { health: "NOT_READY", reason: "SchedulingGated" },
    ],
  ])("%s", (_title, sketch, expected) => {
    expect(judge(sketch)).toMatchObject(expected);
  });

  it("without a single field is not ready", () => {
    expect(decidePodHealth({}, { startGraceMs: GRACE, nowMs: CREATED })).toMatchObject({ health: "NOT_READY" });
  });
});

describe("the main container", () => {
  it.each<Row>([
    [
      "ended with 0: succeeded",
      { main: { state: ended(0) } },
      { health: "SUCCEEDED", reason: "Completed", exitCode: 0 },
    ],
    [
      "ended with another code: failed",
      { main: { state: ended(3) } },
      { health: "FAILED", reason: "Error", message: "", exitCode: 3 },
    ],
    [
      "was killed for its memory: failed",
      { main: { state: ended(137, "OOMKilled") } },
      { health: "FAILED", reason: "OOMKilled", exitCode: 137 },
    ],
    [
      "ended before and runs again under Never: the end counts",
      { main: { state: runs, lastState: ended(1) } },
      { health: "FAILED", exitCode: 1 },
    ],
    [
      "ended before and runs again under Always: it runs",
      { restart: "Always", main: { state: runs, lastState: ended(1) } },
      { health: "READY" },
    ],
    [
      "ended twice: the current end wins",
      { main: { state: ended(0), lastState: ended(1) } },
      { health: "SUCCEEDED", exitCode: 0 },
    ],
    [
      "ended under Always: it is restarted",
      { restart: "Always", main: { state: ended(0) } },
      { health: "NOT_READY", reason: "Completed", exitCode: 0 },
    ],
    [
      "failed under OnFailure: it is restarted",
      { restart: "OnFailure", main: { state: ended(1) } },
      { health: "NOT_READY", reason: "Error", exitCode: 1 },
    ],
    [
      "succeeded under OnFailure: succeeded",
      { restart: "OnFailure", main: { state: ended(0) } },
      { health: "SUCCEEDED" },
    ],
    [
      "cannot be started: failed under any policy",
      { restart: "Always", main: { state: ended(128, "StartError") } },
      { health: "FAILED", reason: "StartError", exitCode: 128 },
    ],
    [
      "crashes repeatedly: failed, with the last exit code",
      { restart: "Always", main: { state: waits("CrashLoopBackOff"), lastState: ended(2) } },
      { health: "FAILED", reason: "CrashLoopBackOff", message: "container main: why", exitCode: 2 },
    ],
    ["runs without a probe: ready", { main: { state: runs, ready: false } }, { health: "READY", reason: "" }],
    ["runs and its probe succeeds: ready", { probe: true, main: { state: runs, ready: true } }, { health: "READY" }],
    [
      "runs and its probe fails: not ready",
      { probe: true, main: { state: runs, ready: false } },
      { health: "NOT_READY", reason: "ProbeFailing" },
    ],
    [
      "is being created: unknown",
      { main: { state: waits("ContainerCreating") } },
      { health: "UNKNOWN", reason: "ContainerCreating" },
    ],
    [
      "waits for init containers: unknown",
      { main: { state: waits("PodInitializing") } },
      { health: "UNKNOWN", reason: "PodInitializing" },
    ],
    ["has an empty state: unknown", { main: { state: {} } }, { health: "UNKNOWN" }],
    ["has no state at all: unknown", { main: {} }, { health: "UNKNOWN" }],
    [
      "succeeded although another container failed: succeeded",
      { phase: "Failed", main: { state: ended(0) }, sidecar: { state: ended(1) } },
      { health: "SUCCEEDED" },
    ],
    [
      "runs although another container failed: ready",
      { phase: "Running", main: { state: runs }, sidecar: { state: ended(1) } },
      { health: "READY" },
    ],
  ])("%s", (_title, sketch, expected) => {
    expect(judge(sketch)).toMatchObject(expected);
  });

  it("is the one named by the policy", () => {
    const two = pod({ main: { state: ended(1) }, sidecar: { state: runs } });
    const policy = { startGraceMs: GRACE, nowMs: CREATED };
    expect(decidePodHealth(two, { ...policy, mainContainer: "sidecar" })).toMatchObject({ health: "READY" });
    expect(decidePodHealth(two, { ...policy, mainContainer: "typo" })).toMatchObject({
      health: "NOT_READY",
      reason: "MainContainerMissing",
      reevaluateAtMs: CREATED + GRACE,
    });
  });
});

describe("an init container", () => {
  it.each<Row>([
    [
      "failed under Never: failed",
      { main: { state: waits("PodInitializing") }, init: { state: ended(4) } },
      { health: "FAILED", reason: "InitContainerError", message: "init container setup ended with 4: Error" },
    ],
    [
      "failed under Always: it is retried",
      { restart: "Always", main: { state: waits("PodInitializing") }, init: { state: ended(4) } },
      { health: "UNKNOWN", reason: "PodInitializing" },
    ],
    [
      "crashes repeatedly: failed",
      { restart: "Always", main: { state: waits("PodInitializing") }, init: { state: waits("CrashLoopBackOff") } },
      { health: "FAILED", reason: "CrashLoopBackOff", message: "init container setup: why" },
    ],
    [
      "cannot get its image: unknown for a while",
      { main: { state: waits("PodInitializing") }, init: { state: waits("ErrImagePull") } },
      { health: "UNKNOWN", reason: "ErrImagePull", reevaluateAtMs: CREATED + GRACE },
    ],
    [
      "runs: the pod waits for it",
      { main: { state: waits("PodInitializing") }, init: { state: runs } },
      { health: "UNKNOWN", reason: "PodInitializing" },
    ],
    [
      "beside the running main container crashes: no matter",
      { initBeside: true, main: { state: runs }, init: { state: waits("CrashLoopBackOff") } },
      { health: "READY" },
    ],
    [
      "made the phase Failed: its own message is kept",
      { phase: "Failed", init: { state: ended(4) } },
      { health: "FAILED", reason: "InitContainerError" },
    ],
  ])("%s", (_title, sketch, expected) => {
    expect(judge(sketch)).toMatchObject(expected);
  });
});

describe("a pod as a whole", () => {
  it.each<Row>([
    [
      "was evicted by the kubelet: failed",
      { phase: "Failed", reason: "Evicted", message: "low on memory" },
      { health: "FAILED", reason: "Evicted", message: "low on memory" },
    ],
    [
      "was evicted and its container ended with 0 on the way out: failed",
      { phase: "Failed", reason: "Evicted", main: { state: ended(0) } },
      { health: "FAILED", reason: "Evicted", exitCode: 0 },
    ],
    [
      "was over its deadline: failed",
      { phase: "Failed", reason: "DeadlineExceeded" },
      { health: "FAILED", reason: "DeadlineExceeded" },
    ],
    ["has failed without a reason: failed", { phase: "Failed" }, { health: "FAILED", reason: "Failed" }],
    ["has succeeded without a reason: succeeded", { phase: "Succeeded" }, { health: "SUCCEEDED" }],
    [
      "is on a node that is lost: failed",
      { phase: "Unknown", main: { state: runs } },
      { health: "FAILED", reason: "NodeLost" },
    ],
    [
      "had succeeded before its node was lost: succeeded",
      { phase: "Unknown", main: { state: ended(0) } },
      { health: "SUCCEEDED" },
    ],
    ["is being deleted: failed", { deletionAsked: 25, main: { state: runs } }, { health: "FAILED", reason: "Deleted" }],
    [
      "is being deleted after it had succeeded: succeeded",
      { deletionAsked: 25, main: { state: ended(0) } },
      { health: "SUCCEEDED" },
    ],
    [
      "is being deleted after it had failed: failed for its own reason",
      { deletionAsked: 25, main: { state: ended(9) } },
      { health: "FAILED", reason: "Error", exitCode: 9 },
    ],
    [
      "ended with 0 because it was deleted: failed",
      { deletionAsked: 10, main: { state: ended(0) } },
      { health: "FAILED", reason: "Deleted", exitCode: 0 },
    ],
    [
      "is being deleted because its node is gone: failed",
      { deletionAsked: 25, conditions: [disrupted("DeletionByTaintManager", 25)], main: { state: runs } },
      { health: "FAILED", reason: "DeletionByTaintManager", message: "reported" },
    ],
    [
      "is being drained and ended with 0 on the way out: failed",
      { deletionAsked: 12, conditions: [disrupted("EvictionByEvictionAPI", 11)], main: { state: ended(0) } },
      { health: "FAILED", reason: "EvictionByEvictionAPI" },
    ],
    [
      "was collected because its node is gone: failed, with the node and the reason of the disruption",
      { phase: "Failed", node: "n-1", conditions: [disrupted("DeletionByPodGC", 25)], main: { state: runs } },
      { health: "FAILED", reason: "DeletionByPodGC", message: "on node n-1: reported" },
    ],
    [
      "was collected with its node after its container had failed: failed for its own reason",
      { phase: "Failed", node: "n-1", conditions: [disrupted("DeletionByPodGC", 25)], main: { state: ended(9) } },
      { health: "FAILED", reason: "Error", exitCode: 9 },
    ],
    [
      "was ended by the kubelet for a reason of its own: failed for that reason",
      {
        phase: "Failed",
        reason: "Terminated",
        message: "shutdown",
        conditions: [disrupted("TerminationByKubelet", 9)],
      },
      { health: "FAILED", reason: "Terminated", message: "shutdown" },
    ],
    [
      "is being deleted because its named node is tainted: failed, and names the node",
      {
        deletionAsked: 25,
        node: "n-1",
        conditions: [disrupted("DeletionByTaintManager", 25)],
        main: { state: runs },
      },
      { health: "FAILED", reason: "DeletionByTaintManager", message: "on node n-1: reported" },
    ],
    [
      "is on a named node that is lost: failed, and names the node",
      { phase: "Unknown", node: "n-1", main: { state: runs } },
      { health: "FAILED", reason: "NodeLost", message: "node n-1 of the pod does not answer" },
    ],
    [
      "was not disrupted after all: unchanged",
      { conditions: [disrupted("PreemptionByScheduler", 11)], main: { state: runs } },
      { health: "READY" },
    ],
  ])("%s", (_title, sketch, expected) => {
    expect(judge(sketch)).toMatchObject(expected);
  });
});

describe("trouble at the start", () => {
  it.each([
    "ErrImagePull",
    "ImagePullBackOff",
    "ErrImageNeverPull",
    "InvalidImageName",
    "ImageInspectError",
    "RegistryUnavailable",
    "SignatureValidationFailed",
    "CreateContainerConfigError",
    "CreateContainerError",
    "RunContainerError",
  ])("%s is unknown with a reason at first, and failed once the grace is over", (reason) => {
    const sketch = { main: { state: waits(reason) } };
    expect(judge(sketch, 119)).toMatchObject({ health: "UNKNOWN", reason, reevaluateAtMs: CREATED + GRACE });
    expect(judge(sketch, 120)).toEqual({ health: "FAILED", reason, message: "container main: why" });
  });

  it("fails an unschedulable pod once the grace period has passed", () => {
    expect(judge({ conditions: [unschedulable] }, 120)).toMatchObject({ health: "FAILED", reason: "Unschedulable" });
  });

  it("counts from the moment the pod was scheduled", () => {
    const scheduled = { type: "PodScheduled", status: "True", lastTransitionTime: at(100) };
    const sketch = { conditions: [scheduled], main: { state: waits("ErrImagePull") } };
    expect(judge(sketch, 150)).toMatchObject({ health: "UNKNOWN", reevaluateAtMs: CREATED + 100_000 + GRACE });
  });

  it("counts from the last end of a container that had run before", () => {
    const sketch = {
      restart: "Always",
      main: { state: waits("ErrImagePull"), lastState: ended(0, "Completed", 5000) },
    };
    expect(judge(sketch, 5001)).toMatchObject({ health: "UNKNOWN", reevaluateAtMs: CREATED + 5_000_000 + GRACE });
  });

  it("never turns slow but normal progress into a failure", () => {
    for (const reason of ["ContainerCreating", "PodInitializing", ""]) {
      expect(judge({ main: { state: waits(reason) } }, 100_000).health).toBe("UNKNOWN");
    }
  });
});
describe("a pod that loses its node", () => {
  const judgeGone = (sketch: Sketch, seconds: number) =>
    decidePodHealth(pod(sketch), {
      startGraceMs: GRACE,
      nowMs: CREATED + seconds * 1000,
      nodeGone: { sinceMs: CREATED + 30_000, graceMs: 40_000 },
    });

  it("keeps its state while the node may return, and fails afterwards", () => {
    expect(judgeGone({ main: { state: runs } }, 69)).toMatchObject({
      health: "READY",
      reevaluateAtMs: CREATED + 70_000,
    });
    expect(judgeGone({ main: { state: runs } }, 70)).toMatchObject({ health: "FAILED", reason: "NodeLost" });
    expect(judgeGone({ node: "n-1", main: { state: runs } }, 70).message).toBe("node n-1 of the pod is gone");
  });

  it("keeps an end that was reported before", () => {
    expect(judgeGone({ main: { state: ended(0) } }, 100)).toMatchObject({ health: "SUCCEEDED" });
    expect(judgeGone({ main: { state: ended(3) } }, 100)).toMatchObject({ health: "FAILED", exitCode: 3 });
  });

  it("fails earlier for its own error", () => {
    const sketch = { main: { state: waits("ErrImagePull") } };
    expect(judgeGone(sketch, 60).reevaluateAtMs).toBe(CREATED + 70_000);
    const late = decidePodHealth(pod(sketch), {
      startGraceMs: 35_000,
      nowMs: CREATED + 31_000,
      nodeGone: { sinceMs: CREATED + 30_000, graceMs: 40_000 },
    });
    expect(late.reevaluateAtMs).toBe(CREATED + 35_000);
  });
});

it("a container that never becomes ready stays NOT_READY, whatever limits the time", () => {
  expect(judge({ probe: true, main: { state: runs, ready: false } }, 1_000_000)).toEqual({
    health: "NOT_READY",
    reason: "ProbeFailing",
    message: "the probe of container main has not succeeded",
  });
});

const state = fc.oneof(
  fc.constant(runs),
  fc
    .constantFrom("CrashLoopBackOff", "ErrImagePull", "ContainerCreating", "PodInitializing")
    .map((reason) => waits(reason)),
  fc
    .record({
      code: fc.constantFrom(0, 1, 128, 137),
      reason: fc.constantFrom("Error", "Completed", "StartError"),
      seconds: fc.nat(200),
    })
    .map(({ code, reason, seconds }) => ended(code, reason, seconds)),
  fc.constant({}),
);
const status = fc.record({ state, lastState: state, ready: fc.boolean() }, { requiredKeys: [] });
const anySketch: fc.Arbitrary<Sketch> = fc.record(
  {
    restart: fc.constantFrom("Never", "OnFailure", "Always"),
    probe: fc.boolean(),
    phase: fc.constantFrom("Pending", "Running", "Succeeded", "Failed", "Unknown"),
    reason: fc.constantFrom("Evicted", "NodeLost"),
    main: status,
    sidecar: status,
    init: status,
    initBeside: fc.boolean(),
    conditions: fc.subarray([unschedulable, disrupted("DeletionByTaintManager", 50)]),
    deletionAsked: fc.nat(200),
  },
  { requiredKeys: [] },
);
const seconds = fc.nat(400);

describe("any pod", () => {
  it("succeeds only by an end with 0 of its main container, or by its phase", () => {
    fc.assert(
      fc.property(anySketch, seconds, (sketch, now) => {
        if (judge(sketch, now).health !== "SUCCEEDED") return;
        const ends = [sketch.main?.state?.terminated, sketch.main?.lastState?.terminated];
        expect(sketch.phase === "Succeeded" || ends.some((end) => end?.exitCode === 0)).toBe(true);
      }),
    );
  });

  it("that was not ended, deleted or lost, and may still start, has no final state", () => {
    const harmless = anySketch.filter(
      ({ phase, deletionAsked, main, init }) =>
        (phase === undefined || phase === "Pending" || phase === "Running") &&
        deletionAsked === undefined &&
        [main, init].every((each) =>
          [each?.state, each?.lastState].every((one) => one?.terminated === undefined && one?.waiting === undefined),
        ),
    );
    fc.assert(
      fc.property(harmless, seconds, (sketch, now) => {
        const lost = sketch.reason === "NodeLost";
        const stuck = sketch.conditions?.includes(unschedulable) === true && now * 1000 >= GRACE;
        if (lost || stuck) return;
        expect(["UNKNOWN", "READY", "NOT_READY"]).toContain(judge(sketch, now).health);
      }),
    );
  });

  it("changes over time only to FAILED, and exactly when announced", () => {
    fc.assert(
      fc.property(anySketch, seconds, seconds, (sketch, first, second) => {
        const [early, late] = [Math.min(first, second), Math.max(first, second)];
        const before = judge(sketch, early);
        const after = judge(sketch, late);
        const due = before.reevaluateAtMs !== undefined && CREATED + late * 1000 >= before.reevaluateAtMs;
        if (due) expect(after.health).toBe("FAILED");
        else expect(after).toEqual(before);
      }),
    );
  });

  it("is judged the same whatever order its statuses come in", () => {
    fc.assert(
      fc.property(anySketch, seconds, (sketch, now) => {
        const one = pod(sketch);
        const policy = { startGraceMs: GRACE, nowMs: CREATED + now * 1000, mainContainer: "main" };
        const reversed = {
          ...one,
          status: { ...one.status, containerStatuses: [...(one.status?.containerStatuses ?? [])].reverse() },
        };
        expect(decidePodHealth(reversed, policy)).toEqual(decidePodHealth(one, policy));
      }),
    );
  });
});
