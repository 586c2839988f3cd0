import { buildSessionElsewhereId } from "@muster/names";
import fc from "fast-check";
import { describe, expect, it } from "vitest";
import type { NodeState, WatchedNode } from "./node-state.ts";
import type { NodeUse, OtherPod } from "./node-use.ts";
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
    requests: new Map(),
    mainContainer: undefined,
    facts: {
      spec: { containers: [{ name: "main" }] },
      status: { containerStatuses: [{ name: "main", state: { running: {} } }] },
    },
    ...part,
  };
}

function other(part: Partial<OtherPod> = {}): OtherPod {
  const requests = new Map([["cpu", 100]]);
  return { namespace: "apps", name: "o", node: "n", finished: false, group: "foreign", requests, ...part };
}

const NO_USE: NodeUse = { pods: 0, requests: {}, examples: [] };

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
    taints: [],
    allocatable: {},
    ...part,
  };
}

function world(part: {
  readonly pods?: readonly WatchedPod[];
  readonly others?: readonly OtherPod[];
  readonly removed?: readonly WatchedPod[];
  readonly podsSeen?: number;
  readonly nodes?: readonly WatchedNode[];
  readonly publishedPods?: readonly PodState[];
  readonly publishedNodes?: readonly NodeState[];
  readonly markedAtMs?: number;
  readonly goneNodes?: ReadonlyMap<string, number>;
}): WatcherSnapshot {
  const {
    pods = [],
    others = [],
    removed = [],
    podsSeen = 100,
    nodes = [],
    publishedPods = [],
    publishedNodes = [],
  } = part;
  const { markedAtMs: atMs = NOW, goneNodes = new Map<string, number>() } = part;
  return {
    nowMs: NOW,
    pods: { seen: pods, others, sight: { version: podsSeen, listedAtMs: 0 } },
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

  it("is judged by its main container if it names one", () => {
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

  it("gets a pass when its start grace ends", () => {
    const facts = {
      metadata: { creationTimestamp: new Date(NOW - 1000) },
      spec: { containers: [{ name: "main" }] },
      status: { containerStatuses: [{ name: "main", state: { waiting: { reason: "ErrImagePull" } } }] },
    };
    const plan = planPass(world({ pods: [pod({ facts })] }), policy);
    expect(plan.nextMs).toBe(NOW + 4000);
    expect(planPass(world({ pods: [pod()] }), policy).nextMs).toBe(NOW + 15_000);
  });

  it("gets a pass when its last state may be forgotten", () => {
    const published = { ...plannedPod(world({ pods: [pod()] }))!, deleted: true, observedAtMs: NOW - 1000 };
    expect(planPass(world({ publishedPods: [published] }), policy).nextMs).toBe(NOW + 9000);
  });

  it("that was removed is published as of its removal, not with later changes", () => {
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

  it("of a session in another namespace is published only from that namespace", () => {
    const owner = { kind: "session", id: buildSessionElsewhereId({ namespace: "other", name: "s" }) };
    const faked = ["ns", "third"].map((namespace) => pod({ owner, namespace, uid: namespace }));
    const plan = planPass(world({ pods: [...faked, pod({ owner, namespace: "other" })], removed: faked }), policy);
    expect(plan.pods).toMatchObject([{ key: `session.${owner.id}.p`, state: { namespace: "other", uid: "u" } }]);
  });
});

describe("a pod that loses its node", () => {
  const gone = (sinceMs: number) => new Map([["n", NOW - sinceMs]]);

  it("fails once the node is missing for longer than its grace, and gets a pass then", () => {
    const seen = { pods: [pod({ createdAtMs: NOW - 9000 })] };
    const early = planPass(world({ ...seen, goneNodes: gone(3999) }), policy);
    expect(early).toMatchObject({ pods: [{ state: { health: "READY" } }], nextMs: NOW + 1 });
    const late = planPass(world({ ...seen, goneNodes: gone(4000) }), policy);
    expect(late.pods).toMatchObject([{ state: { health: "FAILED", reason: "NodeLost" } }]);
  });

  it("has the whole grace if its node was gone before its creation", () => {
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

  it("keeps the occupants of a replica that has observed more pods", () => {
    const later = { ...published, occupantsVersion: 200 };
    const behind = world({
      nodes: [node({ ready: false, resourceVersion: 6 })],
      podsSeen: 100,
      publishedNodes: [later],
    });
    expect(plannedNode(behind)).toMatchObject({ ready: false, occupants: published.occupants, occupantsVersion: 200 });
    expect(
      plannedNode({ ...behind, pods: { seen: [], others: [], sight: { version: 200, listedAtMs: 0 } } }),
    ).toMatchObject({
      ready: false,
      occupants: [],
    });
  });

  it("keeps the state of a replica that has observed more of the node, with the occupants that we know better", () => {
    const later = { ...published, ready: false, resourceVersion: 50 };
    const snapshot = world({ nodes: [node()], pods: [], podsSeen: 100, publishedNodes: [later] });
    expect(plannedNode(snapshot)).toMatchObject({ ready: false, resourceVersion: 50, occupants: [] });
  });

  it("is published with its allocatable amounts and its uses, and again when those change", () => {
    const seen = {
      nodes: [node({ allocatable: { cpu: 4000, pods: 110 } })],
      pods: [pod(), pod({ name: "s", exclusive: false, requests: new Map([["cpu", 500]]) })],
      others: [other(), other({ name: "d", group: "overhead" })],
    };
    const first = plannedNode(world(seen))!;
    expect(first).toMatchObject({
      allocatable: { cpu: 4000, pods: 110 },
      occupants: [{ kind: "session", id: "s" }],
      overhead: { pods: 1, requests: { cpu: 100 }, examples: ["apps/d"] },
      foreign: { pods: 1, requests: { cpu: 100 }, examples: ["apps/o"] },
      shared: [{ owner: { kind: "session", id: "s" }, use: { pods: 1, requests: { cpu: 500 }, examples: ["ns/s"] } }],
    });
    const again = (part: Parameters<typeof world>[0]) =>
      plannedNode(world({ ...seen, ...part, publishedNodes: [first] }));
    expect(again({})).toBeUndefined();
    expect(again({ nodes: [node({ allocatable: { pods: 110, cpu: 4000 } })] })).toBeUndefined();
    expect(again({ nodes: [node({ allocatable: { cpu: 3000, pods: 110 } })] })?.allocatable["cpu"]).toBe(3000);
    expect(again({ others: seen.others.slice(1) })?.foreign).toEqual(NO_USE);
    expect(again({ others: seen.others.slice(0, 1) })?.overhead).toEqual(NO_USE);
    expect(again({ pods: [pod()] })?.shared).toEqual([]);
  });

  it("keeps the uses of a replica that has observed more pods", () => {
    const later = { ...plannedNode(world({ nodes: [node()], others: [other()] }))!, occupantsVersion: 200 };
    const behind = world({ nodes: [node({ ready: false })], publishedNodes: [later] });
    expect(plannedNode(behind)).toMatchObject({ ready: false, foreign: later.foreign, occupantsVersion: 200 });
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

describe("replicas that group differently", () => {
  const seen = {
    nodes: [node({ allocatable: { cpu: 4000 } })],
    pods: [pod(), pod({ name: "s", exclusive: false })],
    others: [other(), other({ name: "d", group: "overhead" })],
  };
  const cut = (state: NodeState): NodeState => ({
    ...state,
    allocatable: {},
    overhead: NO_USE,
    foreign: NO_USE,
    shared: [],
  });
  /** A watcher that knows neither allocatable amounts nor requests: it reads, compares and writes only the fields that it knows. */
  const olderNode = (part: Parameters<typeof world>[0]): NodeState | undefined => {
    const published = (part.publishedNodes ?? []).map(cut);
    const pods = (part.pods ?? []).filter(({ exclusive }) => exclusive);
    const nodes = (part.nodes ?? []).map((each) => ({ ...each, allocatable: {} }));
    return plannedNode(world({ ...part, nodes, pods, others: [], publishedNodes: published }));
  };

  it("complete the amounts that an older version omits, and the older one keeps them", () => {
    const older = olderNode(seen)!;
    expect(older).toEqual(cut(older));
    const completed = plannedNode(world({ ...seen, publishedNodes: [older] }))!;
    expect(completed).toMatchObject({ allocatable: { cpu: 4000 }, foreign: { pods: 1 }, overhead: { pods: 1 } });
    expect(olderNode({ ...seen, publishedNodes: [completed] })).toBeUndefined();

    const changed = { ...seen, nodes: [node({ allocatable: { cpu: 4000 }, ready: false, resourceVersion: 6 })] };
    const cutAgain = olderNode({ ...changed, publishedNodes: [completed] })!;
    expect(cutAgain).toEqual(cut(cutAgain));
    const last = plannedNode(world({ ...changed, publishedNodes: [cutAgain] }))!;
    expect(last).toMatchObject({ ready: false, allocatable: { cpu: 4000 }, foreign: { pods: 1 } });
    expect(olderNode({ ...changed, publishedNodes: [last] })).toBeUndefined();
    expect(plannedNode(world({ ...changed, publishedNodes: [last] }))).toBeUndefined();
  });

  it("replace the groups of one with other system namespaces after 30 s, and all else immediately", () => {
    const foreign = seen.others.map((each) => ({ ...each, group: "foreign" as const }));
    const theirs = plannedNode(world({ ...seen, others: foreign }))!;
    const at = (ageMs: number, part: object = {}) =>
      plannedNode(world({ ...seen, publishedNodes: [{ ...theirs, observedAtMs: NOW - ageMs }], ...part }));
    expect(at(29_999)).toBeUndefined();
    expect(at(30_000)).toMatchObject({ overhead: { pods: 1 }, foreign: { pods: 1 } });
    expect(at(0, { others: seen.others.slice(0, 1) })).toMatchObject({ overhead: NO_USE, foreign: { pods: 1 } });
    expect(at(0, { nodes: [node({ ready: false })] })).toMatchObject({ ready: false, foreign: theirs.foreign });
    const comes = pod({ name: "q", owner: { kind: "job", id: "j" } });
    expect(at(0, { pods: [...seen.pods, comes] })?.occupants).toMatchObject([{ id: "j" }, { id: "s" }]);
    expect(at(0, { pods: seen.pods.slice(1) })?.occupants).toEqual([]);
    expect(at(0, { pods: [...seen.pods, { ...comes, exclusive: false }] })?.shared).toMatchObject([
      { owner: { id: "j" }, use: { pods: 1 } },
      { owner: { id: "s" }, use: { pods: 1 } },
    ]);
    expect(at(0, { pods: seen.pods.slice(0, 1) })?.shared).toEqual([]);
  });

  it("need a pass when the groups of another may be replaced", () => {
    const foreign = seen.others.map((each) => ({ ...each, group: "foreign" as const }));
    const theirs = plannedNode(world({ ...seen, others: foreign }))!;
    const nextMs = (part: Partial<NodeState>, podsSeen = 100) => {
      const publishedNodes = [{ ...theirs, observedAtMs: NOW - 29_000, ...part }];
      return planPass({ ...world({ ...seen, podsSeen, publishedNodes }), marked: undefined }, policy).nextMs;
    };
    expect(nextMs({})).toBe(NOW + 1000);
    expect(nextMs({ observedAtMs: NOW - 30_000 })).toBe(Infinity);
    expect(nextMs({ occupantsVersion: 101 })).toBe(Infinity);
    expect(nextMs({ occupants: [] })).toBe(Infinity);
    expect(nextMs({ deleted: true, observedAtMs: NOW })).toBe(NOW + 10_000);
  });

  it("restore the fields that an older version omits, also if that one has observed more", () => {
    const complete = plannedNode(world(seen))!;
    const ahead = { ...cut(complete), ready: false, occupants: [], resourceVersion: 50, occupantsVersion: 200 };
    const restored = plannedNode(world({ ...seen, publishedNodes: [ahead] }))!;
    const { allocatable, overhead, foreign, shared } = complete;
    expect(restored).toEqual({ ...ahead, allocatable, overhead, foreign, shared, observedAtMs: NOW });
    expect(planPass(world({ ...seen, publishedNodes: [restored] }), policy).nodes).toEqual([]);

    // A complete part, a part of another node, and a deleted node.
    for (const part of [{ foreign: complete.foreign }, { uid: "later" }, { deleted: true, observedAtMs: NOW }]) {
      expect(planPass(world({ ...seen, publishedNodes: [{ ...ahead, ...part }] }), policy).nodes).toEqual([]);
    }
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
const anyOther = fc.record({
  name: fc.constantFrom("x", "y", "z"),
  namespace: fc.constantFrom("ns", "apps"),
  node: fc.constantFrom("", "n", "m"),
  finished: fc.boolean(),
  group: fc.constantFrom("foreign" as const, "overhead" as const),
  requests: fc.constantFrom(new Map(), new Map([["cpu", 100]])),
});
const anyNode = fc
  .record({ name: fc.constantFrom("n", "m"), ready: fc.boolean(), schedulable: fc.boolean() })
  .map((part) => node({ ...part, uid: part.name }));

it("plans nothing in the world that a plan leads to, and the same for any order of observations", () => {
  const pods = fc.uniqueArray(anyPod, { selector: ({ namespace, name }) => `${namespace}/${name}` });
  const nodes = fc.uniqueArray(anyNode, { selector: ({ name }) => name });
  fc.assert(
    fc.property(pods, fc.array(anyOther), nodes, (seenPods, others, seenNodes) => {
      const before = world({ pods: seenPods, others, nodes: seenNodes });
      const plan = planPass(before, policy);
      const shuffled = world({
        pods: [...seenPods].reverse(),
        others: [...others].reverse(),
        nodes: [...seenNodes].reverse(),
      });
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

it("names the taints of the node for which a pod is evicted", () => {
  const condition = { type: "DisruptionTarget", status: "True", reason: "DeletionByTaintManager", message: "deleted" };
  const facts = {
    metadata: { deletionTimestamp: new Date(NOW) },
    spec: { containers: [{ name: "main" }], nodeName: "n" },
    status: {
      phase: "Failed",
      conditions: [{ ...condition, lastTransitionTime: new Date(NOW) }],
      containerStatuses: [{ name: "main", state: { running: {} } }],
    },
  };
  const taints = [
    { key: "old", value: "x", effect: "NoExecute" },
    { key: "gpu", value: "", effect: "NoSchedule" },
  ];
  const seen = world({ pods: [pod({ facts, deleting: true })], nodes: [node({ schedulable: false, taints })] });
  expect(planPass(seen, policy).pods).toMatchObject([
    { state: { health: "FAILED", reason: "DeletionByTaintManager", message: "on node n: deleted (old=x:NoExecute)" } },
  ]);
});
