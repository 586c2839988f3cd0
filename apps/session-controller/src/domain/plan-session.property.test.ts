import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { makeComponent, makeLivePod, POLICY, makeRecord, makeSpec, START_MS } from "../../test/samples.ts";
import { needsListing } from "./decide-listing.ts";
import { planSession } from "./plan-session.ts";
import type { SessionStep } from "./session-steps.ts";
import { findEvent, isFinished, type Component, type PodHealth, type SessionRecord } from "./session.ts";
import type { LivePod, PodObstacle, ReservationSeen, Snapshot } from "./snapshot.ts";
import { hasEnded, type PodSeen } from "./summarise-components.ts";
import { transitionCancel, transitionRecord, transitionTakeOver, type SessionOutcome } from "./transition-record.ts";

/** A cluster and a ledger in memory, which follow the steps and random events. */
type World = {
  nowMs: number;
  record: SessionRecord;
  reservation: ReservationSeen;
  held: boolean;
  pods: Map<string, PodSeen & { alive: boolean; deleting: boolean }>;
  obstacles: PodObstacle[];
  trouble: string | undefined;
  made: number;
  /** Outcomes that may be replayed: those that change the record once and permanently. */
  written: SessionOutcome[];
};

/** An event between two passes. `which` picks a component by its position. */
type Happening =
  | { kind: "pod"; which: number; health: PodHealth }
  | { kind: "pod-deleted"; which: number }
  | { kind: "pods-gone" }
  | { kind: "grant" }
  | { kind: "refuse" }
  | { kind: "refuse-pod"; which: number }
  | { kind: "cancel" }
  | { kind: "time"; ms: number }
  | { kind: "executor-dies" }
  | { kind: "trouble" }
  | { kind: "repeat-write"; which: number };

const health = fc.constantFrom<PodHealth>("UNKNOWN", "NOT_READY", "READY", "SUCCEEDED", "FAILED");
const which = fc.nat(4);
const happening: fc.Arbitrary<Happening> = fc.oneof(
  { weight: 6, arbitrary: fc.record({ kind: fc.constant("pod" as const), which, health }) },
  {
    weight: 4,
    arbitrary: fc.record({ kind: fc.constant("pod" as const), which, health: fc.constant("READY" as const) }),
  },
  { weight: 3, arbitrary: fc.constant({ kind: "grant" as const }) },
  { weight: 3, arbitrary: fc.constant({ kind: "pods-gone" as const }) },
  { weight: 2, arbitrary: fc.record({ kind: fc.constant("time" as const), ms: fc.integer({ min: 1, max: 600_000 }) }) },
  { weight: 2, arbitrary: fc.constant({ kind: "executor-dies" as const }) },
  { weight: 1, arbitrary: fc.record({ kind: fc.constant("pod-deleted" as const), which }) },
  { weight: 1, arbitrary: fc.record({ kind: fc.constant("repeat-write" as const), which: fc.nat(100) }) },
  { weight: 1, arbitrary: fc.record({ kind: fc.constant("refuse-pod" as const), which }) },
  {
    weight: 1,
    arbitrary: fc.constantFrom({ kind: "cancel" as const }, { kind: "refuse" as const }, { kind: "trouble" as const }),
  },
);

const SPEC = makeSpec({
  components: [
    makeComponent("server-0", "server"),
    makeComponent("driver", "driver"),
    makeComponent("client-0", "client"),
    makeComponent("server-1", "server"),
    makeComponent("client-1", "client"),
  ],
});

/** Each component is granted a pool that it does not prefer. */
function grantedPool({ pool }: Pick<Component, "pool">): string {
  return `other-${pool}`;
}

function newWorld(): World {
  return {
    nowMs: START_MS,
    record: makeRecord({}, SPEC),
    reservation: { state: "unknown" },
    held: false,
    pods: new Map(),
    obstacles: [],
    trouble: undefined,
    made: 0,
    written: [],
  };
}

function observe(world: World): Snapshot {
  const live: LivePod[] = [...world.pods.values()]
    .filter(({ alive }) => alive)
    .map(({ alive: _, deleting, ...seen }) => makeLivePod(seen, { deleting }));
  const { nowMs, record } = world;
  // Fresh views, so that only a clean-up and a time limit need a list.
  const isListed = needsListing({
    nowMs,
    record,
    pods: [],
    podsFresh: true,
    nodesLost: new Map(),
    isListDue: false,
    listed: undefined,
    isReading: false,
  });
  return {
    nowMs: world.nowMs,
    record: world.record,
    reservation: world.reservation,
    pods: [...world.pods.values()],
    livePods: isListed ? live : undefined,
    isProgressReported: false,
    isReading: false,
    obstacles: world.obstacles,
    nodesLost: new Map(),
    nodesBack: new Set<string>(),
    heldMs: 0,
    replacements: new Map(),
    trouble: world.trouble,
  };
}

/** Executes one step, and checks the invariants of that moment. */
function execute(world: World, step: SessionStep): void {
  switch (step.kind) {
    case "reserve":
      world.reservation = { state: "waiting", id: "r-1", because: undefined };
      return;
    case "create-pod": {
      const pod = `bench-${step.component.name}`;
      expect(world.pods.has(pod), `${pod} is made twice`).toBe(false);
      expect(world.held, "a pod is made without machines").toBe(true);
      expect(step.pool, `${pod} is made in another pool than the granted one`).toBe(grantedPool(step.component));
      if (step.component.kind === "driver") expectWorkersUsable(world);
      world.made += 1;
      const uid = `uid-${world.made}`;
      const seen = { health: "NOT_READY" as const, reason: "", message: "", deleted: false, exitCode: undefined };
      world.pods.set(pod, {
        pod,
        uid,
        resourceVersion: 1,
        podIp: "",
        node: step.node,
        ...seen,
        alive: true,
        deleting: false,
      });
      remember(world, { kind: "pod-created", component: step.component.name, uid, node: step.node });
      return;
    }
    case "delete-pod": {
      const pod = world.pods.get(step.pod);
      if (pod !== undefined) world.pods.set(step.pod, { ...pod, deleting: true });
      return;
    }
    case "collect-logs":
      for (const { pod } of step.pods) remember(world, { kind: "logs-read", pod, warnings: [], resultJson: "{}" });
      return;
    case "reserve-replacement":
    case "release-replacement":
      throw new Error("no machine is lost here");
    case "release":
      expect(
        [...world.pods.values()].some((pod) => pod.alive && !hasEnded({ state: pod.health })),
        "released while a pod runs",
      ).toBe(false);
      world.held = false;
      world.reservation = { state: "unknown" };
      remember(world, { kind: "released" });
      return;
    default:
      remember(world, step);
  }
}

function expectWorkersUsable(world: World): void {
  for (const { name, kind } of SPEC.components) {
    if (kind === "driver") continue;
    const status = world.record.components.find((each) => each.name === name);
    expect(["READY", "SUCCEEDED"], `the driver is made before ${name} is ready`).toContain(status?.state);
    expect(status?.podIp).not.toBe("");
  }
}

/** Writes every outcome twice, as a replica does whose first write was not acknowledged. */
function remember(world: World, outcome: SessionOutcome): void {
  world.record = transitionRecord(world.record, outcome);
  if (["record", "accept", "pod-created", "conclude"].includes(outcome.kind)) world.written.push(outcome);
  expect(transitionRecord(world.record, outcome)).toEqual(world.record);
}

function happen(world: World, event: Happening): void {
  const name = "which" in event ? (SPEC.components[event.which]?.name ?? "") : "";
  const pod = world.pods.get(`bench-${name}`);
  switch (event.kind) {
    case "pod":
      if (pod?.alive === true && pod.health !== "SUCCEEDED" && pod.health !== "FAILED")
        world.pods.set(pod.pod, { ...pod, health: event.health, podIp: "10.0.0.1" });
      return;
    case "pod-deleted":
      if (pod !== undefined) world.pods.set(pod.pod, { ...pod, alive: false, deleted: true });
      return;
    case "pods-gone":
      for (const each of world.pods.values())
        if (each.deleting) world.pods.set(each.pod, { ...each, alive: false, deleted: true });
      return;
    case "grant": {
      if (world.reservation.state !== "waiting") return;
      const machines = SPEC.components.map((each) => {
        return { component: each.name, pool: grantedPool(each), node: `node-${each.name}` };
      });
      world.reservation = { state: "granted", id: "r-1", machines };
      world.held = true;
      return;
    }
    case "refuse":
      if (!world.held) world.reservation = { state: "refused", fault: { code: "pool_unknown", pool: "gpus" } };
      return;
    case "refuse-pod":
      world.obstacles = [{ kind: "refused", component: name, reason: "POD_REFUSED", message: "no" }];
      return;
    case "cancel":
      world.record = transitionCancel(world.record, world.nowMs);
      return;
    case "time":
      world.nowMs += event.ms;
      return;
    case "executor-dies":
      // The memory of the executor is lost; the state of the ledger and the cluster is observed again.
      world.record = transitionTakeOver(world.record, { token: world.record.epoch + 1, executor: "controller-b" });
      world.obstacles = [];
      world.trouble = undefined;
      if (!world.held) world.reservation = { state: "unknown" };
      return;
    case "trouble":
      world.trouble = "kubernetes is not available";
      return;
    case "repeat-write": {
      const outcome = world.written[event.which % world.written.length];
      if (outcome !== undefined) remember(world, outcome);
    }
  }
}

function pass(world: World): number {
  const steps = planSession(observe(world), POLICY);
  for (const step of steps) execute(world, step);
  return steps.length;
}

/** Runs passes until no step remains. */
function settle(world: World): void {
  for (let count = 0; count < 30; count += 1) {
    if (pass(world) === 0) return;
  }
  throw new Error("the plan does not come to rest");
}

function live(happenings: readonly Happening[], each: (world: World) => void): World {
  const world = newWorld();
  for (const event of happenings) {
    happen(world, event);
    settle(world);
    each(world);
    world.trouble = undefined;
  }
  return world;
}

/** A worker ends, and an operator deletes its pod before its log is read. */
const DELETED_AFTER_ITS_END: Happening[] = [
  { kind: "pod", which: 0, health: "UNKNOWN" },
  { kind: "grant" },
  { kind: "pod", which: 3, health: "SUCCEEDED" },
  { kind: "pod-deleted", which: 3 },
];

/** Returns whether the warning concerns the log of a pod that was deleted externally. */
function isLogOfDeleted(
  { code, message }: World["record"]["warnings"][number],
  happenings: readonly Happening[],
): boolean {
  const deleted = happenings.flatMap((event) => (event.kind === "pod-deleted" ? [event.which] : []));
  return code === "LOGS_LOST" && deleted.some((which) => message.startsWith(`bench-${SPEC.components[which]?.name}:`));
}

const histories = fc.array(happening, { maxLength: 40 });

describe("planSession, after any events", () => {
  it("settles, and plans nothing for the world that it has planned", () => {
    fc.assert(
      fc.property(histories, (happenings) => {
        live(happenings, (world) => expect(planSession(observe(world), POLICY)).toEqual([]));
      }),
    );
  });

  it("writes its events in order, each once, and one terminal event last", () => {
    const order = ["QUEUE", "ACCEPT", "PROVISION", "RUN", "END"];
    fc.assert(
      fc.property(histories, (happenings) => {
        const terminal = new Set(["DONE", "ERROR", "CANCELLED", "INTERNAL_ERROR"]);
        const world = live(happenings, ({ record: { events, finishedAtMs } }) => {
          const ranks = events.map(({ kind }) => order.indexOf(terminal.has(kind) ? "END" : kind));
          expect(ranks).toEqual([...new Set(ranks)].sort());
          expect(events.some(({ kind }) => terminal.has(kind))).toBe(finishedAtMs > 0);
        });
        if (findEvent(world.record, "DONE") !== undefined)
          expect(world.record.events.map(({ kind }) => kind)).toEqual(["QUEUE", "ACCEPT", "PROVISION", "RUN", "DONE"]);
      }),
    );
  });

  it("never changes a reported event", () => {
    fc.assert(
      fc.property(histories, (happenings) => {
        let reported: string | undefined;
        live(happenings, ({ record: { epoch, executor, attempts, podsDeleted, released, ...shown } }) => {
          if (shown.finishedAtMs === 0) return;
          reported ??= JSON.stringify(shown);
          expect(JSON.stringify(shown)).toBe(reported);
          expect([epoch, executor, attempts, podsDeleted, released]).toBeDefined();
        });
      }),
    );
  });

  it("ends with nothing held and no warning if its pods are removed in time", () => {
    fc.assert(
      fc.property(histories, (happenings) => {
        const world = live(happenings, () => undefined);
        // A session that was already ending may have waited too long for its pods; the next property covers this case.
        fc.pre(world.record.verdict === undefined);
        happen(world, { kind: "time", ms: 86_400_000 });
        settle(world);
        happen(world, { kind: "pods-gone" });
        settle(world);
        expect(isFinished(world.record)).toBe(true);
        expect(world.record.warnings.filter((warning) => !isLogOfDeleted(warning, happenings))).toEqual([]);
        expect([world.held, world.record.podsDeleted, world.record.released]).toEqual([false, true, true]);
      }),
      { examples: [[DELETED_AFTER_ITS_END]] },
    );
  });

  it("also ends if its pods are not removed, and keeps the machines until then", () => {
    fc.assert(
      fc.property(histories, (happenings) => {
        const world = live(happenings, () => undefined);
        for (const ms of [86_400_000, 86_400_000]) {
          happen(world, { kind: "time", ms });
          settle(world);
        }
        const left = [...world.pods.values()].some(({ alive }) => alive);
        expect(isFinished(world.record)).toBe(true);
        const codes = new Set(world.record.warnings.map(({ code }) => code));
        if (left) expect(codes).toContain("PODS_NOT_GONE");
        const isAnyRunning = [...world.pods.values()].some((pod) => pod.alive && !hasEnded({ state: pod.health }));
        if (isAnyRunning) expect(world.held).toBe(true);
        // A clean-up that gave up leaves its machines to the sweep, whatever happened to its pods since.
        if (world.held) expect(codes.has("PODS_NOT_GONE") || codes.has("NOT_RELEASED")).toBe(true);
      }),
    );
  });
});
