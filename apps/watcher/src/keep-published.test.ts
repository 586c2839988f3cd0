import { makeBell } from "@muster/backoff";
import { makeFixedClock } from "@muster/testkit";
import { describe, expect, it } from "vitest";
import { bucketKeys } from "@muster/proto";
import { isNode, type NodeRecord } from "./adapters/messages.ts";
import { makeNodesPublication } from "./adapters/nodes-publication.ts";
import { makePublication } from "./adapters/publication.ts";
import type { WatchedNode } from "./domain/node-state.ts";
import type { PodState, WatchedPod } from "./domain/pod-state.ts";
import { MAX_POSTPONE_MS, type PostponedWrite } from "./domain/postpone-short-lived.ts";
import { keepPublished, runPass, type WatcherDeps } from "./keep-published.ts";
import { makeFakeBucket } from "../test/fake-bucket.ts";

const policy = { namespace: "ns", startGraceMs: 5000, nodeGraceMs: 4000, keepDeletedMs: 10_000 };

/** A cluster that the test writes, and two buckets that behave as the real ones. By default the nodes are marked as complete from the start. */
async function fakeWorld({ marked = true } = {}) {
  const clock = makeFixedClock();
  const pods = new Map<string, WatchedPod>();
  const nodes = new Map<string, WatchedNode>();
  const podBucket = makeFakeBucket<PodState>();
  const nodeBucket = makeFakeBucket<NodeRecord>();
  if (marked) await nodeBucket.create(bucketKeys.nodesComplete, { atMs: clock.now() });
  const blind: string[] = [];
  let version = 1;
  let sees = true;
  let current = true;
  const wakeup = makeBell();

  function replica(): WatcherDeps {
    const podSide = makePublication(podBucket, podBucket.view(), () => undefined);
    const { nodes: nodeSide, mark } = makeNodesPublication(nodeBucket, nodeBucket.view(), () => undefined);
    return {
      observe: () => {
        if (!sees) return { blind: "nothing was heard" };
        const sight = { version, listedAtMs: 0 };
        return {
          nowMs: clock.now(),
          pods: { seen: [...pods.values()], others: [], sight },
          nodes: { seen: [...nodes.values()], sight },
          removedPods: [],
          goneNodes: new Map(),
          publishedPods: podSide.published(),
          publishedNodes: nodeSide.published(),
          marked: {
            mark: mark.published().map(({ state, revision }) => ({ ...state, revision }))[0],
            bucketCurrent: current,
          },
        };
      },
      writePod: podSide.write,
      writeNode: nodeSide.write,
      writeMark: ({ atMs, expectedRevision }) =>
        mark.write({ kind: "put", key: bucketKeys.nodesComplete, state: { atMs }, expectedRevision, because: "new" }),
      recorded: (_plan, write) => write(),
      postpone: () => undefined,
      dueInMs: () => Infinity,
      blind: (reason) => blind.push(reason),
      wait: wakeup.wait,
      monotonicMs: clock.now,
    };
  }

  return {
    clock,
    podBucket,
    nodeBucket,
    blind,
    wakeup,
    replica,
    closeEyes: () => (sees = false),
    interrupt: () => (current = false),
    mark: () => nodeBucket.revision(bucketKeys.nodesComplete),
    putPod: (name: string, part: Partial<WatchedPod> = {}) => {
      version += 1;
      pods.set(name, {
        owner: { kind: "session", id: "s" },
        component: "server",
        namespace: "ns",
        name,
        uid: `uid-${name}`,
        resourceVersion: version,
        createdAtMs: clock.now() - 60_000,
        podIp: "",
        node: "n",
        deleting: false,
        exclusive: true,
        finished: false,
        requests: new Map(),
        mainContainer: undefined,
        facts: { spec: { containers: [{ name: "main" }] } },
        ...part,
      });
    },
    deletePod: (name: string) => {
      version += 1;
      pods.delete(name);
    },
    putNode: (name: string) => {
      version += 1;
      nodes.set(name, {
        name,
        uid: `uid-${name}`,
        resourceVersion: version,
        createdAtMs: clock.now(),
        labels: {},
        ready: true,
        schedulable: true,
        cordoned: false,
        unopened: false,
        taints: [],
        allocatable: {},
      });
    },
  };
}

describe("a pass", () => {
  it("converges, and then stays quiet", async () => {
    const world = await fakeWorld();
    const deps = world.replica();
    world.putNode("n");
    world.putPod("p");
    expect(await runPass(deps, policy, "all")).toMatchObject({ written: 2, failed: 0 });
    expect(await runPass(deps, policy, "all")).toMatchObject({ written: 0, failed: 0 });
    const state = world.nodeBucket.value("n");
    expect(state && isNode(state) && state.occupants).toEqual([{ kind: "session", id: "s" }]);
  });

  it("does not plan its own writes again before the view shows them", async () => {
    const world = await fakeWorld();
    world.podBucket.delay();
    const deps = world.replica();
    world.putPod("p");
    await runPass(deps, policy, "all");
    await runPass(deps, policy, "all");
    expect(world.podBucket.attempts).toBe(1);
    world.deletePod("p");
    await runPass(deps, policy, "all");
    world.clock.advance(10_000);
    await runPass(deps, policy, "all");
    await runPass(deps, policy, "all");
    expect(world.podBucket.attempts).toBe(3);
    expect(world.podBucket.value("session.s.p")).toBeUndefined();
  });

  it("continues after failed writes, without repeating successful ones", async () => {
    const world = await fakeWorld();
    const deps = world.replica();
    for (const name of ["p", "q", "r"]) world.putPod(name);
    world.podBucket.failNext(2);
    expect(await runPass(deps, policy, "all")).toMatchObject({ written: 1, failed: 2 });
    expect(await runPass(deps, policy, "all")).toMatchObject({ written: 2, failed: 0 });
    expect(await runPass(deps, policy, "all")).toMatchObject({ written: 0 });
  });

  it("of two replicas lets one write each state", async () => {
    const world = await fakeWorld();
    world.podBucket.delay();
    const [one, two] = [world.replica(), world.replica()];
    world.putPod("p");
    const results = await Promise.all([runPass(one, policy, "all"), runPass(two, policy, "all")]);
    expect(results.map(({ written }) => written).sort()).toEqual([0, 1]);
    expect(results.every(({ failed }) => failed === 0)).toBe(true);
    world.podBucket.catchUp();
    expect(await runPass(one, policy, "all")).toMatchObject({ written: 0 });
    expect(await runPass(two, policy, "all")).toMatchObject({ written: 0 });
  });

  it("publishes nothing while it is blind", async () => {
    const world = await fakeWorld();
    const deps = world.replica();
    world.putPod("p");
    await runPass(deps, policy, "all");
    world.deletePod("p");
    world.closeEyes();
    expect(await runPass(deps, policy, "all")).toMatchObject({ written: 0, blind: "nothing was heard" });
    expect(world.podBucket.value("session.s.p")?.deleted).toBe(false);
  });
});

describe("the mark that every node is published", () => {
  it("comes after every existing node", async () => {
    const world = await fakeWorld({ marked: false });
    for (let index = 0; index < 200; index += 1) world.putNode(`n${index}`);
    await runPass(world.replica(), policy, "all");
    const revisions = Array.from({ length: 200 }, (_, index) => world.nodeBucket.revision(`n${index}`) ?? Infinity);
    expect(world.mark()).toBeGreaterThan(Math.max(...revisions));
  });

  it("exists for a cluster without nodes", async () => {
    const world = await fakeWorld({ marked: false });
    await runPass(world.replica(), policy, "all");
    expect(world.mark()).toBeDefined();
  });

  it("is not written while a node could not be written", async () => {
    const world = await fakeWorld({ marked: false });
    for (const name of ["m", "n"]) world.putNode(name);
    const deps = world.replica();
    world.nodeBucket.failNext(1);
    await runPass(deps, policy, "all");
    expect(world.mark()).toBeUndefined();
    await runPass(deps, policy, "all");
    expect(world.mark()).toBeGreaterThan(world.nodeBucket.revision("m") ?? Infinity);
  });

  it("is not written by a watcher that is blind, or whose view of the bucket is outdated", async () => {
    const world = await fakeWorld({ marked: false });
    world.closeEyes();
    await runPass(world.replica(), policy, "all");
    const other = await fakeWorld({ marked: false });
    other.interrupt();
    await runPass(other.replica(), policy, "all");
    expect([world.mark(), other.mark()]).toEqual([undefined, undefined]);
  });

  it("is renewed by one of two replicas, after the nodes that came since", async () => {
    const world = await fakeWorld();
    const before = world.mark();
    const [one, two] = [world.replica(), world.replica()];
    world.clock.advance(15_000);
    world.putNode("n");
    await runPass(one, policy, "all");
    const renewed = world.mark();
    await runPass(two, policy, "all");
    expect(renewed).toBeGreaterThan(world.nodeBucket.revision("n") ?? Infinity);
    expect(renewed).not.toBe(before);
    expect(world.mark()).toBe(renewed);
  });

  it("is no node: it is neither reported as gone nor forgotten", async () => {
    const world = await fakeWorld();
    const deps = world.replica();
    world.putNode("n");
    for (let index = 0; index < 5; index += 1) {
      world.clock.advance(15_000);
      await runPass(deps, policy, "all");
    }
    expect(world.nodeBucket.value(bucketKeys.nodesComplete)).toEqual({ atMs: world.clock.now() });
  });
});

it("keeps running passes at every change until the signal", async () => {
  const world = await fakeWorld();
  const deps = world.replica();
  const stop = new AbortController();
  const done = keepPublished(deps, policy, stop.signal);
  for (const name of ["p", "q"]) {
    const written = world.podBucket.nextWrite();
    world.putPod(name);
    world.wakeup.ring();
    await written;
    expect(world.podBucket.value(`session.s.${name}`)).toMatchObject({ pod: name });
  }
  stop.abort();
  await done;
});

it("reports once that it has no current view, and retries until it has one", async () => {
  const world = await fakeWorld();
  const stop = new AbortController();
  const waits: number[] = [];
  world.closeEyes();
  const deps: WatcherDeps = {
    ...world.replica(),
    wait: (longestMs) => {
      waits.push(longestMs);
      if (waits.length === 3) stop.abort();
      return Promise.resolve();
    },
  };
  await keepPublished(deps, policy, stop.signal);
  expect(waits).toEqual([1000, 1000, 1000]);
  expect(world.blind).toEqual(["nothing was heard"]);
});

it("observes everything first, then changes, and everything again for time-based changes", async () => {
  const world = await fakeWorld();
  const scopes: string[] = [];
  let waits = 0;
  const stop = new AbortController();
  const deps: WatcherDeps = {
    ...world.replica(),
    observe: (scope) => {
      scopes.push(scope);
      return world.replica().observe(scope);
    },
    wait: (longestMs) => {
      waits += 1;
      // Two changes, then silence until the mark is due, 15 s after the start, then the end.
      if (waits === 3) world.clock.advance(longestMs);
      if (waits === 4) stop.abort();
      return Promise.resolve();
    },
  };
  await keepPublished(deps, policy, stop.signal);
  expect(scopes).toEqual(["all", "changed", "changed", "all"]);
});

it("postpones the pods of its plan, and waits no longer than until the first of them is due", async () => {
  const world = await fakeWorld();
  const stop = new AbortController();
  const postponed: PostponedWrite[] = [];
  const waits: number[] = [];
  const deps: WatcherDeps = {
    ...world.replica(),
    postpone: (pod) => postponed.push(pod),
    dueInMs: () => Math.min(...postponed.map(({ untilMs }) => untilMs)) - world.clock.now(),
    wait: (longestMs) => {
      waits.push(longestMs);
      world.clock.advance(longestMs);
      if (waits.length === 2) stop.abort();
      else postponed.length = 0;
      return Promise.resolve();
    },
  };
  const createdAtMs = world.clock.now() - 400;
  world.putPod("p", { createdAtMs });
  const written = world.podBucket.nextWrite();
  await keepPublished(deps, policy, stop.signal);
  await written;
  expect(waits[0]).toBe(MAX_POSTPONE_MS - 400);
  expect(waits[1]).toBeGreaterThan(MAX_POSTPONE_MS);
  expect(world.podBucket.value("session.s.p")).toMatchObject({ observedAtMs: createdAtMs + MAX_POSTPONE_MS });
});
