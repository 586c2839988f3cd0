import fc from "fast-check";
import { describe, expect, it } from "vitest";
import type { NodeState, WatchedNode } from "./node-state.ts";
import { planPass, type WatcherSnapshot } from "./plan-pass.ts";
import type { PodState, WatchedPod } from "./pod-state.ts";

const NOW = 1_000_000;
const policy = { namespace: "ns", startGraceMs: 5000, nodeGraceMs: 4000, keepDeletedMs: 10_000 };

function pod(part: Partial<WatchedPod> = {}): WatchedPod {
  return {
    owner: { kind: "session", id: "s" },
    component: "server",
    namespace: "ns",
    name: "p",
    uid: "u",
    resourceVersion: 10,
    createdAtMs: NOW - 1000,
    podIp: "",
    node: "n",
    deleting: false,
    exclusive: true,
    finished: false,
    mainContainer: undefined,
    facts: {
      spec: { containers: [{ name: "main" }] },
      status: { containerStatuses: [{ name: "main", state: { running: {} } }] },
    },
    ...part,
  };
}

const exited = { name: "main", state: { terminated: { exitCode: 0 } } };

function node(part: Partial<WatchedNode> = {}): WatchedNode {
  return {
    name: "n",
    uid: "nu",
    resourceVersion: 5,
    createdAtMs: 0,
    labels: { pool: "drivers" },
    ready: true,
    schedulable: true,
    cordoned: false,
    unopened: false,
    ...part,
  };
}

function world(part: {
  readonly pods?: readonly WatchedPod[];
  readonly removed?: readonly WatchedPod[];
  readonly podsSeen?: number;
  readonly nodes?: readonly WatchedNode[];
  readonly publishedPods?: readonly PodState[];
  readonly publishedNodes?: readonly NodeState[];
  readonly markedAtMs?: number;
  readonly goneNodes?: ReadonlyMap<string, number>;
}): WatcherSnapshot {
  const { pods = [], removed = [], podsSeen = 100, nodes = [], publishedPods = [], publishedNodes = [] } = part;
  const { markedAtMs: atMs = NOW, goneNodes = new Map<string, number>() } = part;
  return {
    nowMs: NOW,
    pods: { seen: pods, sight: { version: podsSeen, listedAtMs: 0 } },
    removedPods: removed.map((each) => ({ pod: each, removedAtMs: NOW - 500 })),
    nodes: { seen: nodes, sight: { version: 100, listedAtMs: 0 } },
    goneNodes,
    publishedPods: publishedPods.map((state) => ({ key: `session.s.${state.pod}`, state, revision: 1 })),
    publishedNodes: publishedNodes.map((state) => ({ key: state.name, state, revision: 1 })),
    marked: { mark: { atMs, revision: 1 }, bucketCurrent: true },
  };
}

const plannedNode = (snapshot: WatcherSnapshot): NodeState | undefined => {
  const step = planPass(snapshot, policy).nodes.at(0);
  return step?.kind === "put" ? step.state : undefined;
};
const plannedPod = (snapshot: WatcherSnapshot): PodState | undefined => {
  const step = planPass(snapshot, policy).pods.at(0);
  return step?.kind === "put" ? step.state : undefined;
};

describe("a pod", () => {
  it("is published under its owner, with its health", () => {
    const { pods } = planPass(world({ pods: [pod()] }), policy);
    expect(pods).toMatchObject([
      { kind: "put", key: "session.s.p", because: "new", state: { health: "READY", component: "server", uid: "u" } },
    ]);
  });

  it("is judged by its main container where it names one", () => {
    const facts = {
      spec: { containers: [{ name: "main" }, { name: "proxy" }] },
      status: {
        containerStatuses: [
          { name: "main", state: { running: {} } },
          { ...exited, name: "proxy" },
        ],
      },
    };
    expect(plannedPod(world({ pods: [pod({ facts })] }))?.health).toBe("READY");
    expect(plannedPod(world({ pods: [pod({ facts, mainContainer: "proxy" })] }))).toMatchObject({
      health: "SUCCEEDED",
      exitCode: 0,
    });
  });

  it("is looked at again when its start grace ends", () => {
    const facts = {
      metadata: { creationTimestamp: new Date(NOW - 1000) },
      spec: { containers: [{ name: "main" }] },
      status: { containerStatuses: [{ name: "main", state: { waiting: { reason: "ErrImagePull" } } }] },
    };
    const plan = planPass(world({ pods: [pod({ facts })] }), policy);
    expect(plan.nextMs).toBe(NOW + 4000);
    expect(planPass(world({ pods: [pod()] }), policy).nextMs).toBe(NOW + 15_000);
  });

  it("is looked at again when its last state may be forgotten", () => {
    const published = { ...plannedPod(world({ pods: [pod()] }))!, deleted: true, observedAtMs: NOW - 1000 };
    expect(planPass(world({ publishedPods: [published] }), policy).nextMs).toBe(NOW + 9000);
  });

  it("that was removed is published as it was then, not as it would have become since", () => {
    const facts = {
      metadata: { creationTimestamp: new Date(NOW - 5000) },
      spec: { containers: [{ name: "main" }] },
      status: { containerStatuses: [{ name: "main", state: { waiting: { reason: "ErrImagePull" } } }] },
    };
    const ended = { spec: facts.spec, status: { phase: "Succeeded", containerStatuses: [exited] } };
    expect(plannedPod(world({ removed: [pod({ facts })] }))).toMatchObject({ health: "FAILED", reason: "Deleted" });
    expect(plannedPod(world({ removed: [pod({ facts: ended })] }))).toMatchObject({ health: "SUCCEEDED", exitCode: 0 });
    expect(plannedPod(world({ removed: [pod({ facts: ended, namespace: "other" })] }))).toBeUndefined();
  });

  it("of another namespace is not published, but occupies its node", () => {
    const two = [pod({ namespace: "a", uid: "ua" }), pod()];
    for (const pods of [two, [...two].reverse()]) {
      const plan = planPass(world({ pods, nodes: [node()] }), policy);
      expect(plan.pods).toMatchObject([{ state: { namespace: "ns", uid: "u" } }]);
    }
    const plan = planPass(world({ pods: two.slice(0, 1), nodes: [node()] }), policy);
    expect(plan).toMatchObject({ pods: [], nodes: [{ state: { occupants: [{ id: "s" }] } }] });
  });
});

describe("a pod that loses its node", () => {
  const gone = (sinceMs: number) => new Map([["n", NOW - sinceMs]]);

  it("fails once the node is gone for longer than its grace, and is looked at again then", () => {
    const seen = { pods: [pod({ createdAtMs: NOW - 9000 })] };
    const early = planPass(world({ ...seen, goneNodes: gone(3999) }), policy);
    expect(early).toMatchObject({ pods: [{ state: { health: "READY" } }], nextMs: NOW + 1 });
    const late = planPass(world({ ...seen, goneNodes: gone(4000) }), policy);
    expect(late.pods).toMatchObject([{ state: { health: "FAILED", reason: "NodeLost" } }]);
  });

  it("has the whole grace when it was made for a node that was gone already", () => {
    expect(plannedPod(world({ pods: [pod({ createdAtMs: NOW - 1000 })], goneNodes: gone(8000) }))?.health).toBe(
      "READY",
    );
  });
});

describe("a node", () => {
  const published = plannedNode(world({ nodes: [node()], pods: [pod()] }))!;

  it("is published with its occupants, each once", () => {
    const pods = [pod({ name: "q", owner: { kind: "job", id: "j" } }), pod({ name: "r" }), pod()];
    expect(plannedNode(world({ nodes: [node()], pods }))).toMatchObject({
      name: "n",
      ready: true,
      schedulable: true,
      labels: { pool: "drivers" },
      occupants: [
        { kind: "job", id: "j" },
        { kind: "session", id: "s" },
      ],
    });
  });

  it.each<[string, Partial<WatchedPod>]>([
    ["has ended", { finished: true }],
    ["shares its machine", { exclusive: false }],
    ["has no node", { node: "" }],
    ["is elsewhere", { node: "m" }],
  ])("is not occupied by a pod that %s", (_title, part) => {
    expect(plannedNode(world({ nodes: [node()], pods: [pod(part)] }))?.occupants).toEqual([]);
  });

  it("is not published again for a heartbeat, or for labels in another order", () => {
    const beaten = node({ resourceVersion: 99, labels: { pool: "drivers" } });
    expect(planPass(world({ nodes: [beaten], pods: [pod()], publishedNodes: [published] }), policy).nodes).toEqual([]);
  });

  it.each<[string, Partial<WatchedNode>, Partial<NodeState>]>([
    ["is not ready", { ready: false }, { ready: false, schedulable: true }],
    ["is tainted", { schedulable: false }, { ready: true, schedulable: false, cordoned: false }],
    ["is cordoned", { schedulable: false, cordoned: true }, { ready: true, schedulable: false, cordoned: true }],
    ["waits to be opened", { schedulable: false, unopened: true }, { schedulable: false, unopened: true }],
    ["has another label", { labels: { pool: "x" } }, { labels: { pool: "x" } }],
  ])("is published again when it %s", (_title, part, expected) => {
    const snapshot = world({
      nodes: [node({ ...part, resourceVersion: 6 })],
      pods: [pod()],
      publishedNodes: [published],
    });
    expect(plannedNode(snapshot)).toMatchObject(expected);
  });

  it("keeps the occupants from a replica that has seen more pods", () => {
    const later = { ...published, occupantsVersion: 200 };
    const behind = world({
      nodes: [node({ ready: false, resourceVersion: 6 })],
      podsSeen: 100,
      publishedNodes: [later],
    });
    expect(plannedNode(behind)).toMatchObject({ ready: false, occupants: published.occupants, occupantsVersion: 200 });
    expect(plannedNode({ ...behind, pods: { seen: [], sight: { version: 200, listedAtMs: 0 } } })).toMatchObject({
      ready: false,
      occupants: [],
    });
  });

  it("keeps the state from a replica that has seen more of the node, with the occupants that we know better", () => {
    const later = { ...published, ready: false, resourceVersion: 50 };
    const snapshot = world({ nodes: [node()], pods: [], podsSeen: 100, publishedNodes: [later] });
    expect(plannedNode(snapshot)).toMatchObject({ ready: false, resourceVersion: 50, occupants: [] });
  });

  it("that is gone is neither ready, nor schedulable, nor occupied", () => {
    const plan = planPass(world({ pods: [pod()], publishedNodes: [published] }), policy);
    expect(plan.nodes).toMatchObject([
      { because: "gone", state: { deleted: true, ready: false, schedulable: false, occupants: [] } },
    ]);
  });

  it("that is gone takes no occupants from pods that are still bound to it", () => {
    const gone = { ...published, deleted: true, ready: false, schedulable: false, occupants: [] };
    expect(planPass(world({ nodes: [node()], pods: [pod()], publishedNodes: [gone] }), policy).nodes).toEqual([]);
  });
});

const anyPod = fc
  .record({
    name: fc.constantFrom("p", "q"),
    namespace: fc.constantFrom("ns", "other"),
    owner: fc.constantFrom({ kind: "session", id: "s" }, { kind: "job", id: "j" }),
    node: fc.constantFrom("", "n", "m"),
    exclusive: fc.boolean(),
    finished: fc.boolean(),
    resourceVersion: fc.nat(100),
  })
  .map((part) => pod({ ...part, uid: `${part.namespace}/${part.name}` }));
const anyNode = fc
  .record({ name: fc.constantFrom("n", "m"), ready: fc.boolean(), schedulable: fc.boolean() })
  .map((part) => node({ ...part, uid: part.name }));

it("plans nothing in the world that a plan leads to, and the same in whatever order things are seen", () => {
  const pods = fc.uniqueArray(anyPod, { selector: ({ namespace, name }) => `${namespace}/${name}` });
  const nodes = fc.uniqueArray(anyNode, { selector: ({ name }) => name });
  fc.assert(
    fc.property(pods, nodes, (seenPods, seenNodes) => {
      const before = world({ pods: seenPods, nodes: seenNodes });
      const plan = planPass(before, policy);
      const shuffled = world({ pods: [...seenPods].reverse(), nodes: [...seenNodes].reverse() });
      expect(planPass(shuffled, policy)).toEqual(plan);

      const after: WatcherSnapshot = {
        ...before,
        publishedPods: plan.pods.flatMap((step) => (step.kind === "put" ? [{ ...step, revision: 1 }] : [])),
        publishedNodes: plan.nodes.flatMap((step) => (step.kind === "put" ? [{ ...step, revision: 1 }] : [])),
      };
      expect(planPass(after, policy)).toMatchObject({ pods: [], nodes: [] });
    }),
  );
});

it("needs no further pass without a mark, pods or nodes", () => {
  const { mark, nextMs } = planPass({ ...world({}), marked: undefined }, policy);
  expect([mark, nextMs]).toEqual([undefined, Infinity]);
});
