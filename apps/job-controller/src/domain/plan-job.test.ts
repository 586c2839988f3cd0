import { describe, expect, it } from "vitest";
import {
  both,
  listConditions,
  GANG,
  printStep,
  NONE,
  planSteps,
  makeStatus,
  makeWaitingUnit,
  makeWorkers,
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
import { NEW_STATUS } from "./job-status.ts";
import { planJob } from "./plan-job.ts";
import type { Snapshot, UnitSeen } from "./snapshot.ts";
import { summariseState } from "./summarise-state.ts";

describe("a suspended job", () => {
  const suspended = makeSpec({ suspend: true });

  it("has no pods, services, budget or machines, and reports it", () => {
    const world = { spec: suspended, budget: 2, services: { present: ["train"], wanted: ["train"], settled: true } };
    expect(planSteps({ ...world, ...makeWorkers(...both) })).toEqual([
      "delete train-worker-0: suspended",
      "delete train-worker-1: suspended",
      "delete-service train: suspended",
      "delete-budget: suspended",
    ]);
    expect(planSteps({ spec: suspended, budget: undefined })).toEqual(["release gang: suspended"]);
    expect(listConditions(world)).toEqual(["Created: JobCreated", "Suspended: JobSuspended"]);
  });

  it("starts over when it is resumed, with its deadline and its queue", () => {
    const stopped = planJob(makeSnapshot({ spec: suspended, status: makeStatus({ startMs: 5000 }) }), POLICY).status;
    expect(stopped.startMs).toBeUndefined();
    const resumed = planJob(makeSnapshot({ status: stopped, units: [NONE] }), POLICY);
    expect(resumed.status.conditions.map(({ type, status }) => `${type} ${status}`)).toEqual([
      "Created True",
      "Suspended False",
    ]);
    expect(resumed.steps.map(printStep)).toEqual(["reserve worker-0+worker-1: gang"]);
  });
});

describe("a pod that is evicted during the suspension of its job", () => {
  const strict = { replicas: [makeReplica("worker", 2, { restartPolicy: "Never" })], backoffLimit: 0 } as const;
  const conditions = [{ type: "DisruptionTarget", status: "True" }];
  const evicted = makeEndedPod("worker-1", 143, { reason: "Evicted", conditions, finishedMs: NOW_MS - 60_000 });
  const suspended = { spec: makeSpec({ ...strict, suspend: true }), budget: undefined };

  it("keeps no machine, and other pods keep theirs until they are gone", () => {
    expect(planSteps({ ...suspended, ...makeWorkers(both[0], evicted) })).toEqual(["delete train-worker-0: suspended"]);
    expect(planSteps({ ...suspended, ...makeWorkers(makePodFact("worker-0", { deleting: true }), evicted) })).toEqual(
      [],
    );
    expect(planSteps({ ...suspended, ...makeWorkers(undefined, evicted) })).toEqual(["release gang: suspended"]);
  });

  it("is recreated when the job continues, and does not count", () => {
    const stopped = planJob(makeSnapshot({ ...suspended, ...makeWorkers(undefined, evicted) }), POLICY).status;
    const resumed = { spec: makeSpec(strict), status: stopped, budget: 2, ...makeWorkers(undefined, evicted) };
    expect(planSteps(resumed)).toEqual(["delete train-worker-1: failed", "create worker-0 on node-worker-0: missing"]);
    expect(summariseState(planJob(makeSnapshot(resumed), POLICY).status, 2)).toMatchObject({
      state: "Restarting",
      restarts: 0,
    });
  });
});

describe("an elastic job", () => {
  const elastic = (replicas: number) =>
    makeSpec({ replicas: [makeReplica("worker", replicas, { elastic: { minReplicas: 2, maxReplicas: 8 } })] });
  const extra = (component: string): UnitSeen => ({
    id: `${GANG}--${component}`,
    state: "granted",
    nodes: new Map([[component, `node-${component}`]]),
  });

  it("starts with its minimum, and requests each further machine separately", () => {
    const world = { spec: elastic(3), replicas: [makeReplicaSeen("worker", [...both, undefined])] };
    expect(planSteps({ ...world, units: [NONE], budget: undefined })).toEqual(["reserve worker-0+worker-1: gang"]);
    expect(planSteps(world)).toEqual(["reserve worker-2: scaled-up"]);
    expect(planSteps({ ...world, units: [makeGrantedUnit("worker-0", "worker-1"), extra("worker-2")] })).toEqual([
      "create worker-2 on node-worker-2: missing",
    ]);
  });

  it("is over once all members with machines are done, though others still wait for theirs", () => {
    const extras = ["worker-2", "worker-3"].map((component) =>
      makeWaitingUnit({ id: `${GANG}--${component}`, components: [component] }),
    );
    const units = [makeGrantedUnit("worker-0", "worker-1"), ...extras];
    const slots = (third: ReturnType<typeof makePodFact> | undefined) => ({
      spec: elastic(4),
      replicas: [
        makeReplicaSeen("worker", [makeEndedPod("worker-0", 0), makeEndedPod("worker-1", 0), third, undefined]),
      ],
    });
    expect(listConditions({ ...slots(undefined), units })).toContain("Succeeded: JobSucceeded");
    const more = [makeGrantedUnit("worker-0", "worker-1"), extra("worker-2")];
    expect(listConditions({ ...slots(undefined), units: more })).not.toContain("Succeeded: JobSucceeded");
    expect(listConditions({ ...slots(makePodFact("worker-2")), units: more })).not.toContain("Succeeded: JobSucceeded");
    expect(listConditions({ ...slots(makeEndedPod("worker-2", 0)), units: more })).toContain("Succeeded: JobSucceeded");
  });

  it.each(["Ready", "Complete"] as const)(
    "lets types that depend on %s members wait only for members with machines",
    (wanted) => {
      const driver = makeReplica("driver", 1, { dependsOn: [{ type: "worker", status: wanted }] });
      const success = [[{ type: "driver", indexes: "all" as const }]];
      const of = makeSpec({ replicas: [...elastic(4).replicas, driver], success });
      const far = (component: string) => (wanted === "Ready" ? makePodFact(component) : makeEndedPod(component, 0));
      const plans = (third: ReturnType<typeof makePodFact> | undefined, ...more: UnitSeen[]) =>
        planSteps({
          spec: of,
          budget: 3,
          units: [makeGrantedUnit("worker-0", "worker-1", "driver-0"), ...more],
          replicas: [
            makeReplicaSeen("worker", [far("worker-0"), far("worker-1"), third, undefined]),
            makeReplicaSeen("driver", [undefined]),
          ],
        }).filter((step) => step.includes("driver"));
      const made = ["create driver-0 on node-driver-0: missing"];
      expect(plans(undefined)).toEqual(made);
      expect(plans(undefined, extra("worker-2"))).toEqual([]);
      expect(plans(makePodFact("worker-2", { ready: false }), extra("worker-2"))).toEqual([]);
      expect(plans(far("worker-2"), extra("worker-2"))).toEqual(made);
    },
  );

  it("releases surplus machines after their pods are gone", () => {
    const units = [makeGrantedUnit("worker-0", "worker-1"), extra("worker-2")];
    const surplus = [{ pod: makePodFact("worker-2"), because: "index-out-of-range" as const }];
    expect(planSteps({ spec: elastic(2), units, replicas: [makeReplicaSeen("worker", both, { surplus })] })).toEqual([
      "delete train-worker-2: index-out-of-range",
    ]);
    expect(planSteps({ spec: elastic(2), units, ...makeWorkers(...both) })).toEqual([
      "release gang--worker-2: scaled-down",
    ]);
  });
});

describe("the other objects of a gang", () => {
  it("are created, changed and deleted as the gang requires", () => {
    const services = { present: ["train-worker-7"], wanted: ["train-worker-0"], settled: true };
    expect(planSteps({ services, budget: undefined, ...makeWorkers(...both) })).toEqual([
      "delete-service train-worker-7: scaled-down",
      "create-service train-worker-0: missing",
      "budget of 2: missing",
    ]);
    expect(planSteps({ budget: 5, ...makeWorkers(...both) })).toEqual(["budget of 2: changed"]);
    const none = { spec: makeSpec({ minAvailable: 0 }), ...makeWorkers(...both) };
    expect(planSteps({ ...none, budget: 0 })).toEqual([]);
    expect(planSteps({ ...none, budget: "edited" })).toEqual(["budget of 0: changed"]);
    expect(planSteps({ services: { ...services, settled: false }, ...makeWorkers(...both) })).toEqual([]);
  });
});

it.each([
  ["a job", makeSpec({ managedBy: "another" })],
  [
    "a job that it cannot read",
    { ok: false, problems: [{ field: "spec", reason: "" }], managedBy: "another" } as const,
  ],
])("skip %s of another controller", (_title, spec) => {
  const plan = planJob(makeSnapshot({ spec, units: [NONE] }), POLICY);
  expect(plan).toEqual({ status: NEW_STATUS, steps: [], recheckInMs: undefined });
});

describe("names that foreign pods have", () => {
  const taken = (...pods: string[]) => pods.map((name) => ({ pod: name, owner: "TFJob train" }));
  const noted = (more: Partial<Snapshot>) =>
    planJob(makeSnapshot(more), POLICY).status.conditions.find(({ type }) => type === "PodNamesTaken");

  it("are reported with their owners, up to a limit", () => {
    const one = noted({ namesTaken: taken("train-worker-0") });
    expect(one).toMatchObject({ status: "True", reason: "NameConflict" });
    expect(one?.message).toBe(
      "pod train-worker-0 belongs to TFJob train; this job needs the name and waits for it: delete what has it, or give this job another name",
    );
    expect(noted({ namesTaken: taken("a", "b", "c", "d", "e") })?.message).toMatch(/pod c belongs .*, and 2 more;/);
  });

  it("do not matter before the grant, and are forgotten once they are free or the job is over", () => {
    expect(noted({ namesTaken: taken("train-worker-0"), units: [NONE] })).toBeUndefined();
    const before = planJob(makeSnapshot({ namesTaken: taken("train-worker-0") }), POLICY).status;
    expect(noted({ status: before })).toBeUndefined();
    for (const change of [{ job: { ...JOB, cancelled: true } }, { spec: makeSpec({ suspend: true }) }])
      expect(noted({ status: before, namesTaken: taken("train-worker-0"), ...change })).toBeUndefined();
  });

  it("explain why the job has not started", () => {
    const { status: after } = planJob(makeSnapshot({ namesTaken: taken("train-worker-0") }), POLICY);
    expect(summariseState(after, 2)).toMatchObject({
      state: "Starting",
      message: expect.stringContaining("belongs to TFJob train") as unknown,
    });
  });
});
