import type { Requests } from "@muster/resources";
import { expect } from "vitest";
import { buildComponentName, buildOwnerId } from "../src/domain/build-units.ts";
import { countRestarts } from "../src/domain/decide-outcome.ts";
import type { JobSpec } from "../src/domain/job.ts";
import { canRun } from "../src/domain/job-pods.ts";
import { isFinished, isTrue, NEW_STATUS, type JobStatus } from "../src/domain/job-status.ts";
import { planJob } from "../src/domain/plan-job.ts";
import type { JobStep } from "../src/domain/plan-steps.ts";
import type { GroupSpec } from "../src/domain/pod-group.ts";
import type { QueueChoice } from "@muster/ledger-client/choose-queue";
import { canHoldRequests } from "../src/domain/requests.ts";
import type { JobPolicy, PodFact, ReplicaSeen, Snapshot, UnitSeen } from "../src/domain/snapshot.ts";
import { JOB, NOW_MS, makePodFact, POLICY, makeReplicaSeen } from "./samples.ts";

/** A cluster and a ledger in memory, which apply steps and random events. */
export type World = {
  nowMs: number;
  spec: JobSpec;
  status: JobStatus;
  pods: PodFact[];
  units: Map<string, UnitSeen>;
  budget: number | undefined;
  /** The gang as the scheduler has it. */
  group: GroupSpec | undefined;
  lost: Set<string>;
  /** Machines on which no pod is placed; running pods stay. */
  cordoned: Set<string>;
  made: number;
  machines: number;
  maxMachines: number;
  /** Counts each failure that pods caused themselves once. */
  failures: number;
  deleting: boolean;
  /** The queue of the job, by its current labels and the current queues. */
  queue: QueueChoice;
  /** The ready timeout of the queue. */
  readyTimeoutMs?: number | undefined;
  policy: JobPolicy;
};

export type WorldEvent =
  | {
      kind: "pod-binds" | "pod-runs" | "pod-succeeds" | "pod-fails" | "pod-evicted" | "pod-deleted" | "pod-goes";
      which: number;
    }
  | { kind: "preempt"; which: number; deadlineMs: number }
  | { kind: "withdraw" | "grant" | "machine-lost" | "machine-cordoned" | "uncordon" | "suspend" | "resume" | "pass" }
  | { kind: "share"; type: number; requests: Requests | undefined }
  | { kind: "queue"; choice: QueueChoice }
  | { kind: "ready-timeout"; ms: number | undefined }
  | { kind: "time"; ms: number }
  | { kind: "crash-in-steps"; after: number };

const GROUPS = { apiVersion: "groups/v1", fields: [] } as const;

/** A job and the number of machines; lost machines return under other names. An elastic job may find only its minimum. */
export type WorldSetup = { readonly of: JobSpec; readonly maxMachines: number };
/** Builds a job with granted machines and its first pods. */
export function makeWorld({ of, maxMachines }: WorldSetup, policy = POLICY): World {
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
    maxMachines,
    failures: 0,
    deleting: false,
    queue: { kind: "none" },
    policy,
  };
  runPass(world);
  grant(world);
  runPass(world);
  return world;
}

export function observeWorld(world: World): Snapshot {
  const replicas = world.spec.replicas.map(({ type, replicas: count }): ReplicaSeen => {
    const slots = Array.from({ length: count }, (_, index) =>
      world.pods.find(({ component }) => component === buildComponentName({ type, index })),
    );
    return makeReplicaSeen(type, slots);
  });
  return {
    nowMs: world.nowMs,
    job: { ...JOB, deleting: world.deleting },
    spec: world.spec,
    status: world.status,
    replicas,
    podsSettled: true,
    unknownTypes: [],
    unreadable: [],
    released: [],
    services: { present: [], wanted: [], settled: true },
    namesTaken: [],
    companionsMissing: [],
    budget: world.budget,
    groups: {
      kind: GROUPS,
      existing: world.group === undefined ? [] : [{ apiVersion: GROUPS.apiVersion, group: world.group }],
    },
    units: [...world.units.values()],
    queue: world.queue,
    readyTimeoutMs: world.readyTimeoutMs,
    nodesLost: [...world.lost],
    nodesReady: world.pods.map(placeOf).filter((node) => !world.lost.has(node)),
    nodesUnschedulable: [...world.cordoned].filter((machine) => isShared(world, machine)),
  };
}

function isShared({ units }: World, machine: string): boolean {
  return [...units.values()].some(
    (unit) =>
      unit.state === "granted" &&
      [...unit.nodes].some(([of, node]) => node === machine && unit.shares?.has(of) === true),
  );
}

/** Runs a pass, or only its first steps: the process dies then. */
export function runPass(world: World, maxSteps = Infinity): JobStep[] {
  const { status, steps } = planJob(observeWorld(world), world.policy);
  if (isFinished(world.status)) expect(status.conditions).toEqual(world.status.conditions);
  world.status = status;
  steps.slice(0, maxSteps).forEach((step) => {
    apply(world, step);
  });
  check(world);
  return [...steps];
}

function apply(world: World, step: JobStep): void {
  switch (step.kind) {
    case "reserve": {
      const components = step.unit.needs.map(({ component }) => component);
      const because = { code: "POOL_AVAILABILITY", text: "" };
      const shares = new Map(step.unit.needs.flatMap(({ component, shared }) => (shared ? [[component, shared]] : [])));
      const before = world.units.get(step.unit.id);
      const { id, queue } = step.unit;
      const gang = world.units.get(buildOwnerId(JOB));
      if (gang?.state === "granted") expect(queue, "a member in another queue than its gang").toBe(gang.queue);
      else expect(queue, "a gang in another queue than its job").toBe(nameOf(world.queue));
      const waiting = { id, components, shares, because, sinceMs: world.nowMs, ...(queue !== undefined && { queue }) };
      if (before === undefined) world.units.set(id, { ...waiting, state: "waiting" });
      return;
    }
    case "release":
      checkUnoccupied(world, step.unitId);
      world.units.delete(step.unitId);
      return;
    case "accept-preemption": {
      const unit = world.units.get(step.unitId);
      if (unit?.state === "granted" && unit.preemption !== undefined)
        world.units.set(unit.id, { ...unit, preemption: { ...unit.preemption, accepted: true } });
      return;
    }
    case "requeue": {
      checkUnoccupied(world, step.unitId);
      const unit = world.units.get(step.unitId);
      if (unit?.state !== "granted" || unit.preemption === undefined) return;
      const { id, nodes, preemption: _preemption, state: _state, ...kept } = unit;
      const because = { code: "POOL_AVAILABILITY", text: "" };
      const waiting = { id, components: [...nodes.keys()], because, sinceMs: world.nowMs, isRequeued: true };
      world.units.set(id, { ...kept, ...waiting, state: "waiting" });
      return;
    }
    case "create-pods":
      for (const { type, index, node, isShared: isPart = false } of step.pods) {
        const component = buildComponentName({ type, index });
        // The name is unique: an existing pod, in any state, prevents a second one.
        if (world.pods.some((each) => each.component === component)) continue;
        expect(world.units.get(buildOwnerId(JOB))?.state, "a pod without its gang's machines").toBe("granted");
        expect(isGranted(world.units.values(), component, node), "a pod without a grant").toBe(true);
        const parts = partsOf(world, node);
        expect(isPart, "a pod that is exclusive or not, and its grant the other").toBe(parts.length > 0);
        const elsewhere = world.pods.filter((each) => canRun(each) && placeOf(each) === node);
        if (!isPart) expect(elsewhere, "two pods of the job on one machine").toEqual([]);
        const requests = world.spec.replicas.find((each) => each.type === type)?.shared;
        const fits = parts.some((part) => part.component === component && canHoldRequests(part.share, requests));
        if (isPart) expect(fits, "a pod that requests more than was granted to it").toBe(true);
        const completed = world.status.replicas.find((each) => each.type === type)?.completedIndexes ?? [];
        expect(completed, "an index that had ended well is run again").not.toContain(index);
        world.made += 1;
        world.pods.push(
          makePodFact(component, {
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
      world.pods = world.pods.flatMap((each) => {
        if (each.uid !== step.uid) return [each];
        const announced = step.because === "preempted" && canRun(each) ? { ...each, preempted: true } : each;
        return turn(world, announced, "pod-deleted");
      });
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

/** Checks that no pod runs on a machine that only this unit has. */
function checkUnoccupied(world: World, unitId: string): void {
  const unit = world.units.get(unitId);
  if (unit?.state !== "granted") return;
  const { nodes, shares } = unit;
  const isOn = ({ component }: PodFact, place: string): boolean =>
    [...nodes].some(([of, node]) => node === place && (of === component || shares?.has(of) !== true));
  const there = world.pods.filter((each) => canRun(each) && isOn(each, placeOf(each)));
  const others = [...world.units.values()].filter((each) => each !== unit);
  // A member may have two parts of one machine, one of them by its own unit.
  const without = there.filter((each) => !isGranted(others, each.component, placeOf(each)));
  expect(without, "a pod on a machine that is released").toEqual([]);
}

/** Returns the name of the queue in which a job may request machines. */
function nameOf(choice: QueueChoice): string | undefined {
  expect(["none", "queue"], "a request without a known queue").toContain(choice.kind);
  return choice.kind === "queue" ? choice.name : undefined;
}

function check(world: World): void {
  expect(isTrue(world.status, "Succeeded") && isTrue(world.status, "Failed"), "two outcomes").toBe(false);
  expect(countRestarts(world.status), "failures that did not happen").toBeLessThanOrEqual(world.failures);
}

export function applyEvent(world: World, event: WorldEvent): void {
  switch (event.kind) {
    case "pass":
      runPass(world);
      return;
    case "crash-in-steps":
      runPass(world, event.after);
      return;
    case "time":
      world.nowMs += event.ms;
      return;
    case "suspend":
    case "resume":
      world.spec = { ...world.spec, suspend: event.kind === "suspend" };
      return;
    case "grant":
      grant(world);
      return;
    case "preempt": {
      const held = [...world.units.values()].filter((unit) => unit.state === "granted");
      const unit = held[event.which % Math.max(1, held.length)];
      if (unit === undefined || unit.preemption !== undefined) return;
      const beneficiary = { kind: "job", id: "urgent-0a1b" };
      const deadlineMs = world.nowMs + event.deadlineMs;
      const preemption = { beneficiary, queue: "a", reason: "RECLAIM", deadlineMs, accepted: false };
      world.units.set(unit.id, { ...unit, preemption });
      return;
    }
    case "withdraw":
      for (const [id, unit] of world.units)
        if (unit.state === "granted" && unit.preemption?.accepted === false) {
          const { preemption: _preemption, ...spared } = unit;
          world.units.set(id, spared);
        }
      return;
    case "queue":
      world.queue = event.choice;
      return;
    case "ready-timeout":
      world.readyTimeoutMs = event.ms;
      return;
    case "share": {
      const { replicas } = world.spec;
      const changed = replicas.map((each, place) =>
        place === event.type ? { ...each, shared: event.requests } : each,
      );
      world.spec = { ...world.spec, replicas: changed };
      return;
    }
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
      world.pods = world.pods.flatMap((each, place) =>
        place === event.which ? turn(world, each, event.kind) : [each],
      );
  }
}

/** Returns every part of a machine that the job has. */
function partsOf({ units }: World, machine: string): readonly { component: string; share: Requests }[] {
  return [...units.values()].flatMap((unit) => {
    if (unit.state !== "granted" || unit.shares === undefined) return [];
    const { nodes, shares } = unit;
    return [...shares].flatMap(([component, share]) =>
      nodes.get(component) === machine ? [{ component, share }] : [],
    );
  });
}

function isGranted(units: Iterable<UnitSeen>, component: string, node: string): boolean {
  return [...units].some((unit) => unit.state === "granted" && unit.nodes.get(component) === node);
}

/** Each machine has this many millicores of cpu. */
const MACHINE_CPU = 1000;

/** Grants one free machine, or a part of a shared one, to each member of the earliest request that fits. */
function grant(world: World): void {
  for (const [id, unit] of world.units) {
    if (unit.state !== "waiting") continue;
    const nodes = placeAll(world, unit);
    if (nodes === undefined) continue;
    const shares = new Map([...nodes.keys()].flatMap((each) => [[each, unit.shares?.get(each)] as const]));
    const parts = [...shares].filter((part): part is [string, Requests] => part[1] !== undefined);
    const kept = { ...(parts.length > 0 && { shares: new Map(parts) }), ...(unit.queue && { queue: unit.queue }) };
    world.units.set(id, { id, state: "granted", nodes, ...kept });
  }
}

/** Returns the machine of each member; undefined if too few are free. Parts are of the first machine with room. */
function placeAll(
  world: World,
  { components, shares }: Extract<UnitSeen, { readonly components: readonly string[] }>,
): Map<string, string> | undefined {
  const used = new Map<string, number>();
  for (const unit of world.units.values()) {
    if (unit.state !== "granted") continue;
    for (const [component, node] of unit.nodes) {
      const cpu = unit.shares?.get(component)?.["cpu"] ?? MACHINE_CPU;
      if (!world.lost.has(node)) used.set(node, (used.get(node) ?? 0) + cpu);
    }
  }
  const nodes = new Map<string, string>();
  for (const component of components) {
    const cpu = shares?.get(component)?.["cpu"] ?? MACHINE_CPU;
    const roomy = [...used].find(([node, there]) => there + cpu <= MACHINE_CPU && !world.cordoned.has(node))?.[0];
    if (roomy === undefined && used.size >= world.maxMachines) return undefined;
    const node = roomy ?? `machine-${(world.machines += 1)}`;
    used.set(node, (used.get(node) ?? 0) + cpu);
    nodes.set(component, node);
  }
  return nodes;
}

/** Returns the node of the pod, or the node to which it is bound. */
function placeOf({ node, pinned }: PodFact): string {
  return node ?? pinned ?? "";
}

/**
 * Acts as the strictest scheduler. It places no pod of a group before the named number of pods exists, not counting failed ones. It places a pod only on its
 * pinned machine, and not while that machine accepts none.
 */
function canBind({ group, pods, lost, cordoned }: World, each: PodFact): boolean {
  if (lost.has(placeOf(each)) || cordoned.has(placeOf(each))) return false;
  const there = pods.filter(({ phase, deleting }) => phase !== "Failed" && !deleting);
  return group !== undefined && there.length >= group.minMember;
}

function turn(
  world: World,
  each: PodFact,
  event: Exclude<WorldEvent["kind"], "time" | "grant" | "share" | "queue" | "ready-timeout" | "preempt">,
): PodFact[] {
  const over = !canRun(each);
  const end = { ready: false, finishedMs: world.nowMs };
  switch (event) {
    case "pod-binds":
      if (over || each.node !== undefined || !canBind(world, each)) return [each];
      return [{ ...each, node: each.pinned, pinned: undefined }];
    case "pod-runs":
      if (over || each.node === undefined) return [each];
      return [{ ...each, phase: "Running", ready: true, startedMs: each.startedMs ?? world.nowMs }];
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
      // A pod without a node is deleted without a kubelet.
      return each.node === undefined ? [] : [{ ...each, deleting: true }];
    case "pod-goes":
      return each.deleting ? [] : [each];
    default:
      return [each];
  }
}

/** Lets all spontaneous events succeed until no steps are planned, except that drained machines are removed. Returns whether that state was reached. */
export function calmDown(world: World): boolean {
  world.spec = { ...world.spec, suspend: false };
  world.readyTimeoutMs = undefined;
  if (world.queue.kind !== "none") world.queue = { kind: "queue", name: "last" };
  for (const machine of world.cordoned) world.lost.add(machine);
  for (let round = 0; round < 100; round += 1) {
    const statusBefore = world.status;
    const steps = runPass(world);
    world.pods = world.pods.flatMap((each) =>
      each.deleting
        ? []
        : (["pod-binds", "pod-runs", round % 2 === 0 ? "pod-runs" : "pod-succeeds"] as const).reduce(
            (now, event) => turn(world, now, event)[0] ?? now,
            each,
          ),
    );
    grant(world);
    world.nowMs += POLICY.maxRestartBackoffMs;
    if (steps.length === 0 && world.status === statusBefore && isFinished(world.status)) return true;
    if (
      steps.length === 0 &&
      isFinished(world.status) &&
      world.units.size === 0 &&
      world.pods.every((each) => !canRun(each))
    )
      return true;
  }
  return false;
}
