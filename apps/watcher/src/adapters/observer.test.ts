import fc from "fast-check";
import { expect, it } from "vitest";
import type { NodeState, WatchedNode } from "../domain/node-state.ts";
import type { ClusterPod } from "../domain/node-use.ts";
import { planPass } from "../domain/plan-pass.ts";
import type { PublishedState, PublishStep } from "../domain/plan-publish.ts";
import type { PodState } from "../domain/pod-state.ts";
import { makeObserver } from "./observer.ts";

const NOW = 1_000_000;
const policy = { namespace: "ns", startGraceMs: 5000, nodeGraceMs: 4000, keepDeletedMs: 10_000 };

/** A cache and a bucket of one kind of object; each reports its changes. */
function fakeKind<Kept, State>() {
  const kept = new Map<string, Kept>();
  const states = new Map<string, PublishedState<State>>();
  const onKept: ((change: { key: string; before: Kept | undefined; after: Kept | undefined }) => void)[] = [];
  const onPublished: ((key: string) => void)[] = [];
  const echoes = new Set<string>();
  let revision = 0;
  const subscribe = <Listener>(listeners: Listener[], listener: Listener) => {
    listeners.push(listener);
    return () => undefined;
  };
  return {
    followed: {
      get: (key: string) => kept.get(key),
      list: () => [...kept.values()],
      onChange: (listener: (typeof onKept)[number]) => subscribe(onKept, listener),
      resourceVersion: () => "1000",
      listAgeMs: () => 0,
    },
    side: {
      published: () => [...states.values()],
      get: (key: string) => states.get(key),
      isEcho: (key: string) => echoes.has(key),
    },
    view: { onChange: (listener: (key: string) => void) => subscribe(onPublished, listener), ageMs: () => 0 },
    set: (key: string, after: Kept | undefined) => {
      const before = kept.get(key);
      if (after === undefined) kept.delete(key);
      else kept.set(key, after);
      for (const listener of onKept) listener({ key, before, after });
    },
    /** `isOwn`: the observer's own replica wrote the state. */
    publish: (step: PublishStep<State>, isOwn = false) => {
      revision += 1;
      if (isOwn) echoes.add(step.key);
      else echoes.delete(step.key);
      if (step.kind === "put") states.set(step.key, { key: step.key, state: step.state, revision });
      else states.delete(step.key);
      for (const listener of onPublished) listener(step.key);
    },
  };
}

function fakeWorld() {
  const pods = fakeKind<ClusterPod, PodState>();
  const nodes = fakeKind<WatchedNode, NodeState>();
  let nowMs = NOW;
  const observer = () =>
    makeObserver({
      pods: pods.followed,
      nodes: nodes.followed,
      podSide: pods.side,
      nodeSide: nodes.side,
      markSide: { published: () => [] },
      podView: pods.view,
      nodeView: nodes.view,
      now: () => nowMs,
    });
  return { pods, nodes, observer, later: (ms: number) => (nowMs += ms) };
}

const anyPod = fc.record({
  kind: fc.constant("pod" as const),
  gone: fc.boolean(),
  name: fc.constantFrom("p", "q", "r"),
  namespace: fc.constantFrom("ns", "other"),
  node: fc.constantFrom("", "n", "m"),
  exclusive: fc.boolean(),
  finished: fc.boolean(),
  podIp: fc.constantFrom("", "10.0.0.1"),
  uid: fc.constantFrom("u1", "u2"),
  cpu: fc.nat(1),
});
/** A pod without owner labels; a pod of the same name may get or lose them. */
const anyOther = fc.record({
  kind: fc.constant("other" as const),
  gone: fc.boolean(),
  name: fc.constantFrom("p", "q", "x", "y"),
  namespace: fc.constantFrom("ns", "other"),
  node: fc.constantFrom("", "n", "m"),
  finished: fc.boolean(),
  group: fc.constantFrom("foreign" as const, "overhead" as const),
  cpu: fc.nat(1),
});
const anyNode = fc.record({
  kind: fc.constant("node" as const),
  gone: fc.boolean(),
  name: fc.constantFrom("n", "m"),
  ready: fc.boolean(),
});
const anyChanges = fc.array(
  fc.oneof({ weight: 3, arbitrary: anyPod }, { weight: 3, arbitrary: anyOther }, { weight: 1, arbitrary: anyNode }),
  { maxLength: 12 },
);

const ANY_POD = {
  kind: "pod",
  gone: false,
  name: "p",
  namespace: "ns",
  node: "n",
  exclusive: true,
  finished: false,
  podIp: "",
  cpu: 0,
} as const;

type World = ReturnType<typeof fakeWorld>;

function apply({ pods, nodes }: World, changes: typeof anyChanges extends fc.Arbitrary<infer Value> ? Value : never) {
  for (const [at, change] of changes.entries()) {
    const key = change.kind === "node" ? change.name : `${change.namespace}/${change.name}`;
    const version = { resourceVersion: at + 1, createdAtMs: 0 };
    if (change.kind === "other") {
      const { kind: _kind, gone, cpu, ...rest } = change;
      pods.set(key, gone ? undefined : { ...rest, requests: new Map([["cpu", cpu]]) });
    } else if (change.kind === "pod") {
      const fixed = { owner: { kind: "session", id: "s" }, component: "c", deleting: false, mainContainer: undefined };
      const facts = { spec: { containers: [{ name: "main" }] } };
      const requests = new Map([["cpu", change.cpu]]);
      pods.set(key, change.gone ? undefined : { ...change, ...fixed, ...version, facts, requests });
    } else {
      const fixed = { labels: {}, schedulable: true, cordoned: false, unopened: false, taints: [], allocatable: {} };
      nodes.set(key, change.gone ? undefined : { ...change, uid: "nu", ...version, ...fixed });
    }
  }
}

function carryOut({ pods, nodes }: World, plan: ReturnType<typeof planPass>): void {
  for (const step of plan.pods) pods.publish(step);
  for (const step of plan.nodes) nodes.publish(step);
}

it("a partial snapshot is planned as its part of a full one", () => {
  fc.assert(
    fc.property(anyChanges, anyChanges, anyChanges, fc.constantFrom(0, 1000, 4000), (first, second, third, pauseMs) => {
      const world = fakeWorld();
      apply(world, first);
      const observer = world.observer();
      const other = world.observer();
      carryOut(world, planPass(observer.observe("all"), policy));
      apply(world, second);
      const plan = planPass(observer.observe("changed"), policy);
      plan.postponed.forEach(observer.postpone);
      carryOut(world, plan);
      // The full pass that is due then finds the other time-based changes.
      world.later(pauseMs);
      if (pauseMs > 1000) carryOut(world, planPass(observer.observe("all"), policy));
      apply(world, third);
      const part = planPass(observer.observe("changed"), policy);
      const whole = planPass(other.observe("all"), policy);
      expect(part.pods).toEqual(whole.pods);
      expect(part.nodes).toEqual(whole.nodes);
    }),
    { numRuns: 500 },
  );
});

it("reports a node that is gone, but not one that exists again or was never published", () => {
  const world = fakeWorld();
  const observer = world.observer();
  const pod = {
    kind: "pod",
    gone: false,
    name: "p",
    namespace: "ns",
    exclusive: true,
    finished: false,
    cpu: 0,
  } as const;
  const node = { kind: "node", gone: false, name: "n", ready: true } as const;
  apply(world, [
    { ...pod, node: "m", podIp: "", uid: "u1" },
    { ...pod, name: "q", node: "n", podIp: "", uid: "u1" },
    node,
  ]);
  carryOut(world, planPass(observer.observe("all"), policy));
  world.later(500);
  apply(world, [{ ...node, gone: true }]);
  carryOut(world, planPass(observer.observe("changed"), policy));
  expect([...observer.observe("changed").goneNodes]).toEqual([["n", NOW + 500]]);
  apply(world, [node]);
  expect([...observer.observe("changed").goneNodes]).toEqual([]);
});

it("visits only what a change affects: the pod, and its node with all its pods if its occupants change", () => {
  const world = fakeWorld();
  const pod = (name: "p" | "q" | "r", node: "n" | "m", podIp: "" | "10.0.0.1" = "") =>
    ({
      kind: "pod",
      gone: false,
      name,
      namespace: "ns",
      node,
      exclusive: true,
      finished: false,
      podIp,
      uid: "u1",
      cpu: 0,
    }) as const;
  apply(world, [
    { kind: "node", gone: false, name: "n", ready: true },
    { kind: "node", gone: false, name: "m", ready: true },
    pod("p", "n"),
    pod("q", "n"),
    pod("r", "m"),
  ]);
  const observer = world.observer();
  observer.observe("all");
  expect(observer.observe("changed").pods.seen).toEqual([]);
  apply(world, [pod("p", "n", "10.0.0.1")]);
  const one = observer.observe("changed");
  expect(one.pods.seen.map(({ name }) => name)).toEqual(["p"]);
  expect(one.nodes.seen).toEqual([]);
  expect(one.marked).toBeUndefined();
  apply(world, [{ ...pod("p", "n"), finished: true }]);
  const { pods, nodes } = observer.observe("changed");
  expect(pods.seen.map(({ name }) => name).sort()).toEqual(["p", "q"]);
  expect(nodes.seen.map(({ name }) => name)).toEqual(["n"]);
  observer.recheck("nodes", "m");
  expect(observer.observe("changed").nodes.seen.map(({ name }) => name)).toEqual(["m"]);
});

it("keeps how a removed pod ended until that is published, in either order of the snapshots", () => {
  const pod = {
    kind: "pod",
    name: "p",
    namespace: "ns",
    node: "n",
    exclusive: true,
    podIp: "",
    uid: "u1",
    cpu: 0,
  } as const;
  for (const scope of ["all", "changed"] as const) {
    const world = fakeWorld();
    const observer = world.observer();
    apply(world, [
      { ...pod, gone: false, finished: true },
      { ...pod, gone: true, finished: true },
    ]);
    const { removedPods } = observer.observe(scope);
    expect(removedPods).toMatchObject([{ pod: { uid: "u1", finished: true }, removedAtMs: NOW }]);
    expect(observer.observe("all").removedPods).toEqual(removedPods);
    carryOut(world, planPass(observer.observe("all"), policy));
    expect(observer.observe("all").removedPods).toEqual([]);
  }
});

it("includes the foreign pods of visited nodes, and ignores changes of foreign pods that do not change their use", () => {
  const world = fakeWorld();
  const other = (name: "p" | "x" | "y", node: "n" | "m") =>
    ({
      kind: "other",
      gone: false,
      name,
      namespace: "other",
      node,
      finished: false,
      group: "foreign",
      cpu: 1,
    }) as const;
  apply(world, [
    { kind: "node", gone: false, name: "n", ready: true },
    { kind: "node", gone: false, name: "m", ready: true },
    other("p", "n"),
    other("x", "n"),
  ]);
  const observer = world.observer();
  let rung = 0;
  observer.onChange(() => (rung += 1));
  const { pods } = observer.observe("all");
  expect([pods.seen, pods.others.map(({ name }) => name)]).toEqual([[], ["p", "x"]]);
  apply(world, [other("p", "n")]);
  expect([rung, observer.observe("changed").pods.others]).toEqual([0, []]);
  apply(world, [other("y", "n")]);
  const part = observer.observe("changed");
  expect(part.pods.others.map(({ name }) => name).sort()).toEqual(["p", "x", "y"]);
  expect([part.pods.seen, part.nodes.seen.map(({ name }) => name), rung]).toEqual([[], ["n"], 1]);
});

it("publishes a node once, however many of its foreign pods changed since the last pass", () => {
  const world = fakeWorld();
  const observer = world.observer();
  apply(world, [{ kind: "node", gone: false, name: "n", ready: true }]);
  carryOut(world, planPass(observer.observe("all"), policy));
  const short = { kind: "other", namespace: "other", node: "n", finished: false, group: "foreign", cpu: 1 } as const;
  apply(world, [
    { ...short, name: "p", gone: false },
    { ...short, name: "x", gone: false },
    { ...short, name: "p", gone: true },
    { ...short, name: "y", gone: false },
  ]);
  const { nodes } = planPass(observer.observe("changed"), policy);
  expect(nodes).toMatchObject([{ key: "n", state: { foreign: { pods: 2, examples: ["other/x", "other/y"] } } }]);
});

it("publishes the end of a pod that loses its owner labels, and counts it as foreign", () => {
  const world = fakeWorld();
  const observer = world.observer();
  const pod = { gone: false, name: "p", namespace: "ns", node: "n", finished: false } as const;
  apply(world, [
    { kind: "node", gone: false, name: "n", ready: true },
    { ...pod, kind: "pod", exclusive: true, podIp: "", uid: "u1", cpu: 0 },
  ]);
  carryOut(world, planPass(observer.observe("all"), policy));
  apply(world, [{ ...pod, kind: "other", group: "foreign", cpu: 1 }]);
  expect(planPass(observer.observe("changed"), policy)).toMatchObject({
    pods: [{ because: "gone", state: { uid: "u1", deleted: true } }],
    nodes: [{ state: { occupants: [], foreign: { pods: 1 } } }],
  });
});

it("puts a postponed pod into the first snapshot from its time on, unless the pod changes before", () => {
  const world = fakeWorld();
  const observer = world.observer();
  const pod = { gone: false, name: "p", namespace: "ns", node: "", exclusive: true, finished: false, cpu: 0 } as const;
  const seen = (): readonly string[] => observer.observe("changed").pods.seen.map(({ name }) => name);
  apply(world, [{ ...pod, kind: "pod", podIp: "", uid: "u1" }]);
  observer.observe("all");
  expect(observer.dueInMs()).toBe(Infinity);
  observer.postpone({ key: "session.s.p", untilMs: NOW + 1000 });
  world.later(400);
  expect([seen(), observer.dueInMs()]).toEqual([[], 600]);
  world.later(600);
  expect([seen(), observer.dueInMs(), seen()]).toEqual([["p"], Infinity, []]);
  observer.postpone({ key: "session.s.p", untilMs: NOW + 2000 });
  apply(world, [{ ...pod, kind: "pod", podIp: "10.0.0.1", uid: "u1" }]);
  expect([seen(), observer.dueInMs()]).toEqual([["p"], Infinity]);
});

it("does not observe an object again when its own write appears in the view, unless that is the object's end", () => {
  const world = fakeWorld();
  const observer = world.observer();
  let rung = 0;
  apply(world, [
    { kind: "node", gone: false, name: "n", ready: true },
    { ...ANY_POD, uid: "u1" },
  ]);
  const plan = planPass(observer.observe("all"), policy);
  observer.onChange(() => (rung += 1));
  for (const step of plan.pods) world.pods.publish(step, true);
  for (const step of plan.nodes) world.nodes.publish(step, true);
  expect([rung, observer.observe("changed").publishedPods, observer.observe("changed").publishedNodes]).toEqual([
    0,
    [],
    [],
  ]);
  // The end of the first pod is written before the state of its successor, which enters a snapshot only by the echo.
  apply(world, [
    { kind: "node", gone: false, name: "n", ready: true },
    { ...ANY_POD, uid: "u1", gone: true },
    { ...ANY_POD, uid: "u2" },
  ]);
  for (const step of planPass(observer.observe("changed"), policy).pods) world.pods.publish(step, true);
  expect(planPass(observer.observe("changed"), policy).pods).toMatchObject([
    { because: "replaced", state: { uid: "u2" } },
  ]);
});
