import fc from "fast-check";
import { expect, it } from "vitest";
import { JOB, NOW_MS, pod, POLICY, replica, seen, spec } from "../../test/samples.ts";
import { componentOf, ownerIdOf } from "./build-units.ts";
import { restartsOf } from "./decide-outcome.ts";
import type { JobSpec } from "./job.ts";
import { isFinished, isTrue, NEW_STATUS, type JobStatus } from "./job-status.ts";
import { planJob } from "./plan-job.ts";
import type { GroupWanted } from "./pod-group.ts";
import type { JobStep } from "./plan-steps.ts";
import type { PodFact, ReplicaSeen, Snapshot, UnitSeen } from "./snapshot.ts";
import { mayRun } from "./summarise-replicas.ts";

const BACKOFF_LIMIT = 3;

/** A cluster and a ledger in memory, that do what the steps say and what chance says. */
type World = {
  nowMs: number;
  spec: JobSpec;
  status: JobStatus;
  pods: PodFact[];
  units: Map<string, UnitSeen>;
  budget: number | undefined;
  /** What the scheduler knows of the gang. */
  group: GroupWanted | undefined;
  lost: Set<string>;
  /** No pod is put on these; those that are there run on. */
  cordoned: Set<string>;
  made: number;
  machines: number;
  /** Failures that happened to pods by their own doing, each once. */
  failures: number;
  deleting: boolean;
};

type Happening =
  | {
      do: "pod-binds" | "pod-runs" | "pod-succeeds" | "pod-fails" | "pod-evicted" | "pod-deleted" | "pod-goes";
      which: number;
    }
  | { do: "grant" | "machine-lost" | "machine-cordoned" | "uncordon" | "suspend" | "resume" | "pass" }
  | { do: "time"; ms: number }
  | { do: "crash-in-steps"; after: number };

const which = fc.nat(3);
const happening: fc.Arbitrary<Happening> = fc.oneof(
  { weight: 8, arbitrary: fc.constant({ do: "pass" as const }) },
  { weight: 6, arbitrary: fc.record({ do: fc.constant("pod-binds" as const), which }) },
  { weight: 6, arbitrary: fc.record({ do: fc.constant("pod-runs" as const), which }) },
  { weight: 3, arbitrary: fc.record({ do: fc.constant("pod-succeeds" as const), which }) },
  { weight: 3, arbitrary: fc.record({ do: fc.constant("pod-fails" as const), which }) },
  { weight: 3, arbitrary: fc.record({ do: fc.constant("pod-goes" as const), which }) },
  { weight: 4, arbitrary: fc.constant({ do: "grant" as const }) },
  { weight: 3, arbitrary: fc.record({ do: fc.constant("time" as const), ms: fc.integer({ min: 1, max: 700_000 }) }) },
  { weight: 3, arbitrary: fc.record({ do: fc.constant("crash-in-steps" as const), after: fc.nat(4) }) },
  { weight: 1, arbitrary: fc.record({ do: fc.constantFrom("pod-evicted" as const, "pod-deleted" as const), which }) },
  {
    weight: 2,
    arbitrary: fc.constantFrom<Happening>(
      { do: "machine-lost" },
      { do: "machine-cordoned" },
      { do: "uncordon" },
      { do: "suspend" },
      { do: "resume" },
    ),
  },
);

const GROUPS = { apiVersion: "groups/v1", fields: [] } as const;

const SPEC = spec({
  replicas: [replica("chief", 1), replica("worker", 3, { dependsOn: [{ type: "chief", status: "Ready" }] })],
  group: { scheduler: "gangs", settings: {} },
  backoffLimit: BACKOFF_LIMIT,
  failurePolicy: [
    { action: "RestartJob", replicaTypes: ["chief"], on: { exitCodes: "In", values: [3], container: undefined } },
  ],
  success: [
    [
      { type: "chief", indexes: "all" },
      { type: "worker", indexes: "all" },
    ],
  ],
});

const AT_ONCE = { ...SPEC, replicas: SPEC.replicas.map((each) => ({ ...each, dependsOn: [] })) };
const anySpec = fc.constantFrom(SPEC, AT_ONCE);

/** A job whose machines were granted and whose first pods are made. */
function newWorld(of: JobSpec = SPEC): World {
  const world: World = {
    nowMs: NOW_MS,
    spec: of,
    status: NEW_STATUS,
    pods: [],
    units: new Map(),
    budget: undefined,
    group: undefined,
    lost: new Set(),
    cordoned: new Set(),
    made: 0,
    machines: 0,
    failures: 0,
    deleting: false,
  };
  pass(world);
  grant(world);
  pass(world);
  return world;
}

/** Long ones, because most of what can go wrong takes several turns to come about. */
const events = (length: number): fc.Arbitrary<Happening[]> =>
  fc.array(happening, { minLength: length / 2, maxLength: length, size: "max" });

function observe(world: World): Snapshot {
  const replicas = world.spec.replicas.map(({ type, replicas: count }): ReplicaSeen => {
    const slots = Array.from({ length: count }, (_, index) =>
      world.pods.find(({ component }) => component === componentOf({ type, index })),
    );
    return seen(type, slots);
  });
  return {
    nowMs: world.nowMs,
    job: { ...JOB, deleting: world.deleting },
    spec: world.spec,
    status: world.status,
    replicas,
    strangers: [],
    unreadable: [],
    released: [],
    services: { present: [], wanted: [], settled: true },
    namesTaken: [],
    companionsMissing: [],
    budget: world.budget,
    groups: {
      kind: GROUPS,
      there: world.group === undefined ? [] : [{ apiVersion: GROUPS.apiVersion, group: world.group }],
    },
    units: [...world.units.values()],
    nodesLost: [...world.lost],
  };
}

/** The whole of a pass, or its first steps only: the process dies then. */
function pass(world: World, stepsMost = Infinity): JobStep[] {
  const { status, steps } = planJob(observe(world), POLICY);
  if (isFinished(world.status)) expect(status.conditions).toEqual(world.status.conditions);
  world.status = status;
  steps.slice(0, stepsMost).forEach((step) => {
    apply(world, step);
  });
  check(world);
  return [...steps];
}

function apply(world: World, step: JobStep): void {
  switch (step.do) {
    case "reserve": {
      const components = step.unit.needs.map(({ component }) => component);
      const because = { code: "POOL_AVAILABILITY", text: "" };
      const before = world.units.get(step.unit.id);
      if (before === undefined) {
        const { id } = step.unit;
        world.units.set(id, { id, state: "waiting", components, because, sinceMs: world.nowMs });
      }
      return;
    }
    case "release": {
      const unit = world.units.get(step.unitId);
      if (unit?.state === "granted") {
        const nodes = new Set(unit.nodes.values());
        const there = world.pods.filter((each) => mayRun(each) && nodes.has(placeOf(each)));
        expect(there, "a pod on a machine that is given back").toEqual([]);
      }
      world.units.delete(step.unitId);
      return;
    }
    case "create-pods":
      for (const { type, index, node } of step.pods) {
        const component = componentOf({ type, index });
        // The name is unique: a pod that is there, whatever its state, lets none be made beside it.
        if (world.pods.some((each) => each.component === component)) continue;
        expect(world.units.get(ownerIdOf(JOB))?.state, "a pod without its gang's machines").toBe("granted");
        const elsewhere = world.pods.filter((each) => mayRun(each) && placeOf(each) === node);
        expect(elsewhere, "two pods of the job on one machine").toEqual([]);
        const completed = world.status.replicas.find((each) => each.type === type)?.completedIndexes ?? [];
        expect(completed, "an index that had ended well is run again").not.toContain(index);
        world.made += 1;
        world.pods.push(
          pod(component, {
            uid: `uid-${world.made}`,
            attempt: step.attempt,
            node: undefined,
            pinned: node,
            phase: "Pending",
            ready: false,
          }),
        );
      }
      return;
    case "delete-pod":
      world.pods = world.pods.flatMap((each) => (each.uid === step.uid ? turn(world, each, "pod-deleted") : [each]));
      return;
    case "force-pod":
      world.pods = world.pods.filter((each) => each.uid !== step.uid);
      return;
    case "sync-budget":
      world.budget = step.minAvailable;
      return;
    case "delete-budget":
      world.budget = undefined;
      return;
    case "sync-group":
      world.group = step.group;
      return;
    case "delete-group":
      world.group = undefined;
      return;
    case "create-service":
    case "delete-service":
    case "create-companions":
    case "delete-job":
  }
}

function check(world: World): void {
  expect(isTrue(world.status, "Succeeded") && isTrue(world.status, "Failed"), "two outcomes").toBe(false);
  expect(restartsOf(world.status), "failures that nobody saw").toBeLessThanOrEqual(world.failures);
}

function happen(world: World, event: Happening): void {
  switch (event.do) {
    case "pass":
      pass(world);
      return;
    case "crash-in-steps":
      pass(world, event.after);
      return;
    case "time":
      world.nowMs += event.ms;
      return;
    case "suspend":
    case "resume":
      world.spec = { ...world.spec, suspend: event.do === "suspend" };
      return;
    case "grant":
      grant(world);
      return;
    case "machine-lost": {
      const there = world.pods.find((each) => !world.lost.has(placeOf(each)));
      if (there !== undefined) world.lost.add(placeOf(there));
      return;
    }
    case "machine-cordoned": {
      const there = world.pods.find((each) => !world.cordoned.has(placeOf(each)));
      if (there !== undefined) world.cordoned.add(placeOf(there));
      return;
    }
    case "uncordon":
      world.cordoned.clear();
      return;
    default:
      world.pods = world.pods.flatMap((each, place) => (place === event.which ? turn(world, each, event.do) : [each]));
  }
}

/** One machine that nobody has, for each member. */
function grant(world: World): void {
  for (const [id, unit] of world.units) {
    if (unit.state !== "waiting") continue;
    const nodes = new Map(unit.components.map((component) => [component, `machine-${(world.machines += 1)}`]));
    world.units.set(id, { id, state: "granted", nodes });
  }
}

/** Where it is, or would be put. */
function placeOf({ node, pinned }: PodFact): string {
  return node ?? pinned ?? "";
}

/**
 * As the strictest of schedulers has it: none of the group's pods before as many as it names are there, and those that failed are not. A pod is put only where it is
 * pinned, and not while that machine takes none.
 */
function canBind({ group, pods, lost, cordoned }: World, each: PodFact): boolean {
  if (lost.has(placeOf(each)) || cordoned.has(placeOf(each))) return false;
  const there = pods.filter(({ phase, deleting }) => phase !== "Failed" && !deleting);
  return group !== undefined && there.length >= group.minMember;
}

function turn(world: World, each: PodFact, event: Exclude<Happening["do"], "time" | "grant">): PodFact[] {
  const over = !mayRun(each);
  const end = { ready: false, finishedMs: world.nowMs };
  switch (event) {
    case "pod-binds":
      if (over || each.node !== undefined || !canBind(world, each)) return [each];
      return [{ ...each, node: each.pinned, pinned: undefined }];
    case "pod-runs":
      return [over || each.node === undefined ? each : { ...each, phase: "Running", ready: true }];
    case "pod-succeeds":
      return [over || each.phase === "Pending" ? each : { ...each, ...end, phase: "Succeeded" }];
    case "pod-fails": {
      if (over || each.phase === "Pending") return [each];
      if (!each.deleting) world.failures += 1;
      return [{ ...each, ...end, phase: "Failed", exits: [{ container: "main", code: 1 + (world.made % 3) }] }];
    }
    case "pod-evicted":
      return [over || each.node === undefined ? each : { ...each, ...end, phase: "Failed", reason: "NodeShutdown" }];
    case "pod-deleted":
      // Nobody has to end what was put nowhere.
      return each.node === undefined ? [] : [{ ...each, deleting: true }];
    case "pod-goes":
      return each.deleting ? [] : [each];
    default:
      return [each];
  }
}

/** Everything that can happen by itself happens, well, until nothing is planned: except that machines which were drained are taken away. Returns whether that came about. */
function calmDown(world: World): boolean {
  world.spec = { ...world.spec, suspend: false };
  for (const machine of world.cordoned) world.lost.add(machine);
  for (let round = 0; round < 100; round += 1) {
    const statusBefore = world.status;
    const steps = pass(world);
    world.pods = world.pods.flatMap((each) =>
      each.deleting
        ? []
        : (["pod-binds", "pod-runs", round % 2 === 0 ? "pod-runs" : "pod-succeeds"] as const).reduce(
            (now, event) => turn(world, now, event)[0] ?? now,
            each,
          ),
    );
    grant(world);
    world.nowMs += POLICY.restartBackoffMostMs;
    if (steps.length === 0 && world.status === statusBefore && isFinished(world.status)) return true;
    if (
      steps.length === 0 &&
      isFinished(world.status) &&
      world.units.size === 0 &&
      world.pods.every((each) => !mayRun(each))
    )
      return true;
  }
  return false;
}

it("ends a job once, with nothing left, whatever happens to it and wherever its controller dies", () => {
  fc.assert(
    fc.property(anySpec, events(120), (of, happenings) => {
      const world = newWorld(of);
      for (const event of happenings) happen(world, event);
      expect(calmDown(world), "the job does not end").toBe(true);
      expect([...world.units.keys()], "machines left").toEqual([]);
      expect(world.pods.filter(mayRun), "pods left").toEqual([]);
      expect(world.budget, "a budget left").toBeUndefined();
      expect(world.group, "a group left").toBeUndefined();
      if (isTrue(world.status, "Succeeded")) {
        expect(world.status.replicas.map(({ completedIndexes }) => completedIndexes)).toEqual([[0], [0, 1, 2]]);
        expect(restartsOf(world.status)).toBeLessThanOrEqual(BACKOFF_LIMIT);
      }
    }),
    { numRuns: 500 },
  );
});

it("plans nothing in a world where its plan was carried out, until something happens", () => {
  fc.assert(
    fc.property(anySpec, events(60), (of, happenings) => {
      const world = newWorld(of);
      for (const event of happenings) happen(world, event);
      // What the ledger answers to a step is seen by the next pass; a gang that gives all its machines back takes four.
      for (let round = 0; round < 6; round += 1) pass(world);
      const status = world.status;
      expect(pass(world)).toEqual([]);
      expect(world.status).toEqual(status);
    }),
    { numRuns: 300 },
  );
});

it("plans the same for the same world, in whatever order it was listed", () => {
  fc.assert(
    fc.property(events(60), (happenings) => {
      const world = newWorld();
      for (const event of happenings) happen(world, event);
      const snapshot = observe(world);
      const turned = { ...snapshot, units: snapshot.units.toReversed(), nodesLost: snapshot.nodesLost.toReversed() };
      const byKind = (steps: readonly JobStep[]) => steps.map((step) => JSON.stringify(step)).sort();
      expect(byKind(planJob(turned, POLICY).steps)).toEqual(byKind(planJob(snapshot, POLICY).steps));
      expect(planJob(turned, POLICY).status).toEqual(planJob(snapshot, POLICY).status);
    }),
  );
});
