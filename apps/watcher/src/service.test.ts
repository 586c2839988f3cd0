import { fixedClock } from "@muster/testkit";
import { describe, expect, it } from "vitest";
import { publication } from "./adapters/publication.ts";
import type { NodeState, WatchedNode } from "./domain/node-state.ts";
import type { PodState, WatchedPod } from "./domain/pod-state.ts";
import { keepPublished, pass, type WatcherDeps } from "./service.ts";
import { makeWakeup } from "./wakeup.ts";
import { fakeBucket } from "../test/fake-bucket.ts";

const policy = { startGraceMs: 5000, keepDeletedMs: 10_000 };

/** A cluster that a test writes, and two buckets that behave as the real ones. */
function fakeWorld() {
  const clock = fixedClock();
  const pods = new Map<string, WatchedPod>();
  const nodes = new Map<string, WatchedNode>();
  const podBucket = fakeBucket<PodState>();
  const nodeBucket = fakeBucket<NodeState>();
  const blind: string[] = [];
  let version = 1;
  let sees = true;
  const wakeup = makeWakeup();

  function replica(): WatcherDeps {
    const podSide = publication(podBucket, podBucket.view(), () => undefined);
    const nodeSide = publication(nodeBucket, nodeBucket.view(), () => undefined);
    return {
      observe: () => {
        if (!sees) return { blind: "nothing was heard" };
        const sight = { version, listedAtMs: 0 };
        return {
          nowMs: clock.now(),
          pods: { seen: [...pods.values()], sight },
          nodes: { seen: [...nodes.values()], sight },
          publishedPods: podSide.published(),
          publishedNodes: nodeSide.published(),
        };
      },
      writePod: podSide.write,
      writeNode: nodeSide.write,
      recorded: (_plan, write) => write(),
      blind: (reason) => blind.push(reason),
      wait: wakeup.wait,
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
    putPod: (name: string, part: Partial<WatchedPod> = {}) => {
      version += 1;
      pods.set(name, {
        owner: { kind: "session", id: "s" },
        component: "server",
        namespace: "ns",
        name,
        uid: `uid-${name}`,
        resourceVersion: version,
        createdAtMs: clock.now(),
        podIp: "",
        node: "n",
        deleting: false,
        exclusive: true,
        finished: false,
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
      });
    },
  };
}

describe("a pass", () => {
  it("converges, then stays quiet", async () => {
    const world = fakeWorld();
    const deps = world.replica();
    world.putNode("n");
    world.putPod("p");
    expect(await pass(deps, policy)).toMatchObject({ written: 2, failed: 0 });
    expect(await pass(deps, policy)).toMatchObject({ written: 0, failed: 0 });
    expect(world.nodeBucket.value("n")?.occupants).toEqual([{ kind: "session", id: "s" }]);
  });

  it("does not plan its own writes again while the bucket has not told of them", async () => {
    const world = fakeWorld();
    world.podBucket.delay();
    const deps = world.replica();
    world.putPod("p");
    await pass(deps, policy);
    await pass(deps, policy);
    expect(world.podBucket.attempts).toBe(1);
    world.deletePod("p");
    await pass(deps, policy);
    world.clock.advance(10_000);
    await pass(deps, policy);
    await pass(deps, policy);
    expect(world.podBucket.attempts).toBe(3);
    expect(world.podBucket.value("session.s.p")).toBeUndefined();
  });

  it("carries on after writes that failed, without repeating those that did not", async () => {
    const world = fakeWorld();
    const deps = world.replica();
    for (const name of ["p", "q", "r"]) world.putPod(name);
    world.podBucket.failNext(2);
    expect(await pass(deps, policy)).toMatchObject({ written: 1, failed: 2 });
    expect(await pass(deps, policy)).toMatchObject({ written: 2, failed: 0 });
    expect(await pass(deps, policy)).toMatchObject({ written: 0 });
  });

  it("of two replicas lets one write each state", async () => {
    const world = fakeWorld();
    world.podBucket.delay();
    const [one, two] = [world.replica(), world.replica()];
    world.putPod("p");
    const results = await Promise.all([pass(one, policy), pass(two, policy)]);
    expect(results.map(({ written }) => written).sort()).toEqual([0, 1]);
    expect(results.every(({ failed }) => failed === 0)).toBe(true);
    world.podBucket.catchUp();
    expect(await pass(one, policy)).toMatchObject({ written: 0 });
    expect(await pass(two, policy)).toMatchObject({ written: 0 });
  });

  it("publishes nothing while it is blind", async () => {
    const world = fakeWorld();
    const deps = world.replica();
    world.putPod("p");
    await pass(deps, policy);
    world.deletePod("p");
    world.closeEyes();
    expect(await pass(deps, policy)).toMatchObject({ written: 0 });
    expect(world.blind).toEqual(["nothing was heard"]);
    expect(world.podBucket.value("session.s.p")?.deleted).toBe(false);
  });
});

it("keeps passing at every change until the signal", async () => {
  const world = fakeWorld();
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
