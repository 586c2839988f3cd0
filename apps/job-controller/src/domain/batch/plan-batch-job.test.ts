import { BATCH_JOB, JOB_SET, QUEUED_POD } from "@muster/names";
import { describe, expect, it } from "vitest";
import type { UnitSeen } from "../snapshot.ts";
import { buildGangId, type BatchJob, type BatchPod, type BatchSnapshot, type PodSet } from "./batch-job.ts";
import { listEmptyPlaces, listRejectedPods } from "./find-places.ts";
import { planBatchJob, type BatchStep } from "./plan-batch-job.ts";
import { NO_PROGRESS, type StartProgress } from "./start-progress.ts";

const NOW = 1_000_000;
const POLICY = {
  replacementWaitMs: 600_000,
  refusedRetryMs: 30_000,
  maxRecheckMs: 3_600_000,
  restartBackoffMs: 10_000,
  maxRestartBackoffMs: 360_000,
};
const SHARE = { cpu: 100 };

const SET: PodSet = { name: "pod", first: 0, pods: 2, need: { pool: "workers", shared: SHARE } };
const podsOf = (pods: number): Pick<BatchJob, "sets"> => ({ sets: [{ ...SET, pods }] });

function job(more: Partial<BatchJob> = {}): BatchJob {
  return {
    kind: BATCH_JOB,
    namespace: "team-a",
    name: "train",
    uid: "0a1b2c3d-4e5f-6789-abcd-ef0123456789",
    queue: "team-a",
    deleting: false,
    finished: false,
    suspended: true,
    stopped: true,
    started: false,
    gated: true,
    sets: [SET],
    topology: undefined,
    graceMs: 130_000,
    start: NO_PROGRESS,
    ...more,
  };
}
const ID = buildGangId(job());
const RUNNING = { suspended: false, stopped: false, started: true };

function pod(name: string, more: Partial<BatchPod> = {}): BatchPod {
  const fresh = { component: "", place: undefined, scheduled: false, gated: true, deleting: false, finished: false };
  return { name, uid: name, set: "pod", createdMs: 0, ready: false, ...fresh, ...more };
}
function placed(name: string, component: string, node: string, more: Partial<BatchPod> = {}): BatchPod {
  return pod(name, { component, place: node, scheduled: true, gated: false, ...more });
}

function granted(nodes: Readonly<Record<string, string>>, id = ID): UnitSeen {
  const shares = new Map(Object.keys(nodes).map((component) => [component, SHARE]));
  return { id, state: "granted", nodes: new Map(Object.entries(nodes)), shares, queue: "team-a" };
}
const GANG = granted({ "pod-0": "n1", "pod-1": "n2" });

function waiting(components: readonly string[], more: Partial<Extract<UnitSeen, { sinceMs: number }>> = {}): UnitSeen {
  const shares = new Map(components.map((component) => [component, SHARE]));
  const because = { code: "WAITING_FOR_QUOTA", text: "cpu" };
  return { id: ID, state: "waiting", components, shares, queue: "team-a", because, sinceMs: NOW, ...more };
}
const extra = (component: string): string => `${ID}--${component}`;

/** A place whose room foreign pods have taken. */
const CROWDED = {
  ...{ component: "pod-0", node: "n1", resources: [], foreign: { pods: 1, examples: [] } },
  ...{ sinceMs: NOW - 1000, isLost: true },
};
const REJECTION = { component: "pod-0", node: "n1", podUid: "a", text: "OutOfcpu", untilMs: NOW + 5000 };

function plan(more: Partial<BatchSnapshot>) {
  const known = { nowMs: NOW, job: job(), pods: [], units: [], priority: 0, nodesLost: [] };
  return planBatchJob({ ...known, queue: { kind: "queue", name: "team-a" }, ...more }, POLICY);
}
/** Formats a step: `place-pod a pod-0 n1: granted`. */
function textOf(step: BatchStep): string {
  const { kind, because } = step;
  const what: readonly string[] =
    step.kind === "place-pod"
      ? [step.pod, step.component, step.node]
      : step.kind === "reserve"
        ? [step.unit.id, ...step.unit.needs.map(({ component }) => component)]
        : "unitId" in step
          ? [step.unitId]
          : "pod" in step
            ? [step.pod]
            : [];
  return `${[kind, ...what].join(" ")}: ${because}`;
}
const texts = (more: Partial<BatchSnapshot>): readonly string[] => plan(more).steps.map(textOf);

type Case = readonly [title: string, given: Partial<BatchSnapshot>, expected: readonly string[]];

describe("a batch Job that is not admitted", () => {
  const cases: readonly Case[] = [
    ["is suspended at its first observation", { job: job({ ...RUNNING, gated: false }) }, ["suspend: not-admitted"]],
    [
      "is suspended before the ledger has answered, if it was never gated",
      { job: job({ ...RUNNING, gated: false }), units: [{ id: ID, state: "unknown" }] },
      ["suspend: not-admitted"],
    ],
    [
      "may have been admitted before the ledger has answered, if it is gated",
      { job: job(RUNNING), units: [{ id: ID, state: "unknown" }] },
      [],
    ],
    ["is suspended whatever its gate is", { job: job(RUNNING) }, ["suspend: not-admitted"]],
    ["waits until Kubernetes reports that it is suspended", { job: job({ gated: false, stopped: false }) }, []],
    ["gets a gate", { job: job({ gated: false }) }, ["gate: not-gated"]],
    ["loses its start time before", { job: job({ gated: false, started: true }) }, ["reset-start: not-gated"]],
    ["requests a place for each pod", {}, [`reserve ${ID} pod-0 pod-1: gang`]],
    ["waits for its former pods", { pods: [placed("a", "pod-0", "n1", { deleting: true })] }, []],
    ["requests nothing before the queues are listed", { queue: { kind: "unlisted" } }, []],
    ["does not repeat its request", { units: [waiting(["pod-0", "pod-1"])] }, []],
    [
      "requests other machines if its needs change",
      { job: job(podsOf(1)), units: [waiting(["pod-0", "pod-1"])] },
      [`release ${ID}: needs-changed`],
    ],
    [
      "moves to another queue",
      { queue: { kind: "queue", name: "other" }, units: [waiting(["pod-0", "pod-1"])] },
      [`release ${ID}: needs-changed`],
    ],
    [
      "leaves a queue that is unknown",
      { queue: { kind: "unknown", message: "none" }, units: [waiting(["pod-0"])] },
      [`release ${ID}: queue-unknown`],
    ],
    [
      "repeats a refused request after a pause",
      { units: [waiting(["pod-0", "pod-1"], { state: "refused", sinceMs: NOW - POLICY.refusedRetryMs })] },
      [`reserve ${ID} pod-0 pod-1: gang`],
    ],
    ["does not repeat it before", { units: [waiting(["pod-0", "pod-1"], { state: "refused" })] }, []],
    ["is resumed without machines if it has no pods", { job: job(podsOf(0)) }, ["resume: no-pods"]],
    ["gets no step without pods", { job: job({ ...RUNNING, ...podsOf(0) }) }, []],
  ];
  it.each(cases)("%s", (_title, given, expected) => {
    expect(texts(given)).toEqual(expected);
  });

  it("states the reason of its wait", () => {
    expect(plan({ queue: { kind: "unknown", message: "name one" } }).wait).toEqual({
      code: "QUEUE_UNKNOWN",
      text: "name one",
    });
    const problems = [{ field: "spec.template.spec.nodeName", reason: "must not be set" }];
    expect(plan({ job: job({ sets: [{ ...SET, need: { problems } }] }) }).wait).toMatchObject({ code: "INVALID_SPEC" });
    expect(plan({ units: [waiting(["pod-0", "pod-1"])] }).wait).toEqual({ code: "WAITING_FOR_QUOTA", text: "cpu" });
  });

  it("requests with the priority that its queue permits, and its topology", () => {
    const queue = { kind: "queue", name: "team-a", maxPriority: 10 } as const;
    const [step] = plan({ queue, priority: 50, job: job({ topology: "zone" }) }).steps;
    expect(step).toMatchObject({ priority: 10, loweredFrom: 50, unit: { queue: "team-a", topology: "zone" } });
  });
});

describe("an admitted batch Job", () => {
  const [a, b] = [placed("a", "pod-0", "n1"), placed("b", "pod-1", "n2")];
  const cases: readonly Case[] = [
    ["is resumed", { units: [GANG] }, ["resume: admitted"]],
    ["is gated before", { job: job({ gated: false }), units: [GANG] }, ["gate: not-gated"]],
    [
      "gets a place for each of its pods, the oldest first",
      { job: job(RUNNING), units: [GANG], pods: [pod("late", { createdMs: 1 }), pod("early")] },
      ["place-pod early pod-0 n1: granted", "place-pod late pod-1 n2: granted"],
    ],
    ["has nothing to do while its pods run", { job: job(RUNNING), units: [GANG], pods: [a, b] }, []],
    [
      "gives the place of a pod that has ended to the next one",
      { job: job(RUNNING), units: [GANG], pods: [placed("a", "pod-0", "n1", { finished: true }), b, pod("c")] },
      ["place-pod c pod-0 n1: granted"],
    ],
    [
      "keeps the place of a pod that is being deleted",
      { job: job(RUNNING), units: [GANG], pods: [placed("a", "pod-0", "n1", { deleting: true }), b, pod("c")] },
      [],
    ],
    [
      "places no pod that is being deleted",
      { job: job(RUNNING), units: [GANG], pods: [pod("c", { deleting: true })] },
      [],
    ],
    [
      "requests another machine for a pod whose machine is lost",
      {
        job: job(RUNNING),
        units: [GANG],
        nodesLost: ["n1"],
        pods: [placed("a", "pod-0", "n1", { deleting: true }), b, pod("c")],
      },
      [`reserve ${extra("pod-2")} pod-2: machine-lost`],
    ],
    [
      "requests it once",
      {
        job: job(RUNNING),
        units: [GANG, waiting(["pod-2"], { id: extra("pod-2") })],
        nodesLost: ["n1"],
        pods: [b, pod("c")],
      },
      [],
    ],
    [
      "places the pod on it",
      {
        job: job(RUNNING),
        units: [GANG, granted({ "pod-2": "n3" }, extra("pod-2"))],
        nodesLost: ["n1"],
        pods: [b, pod("c")],
      },
      ["place-pod c pod-2 n3: granted"],
    ],
    [
      "releases it when the first machine is back and it has no pod",
      { job: job(RUNNING), units: [GANG, granted({ "pod-2": "n3" }, extra("pod-2"))], pods: [a, b] },
      [`release ${extra("pod-2")}: surplus`],
    ],
    [
      "withdraws the request when the first machine is back",
      { job: job(RUNNING), units: [GANG, waiting(["pod-2"], { id: extra("pod-2") })], pods: [b, pod("c")] },
      [`release ${extra("pod-2")}: surplus`, "place-pod c pod-0 n1: granted"].reverse(),
    ],
    [
      "deletes a pod that no scheduler can place on its lost machine",
      {
        job: job(RUNNING),
        units: [GANG],
        nodesLost: ["n1"],
        pods: [placed("a", "pod-0", "n1", { scheduled: false }), b],
      },
      ["delete-pod a: machine-lost"],
    ],
    [
      "does not delete a pod that runs on a lost machine",
      { job: job(RUNNING), units: [GANG], nodesLost: ["n1"], pods: [a, b] },
      [],
    ],
    [
      "deletes a pod on a machine that it does not hold",
      { job: job(RUNNING), units: [GANG], pods: [placed("a", "pod-0", "n9"), b] },
      ["delete-pod a: not-granted"],
    ],
    [
      "deletes the later one of two pods in one place",
      { job: job(RUNNING), units: [GANG], pods: [a, placed("z", "pod-0", "n1", { createdMs: 1 }), b] },
      ["delete-pod z: place-taken"],
    ],
    [
      "keeps a pod whose machine foreign pods have taken, until that lasts too long",
      {
        job: job(RUNNING),
        units: [GANG],
        crowded: [{ ...CROWDED, isLost: false }],
        pods: [placed("a", "pod-0", "n1", { scheduled: false }), b],
      },
      [],
    ],
    [
      "deletes it then",
      {
        job: job(RUNNING),
        units: [GANG],
        crowded: [CROWDED],
        pods: [placed("a", "pod-0", "n1", { scheduled: false }), b],
      },
      ["delete-pod a: machine-lost"],
    ],
    [
      "requests another machine for its next pod",
      { job: job(RUNNING), units: [GANG], crowded: [CROWDED], pods: [b, pod("c")] },
      [`reserve ${extra("pod-2")} pod-2: machine-lost`],
    ],
    [
      "requests another machine for its next pod than that which has just rejected one",
      { job: job(RUNNING), units: [GANG], rejections: [REJECTION], pods: [b, pod("c")] },
      [`reserve ${extra("pod-2")} pod-2: machine-lost`],
    ],
    [
      "places its next pod on the machine that rejected one, once that is 30 seconds ago",
      { job: job(RUNNING), units: [GANG], rejections: [{ ...REJECTION, untilMs: NOW }], pods: [b, pod("c")] },
      ["place-pod c pod-0 n1: granted"],
    ],
    [
      "is suspended if no other machine than the taken one comes",
      {
        job: job(RUNNING),
        units: [GANG, waiting(["pod-2"], { id: extra("pod-2"), sinceMs: NOW - POLICY.replacementWaitMs })],
        crowded: [CROWDED],
        pods: [b, pod("c")],
      },
      ["suspend: machine-lost"],
    ],
    [
      "requests places for a parallelism that has grown",
      { job: job({ ...RUNNING, ...podsOf(3) }), units: [GANG], pods: [a, b, pod("c")] },
      [`reserve ${extra("pod-2")} pod-2: scaled-up`],
    ],
    [
      "is suspended if another machine does not come",
      {
        job: job(RUNNING),
        units: [GANG, waiting(["pod-2"], { id: extra("pod-2"), sinceMs: NOW - POLICY.replacementWaitMs })],
        nodesLost: ["n1"],
        pods: [b, pod("c")],
      },
      ["suspend: machine-lost"],
    ],
    [
      "keeps its machines, and the reason, until its pods are gone",
      {
        units: [GANG, waiting(["pod-2"], { id: extra("pod-2"), sinceMs: NOW - POLICY.replacementWaitMs })],
        nodesLost: ["n1"],
        pods: [placed("b", "pod-1", "n2", { deleting: true })],
      },
      [],
    ],
    [
      "releases its gang then",
      {
        units: [waiting(["pod-2"], { id: extra("pod-2"), sinceMs: NOW - POLICY.replacementWaitMs }), GANG],
        nodesLost: ["n1"],
      },
      [`release ${ID}: machine-lost`],
    ],
    [
      "releases the rest before it requests its machines again",
      { units: [waiting(["pod-2"], { id: extra("pod-2") })], nodesLost: ["n1"] },
      [`release ${extra("pod-2")}: surplus`, `reserve ${ID} pod-0 pod-1: gang`],
    ],
    [
      "requests again if its template grew while it was suspended",
      { job: job({ sets: [{ ...SET, need: { pool: "workers", shared: { cpu: 200 } } }] }), units: [GANG] },
      [`release ${ID}: needs-changed`],
    ],
  ];
  it.each(cases)("%s", (_title, given, expected) => {
    expect([...texts(given)].sort()).toEqual([...expected].sort());
  });
});

it("is planned again when foreign pods have had the room of a place for too long", () => {
  const crowded = [{ ...CROWDED, isLost: false }];
  const pods = [placed("a", "pod-0", "n1", { scheduled: false }), placed("b", "pod-1", "n2")];
  const recheck = plan({ job: job(RUNNING), units: [GANG], crowded, pods }).recheckInMs;
  expect(recheck).toBe(POLICY.replacementWaitMs - 1000);
});

it("excludes the nodes that have rejected pods of the set from the request for another machine", () => {
  const set: PodSet = { ...SET, need: { pool: "workers", shared: SHARE, selection: { terms: [], tolerations: [] } } };
  const { steps } = plan({
    job: job({ ...RUNNING, sets: [set] }),
    units: [GANG],
    rejections: [REJECTION, { ...REJECTION, podUid: "other", component: "leader-0", node: "n3" }],
    pods: [placed("b", "pod-1", "n2"), pod("c")],
  });
  const terms = [{ matchFields: [{ key: "metadata.name", operator: "NotIn", values: ["n1"] }] }];
  expect(steps).toMatchObject([{ kind: "reserve", unit: { needs: [{ selection: { terms } }] } }]);
});

it("is planned again when a machine that rejected a pod may be tried again", () => {
  const pods = [placed("b", "pod-1", "n2")];
  const { recheckInMs } = plan({ job: job(RUNNING), units: [GANG], rejections: [REJECTION], pods });
  expect(recheckInMs).toBe(REJECTION.untilMs - NOW);
});

it("finds pods that their nodes rejected", () => {
  const rejected = placed("a", "pod-0", "n1", { finished: true, rejectedBecause: "OutOfcpu" });
  const failed = placed("b", "pod-1", "n2", { finished: true });
  expect(listRejectedPods([rejected, failed])).toEqual([
    { uid: "a", component: "pod-0", node: "n1", text: "OutOfcpu" },
  ]);
});

it("has empty places where no pod of it runs, each with the requests of the next pod", () => {
  const pods = [placed("a", "pod-0", "n1", { scheduled: false }), placed("b", "pod-1", "n2")];
  const places = listEmptyPlaces({ job: job(RUNNING), units: [GANG], pods });
  expect(places.map(({ component, node, requests }) => [component, node, requests()])).toEqual([
    ["pod-0", "n1", SHARE],
  ]);
});

describe("a batch Job that ends or leaves its queue", () => {
  const cases: readonly Case[] = [
    [
      "releases its machines when it is finished",
      { job: job({ ...RUNNING, finished: true }), units: [GANG] },
      [`release ${ID}: finished`],
    ],
    [
      "keeps them while a pod runs",
      {
        job: job({ ...RUNNING, finished: true }),
        units: [GANG],
        pods: [placed("a", "pod-0", "n1", { deleting: true })],
      },
      [],
    ],
    [
      "withdraws its request when it is deleted",
      { job: job({ deleting: true }), units: [waiting(["pod-0"])] },
      [`release ${ID}: finished`],
    ],
    [
      "opens its pods and releases its machines without its label",
      { job: job({ ...RUNNING, queue: "" }), units: [GANG], pods: [placed("a", "pod-0", "n1"), pod("b")] },
      [`release ${ID}: label-removed`, "open-pod b: label-removed"],
    ],
    ["loses its gate while it is suspended", { job: job({ queue: "" }) }, ["ungate: label-removed"]],
    ["gets no step without label, gate and machines", { job: job({ ...RUNNING, queue: "", gated: false }) }, []],
    ["stays suspended then", { job: job({ queue: "", gated: false }) }, []],
  ];
  it.each(cases)("%s", (_title, given, expected) => {
    expect(texts(given)).toEqual(expected);
  });
});

describe("a batch Job with preempted machines", () => {
  const taken = (accepted: boolean, unit: UnitSeen = GANG, deadlineMs = NOW): UnitSeen => {
    const beneficiary = { kind: "job", id: "other" };
    const preemption = { beneficiary, queue: "team-b", reason: "RECLAIM", deadlineMs, accepted };
    return unit.state === "granted" ? { ...unit, preemption } : unit;
  };
  const pods = [placed("a", "pod-0", "n1"), placed("b", "pod-1", "n2")];
  const leaving = pods.map((each) => ({ ...each, deleting: true }));
  const nodesReady = ["n1", "n2"];
  const beside = granted({ "pod-2": "n3" }, extra("pod-2"));
  it.each<Case>([
    [
      "reports its leaving to the ledger first",
      { job: job(RUNNING), units: [taken(false)], pods },
      [`accept-preemption ${ID}: preempted`],
    ],
    ["is suspended then", { job: job(RUNNING), units: [taken(true)], pods }, ["suspend: preempted"]],
    ["keeps them while a pod runs", { units: [taken(true)], pods }, []],
    ["waits again at its place once its pods are gone", { units: [taken(true)] }, [`requeue ${ID}: preempted`]],
    [
      "releases a place beside its gang",
      { units: [GANG, taken(true, beside)] },
      [`release ${extra("pod-2")}: preempted`],
    ],
    [
      "forces the pods that are left after the deadline",
      { units: [taken(true)], pods: leaving, nodesReady },
      ["force-pod a: preempted", "force-pod b: preempted"],
    ],
    ["forces none before the deadline", { units: [taken(true, GANG, NOW + 1)], pods: leaving, nodesReady }, []],
    ["forces none that Kubernetes has not deleted yet", { units: [taken(true)], pods, nodesReady }, []],
    [
      "forces none on a node that does not answer, and keeps its machines",
      { units: [taken(true)], pods: leaving, nodesReady: ["n2"] },
      ["force-pod b: preempted"],
    ],
    [
      "forces none while it continues",
      { job: job(RUNNING), units: [taken(false)], pods: leaving, nodesReady },
      [`accept-preemption ${ID}: preempted`],
    ],
    [
      "forces the pods that are left when it is deleted meanwhile",
      { job: job({ deleting: true }), units: [taken(false)], pods: leaving, nodesReady },
      ["force-pod a: preempted", "force-pod b: preempted"],
    ],
    [
      "forces all pods of it when only the deadline of a place beside its gang has passed",
      { units: [taken(true, GANG, NOW + 1), taken(true, beside)], pods: leaving, nodesReady },
      ["force-pod a: preempted", "force-pod b: preempted"],
    ],
  ])("%s", (_title, given, expected) => {
    expect(texts(given)).toEqual(expected);
  });

  it("is planned again at the deadline, and then at short intervals until its pods are gone", () => {
    const recheck = (more: Partial<BatchSnapshot>) => plan(more).recheckInMs;
    expect(recheck({ units: [taken(true, GANG, NOW + 40_000)], pods: leaving })).toBe(40_000);
    expect(recheck({ units: [taken(true, GANG, NOW + 40_000)], pods: leaving, job: job({ deleting: true }) })).toBe(
      40_000,
    );
    expect(recheck({ units: [taken(true)], pods: leaving, nodesReady })).toBe(5000);
    expect(recheck({ units: [taken(true)], pods: leaving })).toBe(5000);
    expect(recheck({ units: [taken(true)] })).toBeUndefined();
    expect(recheck({ units: [GANG], pods: leaving })).toBeUndefined();
  });

  it("has stated how long its pods need to end", () => {
    const [step] = plan({}).steps;
    expect(step).toMatchObject({ kind: "reserve", unit: { graceMs: 130_000 } });
    const [, beside] = plan({ job: job(RUNNING), units: [GANG], nodesLost: ["n1"], pods: [pod("a"), pod("b")] }).steps;
    expect(beside).toMatchObject({ kind: "reserve", unit: { graceMs: 130_000 } });
  });
});

describe("a batch Job whose queue limits its start", () => {
  const LIMIT_MS = 60_000;
  const since = (ms: number, more: Partial<StartProgress> = {}): Pick<BatchJob, "start"> => ({
    start: { ...NO_PROGRESS, startMs: NOW - ms, ...more },
  });
  const late = since(LIMIT_MS);
  const left = { ...NO_PROGRESS, regrouping: true, readyTimeouts: 1, lastReadyTimeoutMs: NOW - 5000 };
  const after = { ...left, regrouping: false };
  const ready = placed("a", "pod-0", "n1", { ready: true });
  const slow = placed("b", "pod-1", "n2");
  const succeeded = placed("a", "pod-0", "n1", { ready: true, finished: true, createdMs: NOW - 30_000 });
  const beneficiary = { kind: "job", id: "other" };
  const preemption = { beneficiary, queue: "team-b", reason: "RECLAIM", deadlineMs: NOW, accepted: true };
  const preempted = { ...GANG, preemption } as UnitSeen;
  const world = (of: Partial<BatchJob>, more: Partial<BatchSnapshot> = {}): Partial<BatchSnapshot> => ({
    readyTimeoutMs: LIMIT_MS,
    units: [GANG],
    pods: [ready, slow],
    ...more,
    job: job({ ...RUNNING, ...of }),
  });
  const suspended: Partial<BatchJob> = { suspended: true, stopped: true };
  it.each<Case>([
    ["is suspended when it is not ready in time", world(late), ["suspend: ready-timeout"]],
    ["continues until then", world(since(LIMIT_MS - 1)), []],
    ["is ready just before", world(late, { pods: [ready, { ...slow, ready: true }] }), ["record-start: ready"]],
    [
      "is not ready with a pod that is being deleted",
      world(late, { pods: [ready, { ...slow, ready: true, deleting: true }] }),
      ["suspend: ready-timeout"],
    ],
    ["is not ready without a pod", world(late, { pods: [ready] }), ["suspend: ready-timeout"]],
    [
      "counts a pod that has succeeded",
      world({ ...late, ...podsOf(1) }, { pods: [succeeded, { ...slow, ready: true }] }),
      ["record-start: ready"],
    ],
    [
      "waits for the other pods after one has succeeded",
      world({ ...late, ...podsOf(1) }, { pods: [succeeded, slow] }),
      ["suspend: ready-timeout"],
    ],
    [
      "counts no pod that succeeded in an earlier start",
      world(late, { pods: [{ ...succeeded, createdMs: NOW - LIMIT_MS - 20_000 }, slow] }),
      ["suspend: ready-timeout"],
    ],
    [
      "is ready with the pods of a parallelism that was lowered",
      world({ ...late, ...podsOf(1) }, { pods: [ready] }),
      ["record-start: ready"],
    ],
    ["keeps its machines when a pod is lost after it was ready", world({}), []],
    ["keeps them if its queue has no limit any more", world(late, { readyTimeoutMs: undefined }), []],
    [
      "is recorded as ready then, too",
      world(late, { readyTimeoutMs: undefined, pods: [ready, { ...slow, ready: true }] }),
      ["record-start: ready"],
    ],
    ["keeps them until the ledger has answered", world(late, { units: [{ id: ID, state: "unknown" }] }), []],
    [
      "has no limit while it is suspended by its user, and is resumed",
      world({ ...late, ...suspended }),
      ["resume: admitted"],
    ],
    ["keeps its machines while its pods end", world({ ...suspended, start: left }), []],
    ["releases them then", world({ ...suspended, start: left }, { pods: [] }), [`release ${ID}: ready-timeout`]],
    ["is suspended again if its user resumes it meanwhile", world({ start: left }), ["suspend: ready-timeout"]],
    [
      "waits at its place if it is preempted meanwhile",
      world({ ...suspended, start: left }, { pods: [], units: [preempted] }),
      [`requeue ${ID}: preempted`],
    ],
    ["leaves as preempted work if it is preempted first", world(late, { units: [preempted] }), ["suspend: preempted"]],
    ["records its release", world({ ...suspended, start: left }, { pods: [], units: [] }), ["record-start: released"]],
    ["requests nothing in the pause", world({ ...suspended, start: after }, { pods: [], units: [] }), []],
    [
      "withdraws a request in the pause",
      world({ ...suspended, start: after }, { pods: [], units: [waiting(["pod-0", "pod-1"])] }),
      [`release ${ID}: ready-timeout`],
    ],
    [
      "requests its machines again after the pause",
      world({ ...suspended, start: { ...after, lastReadyTimeoutMs: NOW - 10_000 } }, { pods: [], units: [] }),
      [`reserve ${ID} pod-0 pod-1: gang`],
    ],
    [
      "waits for no time of another clock",
      world({ ...suspended, start: { ...after, lastReadyTimeoutMs: NOW + 60_000 } }, { pods: [], units: [] }),
      [`reserve ${ID} pod-0 pod-1: gang`],
    ],
    [
      "is resumed with machines that it has in the pause",
      world({ ...suspended, start: after }, { pods: [] }),
      ["resume: admitted"],
    ],
  ])("%s", (_title, given, expected) => {
    expect(texts(given)).toEqual(expected);
  });

  it("records the time of its admission and keeps the row of timeouts only if its queue has a limit", () => {
    const [step] = plan(world({ ...suspended, start: after }, { pods: [] })).steps;
    expect(step).toMatchObject({ kind: "resume", start: { ...after, startMs: NOW } });
    const [unlimited] = plan(world({ ...suspended, start: after }, { pods: [], readyTimeoutMs: undefined })).steps;
    expect(unlimited).toMatchObject({ kind: "resume", start: NO_PROGRESS });
  });

  it("records each timeout with its time and text, and ends the row once it is ready", () => {
    const twice = since(LIMIT_MS, { readyTimeouts: 2, lastReadyTimeoutMs: NOW - 120_000 });
    const text =
      "1 of 2 pods were ready within the readyTimeout 1m of the queue team-a, 3 times in a row; its machines are released, " +
      "and requested again at 1970-01-01T00:17:20.000Z";
    const start = { startMs: undefined, regrouping: true, readyTimeouts: 3, lastReadyTimeoutMs: NOW };
    expect(plan(world(twice)).steps).toEqual([{ kind: "suspend", because: "ready-timeout", late: { start, text } }]);
    expect(plan(world(twice, { pods: [ready, { ...slow, ready: true }] })).steps).toEqual([
      { kind: "record-start", because: "ready", start: NO_PROGRESS },
    ]);
  });

  it("is planned again when its time is over, and at the end of the pause, whose reason it states", () => {
    expect(plan(world(since(20_000))).recheckInMs).toBe(40_000);
    const pausing = plan(world({ ...suspended, start: after }, { pods: [], units: [] }));
    expect(pausing).toMatchObject({ recheckInMs: 5000, wait: { code: "READY_TIMEOUT" } });
    expect(pausing.wait?.text).toBe(
      "its pods were not ready in time, 1 time in a row; its machines are requested again at 1970-01-01T00:16:45.000Z",
    );
  });
});

describe("a JobSet", () => {
  const LEADER: PodSet = { name: "leader", first: 0, pods: 1, need: { pool: "workers", shared: SHARE } };
  const WORKERS: PodSet = { name: "worker", first: 1, pods: 2, need: { pool: "gpu", shared: { cpu: 200 } } };
  const set = (more: Partial<BatchJob> = {}): BatchJob =>
    job({ kind: JOB_SET, sets: [LEADER, WORKERS], started: false, ...more });
  const id = buildGangId(set());
  const beside = `${id}--pod-3`;
  const shares = new Map([
    ["leader-0", SHARE],
    ["worker-1", { cpu: 200 }],
    ["worker-2", { cpu: 200 }],
  ]);
  const gang: UnitSeen = {
    ...granted({ "leader-0": "n1", "worker-1": "n2", "worker-2": "n3" }, id),
    shares,
  } as UnitSeen;
  const leader = placed("l", "leader-0", "n1", { set: "leader" });
  const worker = (name: string): BatchPod => pod(name, { set: "worker" });
  const cases: readonly Case[] = [
    ["requests one gang for all its pods", { job: set() }, [`reserve ${id} leader-0 worker-1 worker-2: gang`]],
    [
      "does not number its places again when Jobs are complete",
      { job: set({ sets: [{ ...LEADER, pods: 0 }, WORKERS] }) },
      [`reserve ${id} worker-1 worker-2: gang`],
    ],
    ["is resumed when they are granted", { job: set(), units: [gang] }, ["resume: admitted"]],
    [
      "places each pod where a pod of its template was requested",
      { job: set(RUNNING), units: [gang], pods: [worker("a"), pod("l", { set: "leader" }), worker("b")] },
      ["place-pod a worker-1 n2: granted", "place-pod b worker-2 n3: granted", "place-pod l leader-0 n1: granted"],
    ],
    [
      "leaves a pod without a place where only those of other templates are free",
      { job: set(RUNNING), units: [gang], pods: [worker("a"), worker("b"), worker("c")] },
      ["place-pod a worker-1 n2: granted", "place-pod b worker-2 n3: granted"],
    ],
    [
      "requests a machine of the same template for a lost one",
      { job: set(RUNNING), units: [gang], nodesLost: ["n3"], pods: [leader, worker("a"), worker("b")] },
      ["place-pod a worker-1 n2: granted", `reserve ${beside} worker-3: machine-lost`],
    ],
    [
      "requests one for each template with numbers of their own",
      {
        job: set(RUNNING),
        units: [gang],
        nodesLost: ["n1", "n3"],
        pods: [pod("l", { set: "leader" }), worker("a"), worker("b")],
      },
      [
        `reserve ${beside} leader-3: machine-lost`,
        "place-pod a worker-1 n2: granted",
        `reserve ${id}--pod-4 worker-4: machine-lost`,
      ],
    ],
    [
      "releases what one template does not need any more, and nothing of the other",
      {
        job: set(RUNNING),
        units: [gang, granted({ "worker-3": "n4" }, beside), granted({ "leader-4": "n5" }, `${id}--pod-4`)],
        nodesLost: ["n1"],
        pods: [placed("l", "leader-4", "n5", { set: "leader" })],
      },
      [`release ${beside}: surplus`],
    ],
  ];
  it.each(cases)("%s", (_title, given, expected) => {
    expect([...texts(given)].sort()).toEqual([...expected].sort());
  });

  it("requests the need of each template", () => {
    expect(plan({ job: set() }).steps).toMatchObject([
      {
        unit: {
          needs: [
            { component: "leader-0", pool: "workers", shared: SHARE },
            { component: "worker-1", pool: "gpu", shared: { cpu: 200 } },
            { component: "worker-2", pool: "gpu" },
          ],
        },
      },
    ]);
  });

  it("states a problem of its metadata once, and requests nothing while one template is invalid", () => {
    const problems = [{ field: "metadata.annotations", reason: "must be an object" }];
    const wrong = set({
      sets: [
        { ...LEADER, need: { problems } },
        { ...WORKERS, need: { problems } },
      ],
    });
    expect(plan({ job: wrong })).toEqual({
      steps: [],
      wait: { code: "INVALID_SPEC", text: "metadata.annotations: must be an object" },
    });
  });

  it("is not ready while the pods of one template are not, however many others are", () => {
    const start = { ...NO_PROGRESS, startMs: NOW - 60_000 };
    const pods = ["worker-1", "worker-2"].map((component, index) =>
      placed(component, component, `n${index + 2}`, { set: "worker", ready: true }),
    );
    const given = { job: set({ ...RUNNING, start }), units: [gang], readyTimeoutMs: 60_000 };
    const [late] = plan({ ...given, pods: [leader, ...pods] }).steps;
    expect(late).toMatchObject({ kind: "suspend", late: { text: expect.stringMatching(/^2 of 3 pods/) as string } });
    expect(texts({ ...given, pods: [{ ...leader, ready: true }, ...pods] })).toEqual(["record-start: ready"]);
  });

  it("requests again if one template grew while it was suspended", () => {
    const grown = set({ sets: [LEADER, { ...WORKERS, need: { pool: "gpu", shared: { cpu: 300 } } }] });
    expect(texts({ job: grown, units: [gang] })).toEqual([`release ${id}: needs-changed`]);
  });
});

describe("a queued pod", () => {
  const waits: Partial<BatchJob> = { suspended: true, stopped: false };
  const bound: Partial<BatchJob> = { suspended: false, stopped: false };
  const single = (more: Partial<BatchJob>): BatchJob => job({ kind: QUEUED_POD, sets: [{ ...SET, pods: 1 }], ...more });
  const id = buildGangId(single({}));
  const gang = granted({ "pod-0": "n1" }, id);
  const preemption = { beneficiary: { kind: "job", id: "other" }, queue: "team-b", reason: "RECLAIM", deadlineMs: NOW };
  const taken = { ...gang, preemption: { ...preemption, accepted: true } } as UnitSeen;
  const running = placed("p", "pod-0", "n1");
  const startedAt = (startMs: number): StartProgress => ({ ...NO_PROGRESS, startMs });
  it("records when it was bound if its queue has a limit, and why it is deleted", () => {
    const given = { units: [gang], readyTimeoutMs: 60_000 };
    const [bind] = plan({ ...given, job: single(waits), pods: [pod("p")] }).steps;
    expect(bind).toMatchObject({ kind: "place-pod", start: startedAt(NOW) });
    const [late] = plan({ ...given, job: single({ ...bound, start: startedAt(0) }), pods: [running] }).steps;
    const text = "0 of 1 pods were ready within the readyTimeout 1m of the queue team-a";
    expect(late).toMatchObject({ kind: "suspend", late: { text } });
  });

  it.each<Case>([
    ["requests one machine", { job: single(waits), pods: [pod("p")] }, [`reserve ${id} pod-0: gang`]],
    [
      "is bound when it is granted, and never resumed",
      { job: single(waits), units: [gang], pods: [pod("p")] },
      ["place-pod p pod-0 n1: granted"],
    ],
    ["gets no step while it runs", { job: single(bound), units: [gang], pods: [running] }, []],
    [
      "is deleted when its machine is preempted",
      { job: single(bound), units: [taken], pods: [running] },
      ["suspend: preempted"],
    ],
    [
      "waits again if it was not bound",
      { job: single(waits), units: [taken], pods: [pod("p")] },
      [`requeue ${id}: preempted`],
    ],
    [
      "keeps its machine while it terminates",
      { job: single({ ...bound, deleting: true }), units: [taken], pods: [{ ...running, deleting: true }] },
      [],
    ],
    [
      "is forced after the deadline",
      {
        job: single({ ...bound, deleting: true }),
        units: [taken],
        pods: [{ ...running, deleting: true }],
        nodesReady: ["n1"],
      },
      ["force-pod p: preempted"],
    ],
    [
      "releases its machine when it has ended",
      { job: single({ ...bound, finished: true }), units: [gang], pods: [{ ...running, finished: true }] },
      [`release ${id}: finished`],
    ],
    [
      "is deleted when it is not ready in time",
      {
        job: single({ ...bound, start: startedAt(NOW - 60_000) }),
        units: [gang],
        pods: [running],
        readyTimeoutMs: 60_000,
      },
      ["suspend: ready-timeout"],
    ],
    ["is kept once it was ready", { job: single(bound), units: [gang], pods: [running], readyTimeoutMs: 60_000 }, []],
    ["is deleted without a grant", { job: single(bound), pods: [running] }, ["suspend: not-admitted"]],
    [
      "is kept until the ledger has answered",
      { job: single(bound), units: [{ id, state: "unknown" }], pods: [running] },
      [],
    ],
  ])("%s", (_title, given, expected) => {
    expect(texts(given)).toEqual(expected);
  });
});
