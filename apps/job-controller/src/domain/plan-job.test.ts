import { describe, expect, it } from "vitest";
import { both, conditions, GANG, line, NONE, plan, status, waiting, workers } from "../../test/planned-job.ts";
import { ended, granted, JOB, NOW_MS, pod, POLICY, replica, seen, snapshot, spec } from "../../test/samples.ts";
import { NEW_STATUS } from "./job-status.ts";
import { planJob } from "./plan-job.ts";
import type { Snapshot, UnitSeen } from "./snapshot.ts";
import { summariseState } from "./summarise-state.ts";

describe("a suspended job", () => {
  const suspended = spec({ suspend: true });

  it("has no pods, services, budget or machines, and reports it", () => {
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

  it("starts over when it is resumed, with its deadline and its queue", () => {
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

describe("a pod that is evicted during the suspension of its job", () => {
  const strict = { replicas: [replica("worker", 2, { restartPolicy: "Never" })], backoffLimit: 0 } as const;
  const conditions = [{ type: "DisruptionTarget", status: "True" }];
  const evicted = ended("worker-1", 143, { reason: "Evicted", conditions, finishedMs: NOW_MS - 60_000 });
  const suspended = { spec: spec({ ...strict, suspend: true }), budget: undefined };

  it("keeps no machine, and other pods keep theirs until they are gone", () => {
    expect(plan({ ...suspended, ...workers(both[0], evicted) })).toEqual(["delete train-worker-0: suspended"]);
    expect(plan({ ...suspended, ...workers(pod("worker-0", { deleting: true }), evicted) })).toEqual([]);
    expect(plan({ ...suspended, ...workers(undefined, evicted) })).toEqual(["release gang: suspended"]);
  });

  it("is recreated when the job continues, and does not count", () => {
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

  it("starts with its minimum, and requests each further machine separately", () => {
    const world = { spec: elastic(3), replicas: [seen("worker", [...both, undefined])] };
    expect(plan({ ...world, units: [NONE], budget: undefined })).toEqual(["reserve worker-0+worker-1: gang"]);
    expect(plan(world)).toEqual(["reserve worker-2: scaled-up"]);
    expect(plan({ ...world, units: [granted("worker-0", "worker-1"), extra("worker-2")] })).toEqual([
      "create worker-2 on node-worker-2: missing",
    ]);
  });

  it("is over once all members with machines are done, though others still wait for theirs", () => {
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

  it.each(["Ready", "Complete"] as const)(
    "lets types that depend on %s members wait only for members with machines",
    (wanted) => {
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
    },
  );

  it("releases surplus machines after their pods are gone", () => {
    const units = [granted("worker-0", "worker-1"), extra("worker-2")];
    const surplus = [{ pod: pod("worker-2"), because: "index-out-of-range" as const }];
    expect(plan({ spec: elastic(2), units, replicas: [seen("worker", both, { surplus })] })).toEqual([
      "delete train-worker-2: index-out-of-range",
    ]);
    expect(plan({ spec: elastic(2), units, ...workers(...both) })).toEqual(["release gang--worker-2: scaled-down"]);
  });
});

describe("the other objects of a gang", () => {
  it("are created, changed and deleted as the gang requires", () => {
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
])("skip %s of another controller", (_title, spec) => {
  const plan = planJob(snapshot({ spec, units: [NONE] }), POLICY);
  expect(plan).toEqual({ status: NEW_STATUS, steps: [], recheckInMs: undefined });
});

describe("names that foreign pods have", () => {
  const taken = (...pods: string[]) => pods.map((name) => ({ pod: name, owner: "TFJob train" }));
  const noted = (more: Partial<Snapshot>) =>
    planJob(snapshot(more), POLICY).status.conditions.find(({ type }) => type === "PodNamesTaken");

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
    const before = planJob(snapshot({ namesTaken: taken("train-worker-0") }), POLICY).status;
    expect(noted({ status: before })).toBeUndefined();
    for (const change of [{ job: { ...JOB, cancelled: true } }, { spec: spec({ suspend: true }) }])
      expect(noted({ status: before, namesTaken: taken("train-worker-0"), ...change })).toBeUndefined();
  });

  it("explain why the job has not started", () => {
    const { status: after } = planJob(snapshot({ namesTaken: taken("train-worker-0") }), POLICY);
    expect(summariseState(after, 2)).toMatchObject({
      state: "Starting",
      message: expect.stringContaining("belongs to TFJob train") as unknown,
    });
  });
});
