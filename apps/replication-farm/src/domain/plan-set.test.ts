import fc from "fast-check";
import { describe, expect, it } from "vitest";
import {
  makePlacement,
  makePod,
  makeRollout,
  makeSet,
  makeSnapshot,
  makeSpec,
  makePlacedSet,
  POLICY,
} from "../../test/a-set.ts";
import { GROUP_NODES, planSet } from "./plan-set.ts";
import type { ReplicaSet, TransferReason } from "./replica-set.ts";
import type { SetPlan } from "./set-plan.ts";
import type { SetSnapshot } from "./set-snapshot.ts";

const REQUESTED: TransferReason = { code: "REQUESTED" };
const GONE: TransferReason = { code: "NODE_INELIGIBLE", detail: "it is gone" };
const UNMATCHED: TransferReason = { code: "NODE_INELIGIBLE", detail: "its labels no longer match" };

const nodesOf = (plan: SetPlan): string[] | undefined => plan.change?.next.placements.map(({ node }) => node);
const wanting = (replicasDesired: number, set: Partial<ReplicaSet> = {}): ReplicaSet =>
  makeSet({ ...set, spec: makeSpec({ replicasDesired }) });

describe("an old set of a rolling update", () => {
  it("removes unready replicas first, even before ready ones on nodes that are no longer eligible", () => {
    const set = makePlacedSet(["a", "b", "c"], { rollout: "web-2" });
    const health = (node: string) => (node === "a" ? "NOT_READY" : "READY");
    const pods = new Map(set.placements.map((each) => makePod(set, each, { health: health(each.node) })));
    const snapshot = makeSnapshot(set, ["a", "b"], { rollout: makeRollout({ oldDesired: 2 }), pods });
    expect(nodesOf(planSet(snapshot, POLICY))).toEqual(["b", "c"]);
    expect(nodesOf(planSet({ ...snapshot, rollout: makeRollout({ oldDesired: 1 }) }, POLICY))).toEqual(["b"]);
  });
});

it("an update removes newly ready replicas of a set before available ones", () => {
  const set = makePlacedSet(["a", "b"], {
    rollout: "web-2",
    spec: makeSpec({ replicasDesired: 2, minReadySeconds: 5 }),
  });
  const sinceMs = (node: string) => (node === "a" ? 999_000 : 0);
  const pods = new Map(set.placements.map((each) => makePod(set, each, { sinceMs: sinceMs(each.node) })));
  const snapshot = makeSnapshot(set, ["a", "b"], { rollout: makeRollout({ oldDesired: 1 }), pods });
  expect(nodesOf(planSet(snapshot, POLICY))).toEqual(["b"]);
});

describe("a set with too few placements", () => {
  it("takes eligible nodes by name, one group at a time, and audits all its nodes", () => {
    const plan = planSet(makeSnapshot(wanting(7), ["g", "f", "e", "d", "c", "b", "a"]), POLICY);
    expect(nodesOf(plan)).toEqual(["a", "b", "c", "d", "e"]);
    expect(plan.change).toMatchObject({
      because: "too-few",
      audits: [{ eventType: "REPLICATION_CONTROLLER_RETARGET", details: { pod_id: "web", nodes: nodesOf(plan) } }],
    });
  });

  it("keeps placed replicas when nodes run out, and reports that once", () => {
    const set = wanting(3);
    const first = planSet(makeSnapshot(set, ["a"]), POLICY);
    expect(nodesOf(first)).toEqual(["a"]);
    const next = first.change?.next ?? set;
    const second = planSet(makeSnapshot(next, ["a"]), POLICY);
    expect(second.change).toMatchObject({ because: "trouble-changed", audits: [] });
    expect(second.change?.next.trouble).toMatchObject({ code: "TOO_FEW_NODES" });
    const third = planSet(makeSnapshot(second.change?.next ?? next, ["a"]), POLICY);
    expect(third).toEqual({ change: undefined, waits: ["too-few-nodes"] });
  });

  it("takes no node that has a pod of the same pod id, accepts no pods, or is already used", () => {
    const set = makePlacedSet(["a"], { spec: makeSpec({ replicasDesired: 4 }) });
    const nodes = {
      eligible: new Set(["a", "b", "c", "d"]),
      usable: new Set(["a", "c", "d"]),
      unusable: new Map([["b", "it is cordoned"]]),
      foreign: new Map(),
    };
    expect(nodesOf(planSet(makeSnapshot(set, [], { nodes, taken: new Set(["c"]) }), POLICY))).toEqual(["a", "d"]);
  });

  it.each<[string, Partial<SetSnapshot>, Partial<ReplicaSet>, string]>([
    ["is disabled", {}, { disabled: true }, "disabled"],
    ["knows of no nodes, because the watcher is silent", { nodes: undefined }, {}, "nodes-unknown"],
  ])("does nothing when it %s", (_case, rest, set, waits) => {
    expect(planSet(makeSnapshot(wanting(2, set), ["a", "b"], rest), POLICY)).toEqual({
      change: undefined,
      waits: [waits],
    });
  });
});

describe("a set with too many placements", () => {
  const three = (desired: number): ReplicaSet =>
    makePlacedSet(["a", "b", "c"], { spec: makeSpec({ replicasDesired: desired }) });

  it("leaves ineligible nodes first, then those whose pods are not ready, then the last ones", () => {
    expect(nodesOf(planSet(makeSnapshot(three(2), ["b", "c"]), POLICY))).toEqual(["b", "c"]);
    const set = three(2);
    const pods = new Map(
      set.placements.map((each) => makePod(set, each, { health: each.node === "b" ? "FAILED" : "READY" })),
    );
    expect(nodesOf(planSet(makeSnapshot(set, ["a", "b", "c"], { pods }), POLICY))).toEqual(["a", "c"]);
    expect(nodesOf(planSet(makeSnapshot(three(1), ["a", "b", "c"]), POLICY))).toEqual(["a"]);
  });

  it("leaves none while the known state looks like the loss of everything", () => {
    const plan = planSet(makeSnapshot(three(0), ["a", "b", "c"], { failsafe: true }), POLICY);
    expect(plan).toEqual({ change: undefined, waits: ["failsafe"] });
  });

  it("never leaves the nodes of a transfer in progress", () => {
    const transfer = { id: "t", oldNode: "a", newNode: "b", deadlineMs: 2_000_000, startedAtMs: 0, because: REQUESTED };
    const set = makePlacedSet(["a", "b", "c"], { transfer, spec: makeSpec({ replicasDesired: 0 }) });
    const pods = new Map(set.placements.map((each) => makePod(set, each, { health: "NOT_READY" })));
    expect(nodesOf(planSet(makeSnapshot(set, ["b", "c"], { pods }), POLICY))).toEqual(["a", "b"]);
  });
});

describe("a set whose node is no longer eligible", () => {
  const set = makePlacedSet(["a", "b"]);

  it("finds another one, places a replica beside the old one, and leaves the old node once the new pod is ready", () => {
    const started = planSet(makeSnapshot(set, ["b", "c"]), POLICY).change;
    expect(started).toMatchObject({ because: "node-ineligible", audits: [{ eventType: "NODE_TRANSFER_START" }] });
    const placed = planSet(makeSnapshot(started?.next ?? set, ["b", "c"]), POLICY).change;
    expect(placed?.because).toBe("transfer-placed");
    expect(placed?.next.placements.map(({ node }) => node)).toEqual(["a", "b", "c"]);
    const both = placed?.next ?? set;
    const starting = new Map(
      both.placements.map((each) => makePod(both, each, { health: each.node === "c" ? "NOT_READY" : "READY" })),
    );
    expect(planSet(makeSnapshot(both, ["b", "c"], { pods: starting }), POLICY)).toEqual({
      change: undefined,
      waits: ["transfer-starting"],
    });
    const done = planSet(makeSnapshot(both, ["b", "c"]), POLICY).change;
    expect(done?.audits.map(({ eventType }) => eventType)).toEqual([
      "NODE_TRANSFER_COMPLETION",
      "REPLICATION_CONTROLLER_RETARGET",
    ]);
    expect(done?.next).toMatchObject({ transfer: undefined, placements: [{ node: "b" }, { node: "c" }] });
  });

  it.each<[string, Partial<ReplicaSet>, Partial<SetSnapshot>, string[]]>([
    ["its strategy is static", { spec: makeSpec({ replicasDesired: 2, allocationStrategy: "static" }) }, {}, []],
    ["an operator holds transfers", { transfersHeld: { by: "ann", because: "drill", atMs: 0 } }, {}, ["transfer-held"]],
    ["the latest one failed a moment ago", { transferNotBeforeMs: 2_000_000 }, {}, ["transfer-pause"]],
    ["it is in a rolling update", { rollout: "web-2" }, { rollout: makeRollout({ oldDesired: 2 }) }, []],
    ["the stored records look like the loss of everything", {}, { failsafe: true }, ["failsafe"]],
  ])("stays when %s", (_case, change, rest, waits) => {
    expect(planSet(makeSnapshot({ ...set, ...change }, ["b", "c"], rest), POLICY)).toEqual({
      change: undefined,
      waits,
    });
  });

  it("stays where its pod is healthy as long as another pod is not", () => {
    const pods = new Map(
      set.placements.map((each) => makePod(set, each, { health: each.node === "b" ? "NOT_READY" : "READY" })),
    );
    expect(planSet(makeSnapshot(set, ["b", "c"], { pods }), POLICY).waits).toEqual(["others-unhealthy"]);
  });

  it("abandons the transfer at the deadline, leaves the new node, and waits longer each time", () => {
    const transfer = {
      id: "t",
      oldNode: "a",
      newNode: "c",
      deadlineMs: 900_000,
      startedAtMs: 0,
      because: UNMATCHED,
    };
    const both = makePlacedSet(["a", "b", "c"], {
      transfer,
      transferFailures: 2,
      spec: makeSpec({ replicasDesired: 2 }),
    });
    const pods = new Map(
      both.placements.map((each) => makePod(both, each, { health: each.node === "c" ? "NOT_READY" : "READY" })),
    );
    const { change } = planSet(makeSnapshot(both, ["b", "c"], { pods }), POLICY);
    expect(change?.audits.map(({ eventType }) => eventType)).toEqual([
      "NODE_TRANSFER_ROLLBACK",
      "REPLICATION_CONTROLLER_RETARGET",
    ]);
    expect(change?.next).toMatchObject({
      transfer: undefined,
      placements: [{ node: "a" }, { node: "b" }],
      transferFailures: 3,
      transferNotBeforeMs: 1_040_000,
      trouble: {
        code: "TRANSFER_FAILED",
        message: "leaving a (its labels no longer match) failed: the pod on c was not ready within 300 s; attempt 3",
      },
    });
  });
});

describe("a transfer that is not needed", () => {
  const seeking = (because: TransferReason, deadlineMs = 2_000_000) =>
    ({ id: "t", oldNode: "a", newNode: undefined, deadlineMs, startedAtMs: 0, because }) as const;
  const leaving = seeking(UNMATCHED);
  const ends = (plan: SetPlan): unknown => [
    plan.change?.because,
    plan.change?.audits.map(({ details }) => details["reason"]),
  ];

  it("ends when the old node is eligible again, unless a user requested it", () => {
    const plan = planSet(makeSnapshot(makePlacedSet(["a", "b"], { transfer: leaving }), ["a", "b"]), POLICY);
    expect(ends(plan)).toEqual(["transfer-moot", ["a is eligible again"]]);
    const asked = makePlacedSet(["a", "b"], { transfer: seeking(REQUESTED) });
    expect(planSet(makeSnapshot(asked, ["a", "b"]), POLICY)).toEqual({
      change: undefined,
      waits: ["transfer-allocating"],
    });
  });

  it("ends when fewer replicas are desired, and the leaving one goes first", () => {
    const set = makePlacedSet(["a", "b"], { transfer: leaving, spec: makeSpec({ replicasDesired: 1 }) });
    const plan = planSet(makeSnapshot(set, ["b"]), POLICY);
    expect(ends(plan)).toEqual(["transfer-moot", ["fewer replicas are wanted"]]);
    expect(nodesOf(planSet(makeSnapshot(plan.change?.next ?? set, ["b"]), POLICY))).toEqual(["b"]);
  });

  it("requests no machine of a pool for it", () => {
    const spec = makeSpec({ replicasDesired: 0, pool: "gpu", nodeSelector: "" });
    const { change } = planSet(makeSnapshot(makePlacedSet(["a"], { transfer: leaving, spec }), []), POLICY);
    expect(change).toMatchObject({ because: "transfer-moot", next: { machines: [] } });
  });

  it("is no trouble of a set with only eligible nodes, and is not retried", () => {
    const transfer = seeking(REQUESTED, 900_000);
    const { change } = planSet(makeSnapshot(makePlacedSet(["a"], { transfer }), ["a"]), POLICY);
    expect(change?.next).toMatchObject({ transfer: undefined, trouble: undefined, transferNotBeforeMs: 0 });
    expect(change?.audits[0]?.details["reason"]).toMatch(/it is not retried$/);
  });
});

describe("a trouble that has passed", () => {
  const ENDED = { because: "trouble-changed", next: { trouble: undefined } };
  const troubled = (code: "TRANSFER_FAILED" | "POD_REFUSED", spec = makeSpec({ replicasDesired: 2 })) =>
    makePlacedSet(["a", "b"], { trouble: { code, message: "", sinceMs: 0 }, transferNotBeforeMs: 2_000_000, spec });

  it("is no longer reported once no node has to be left", () => {
    const set = troubled("TRANSFER_FAILED");
    expect(planSet(makeSnapshot(set, ["b"]), POLICY).change).toBeUndefined();
    expect(planSet(makeSnapshot(set, ["a", "b"]), POLICY).change).toMatchObject(ENDED);
  });

  it("is no longer reported once every placement has a pod", () => {
    const set = troubled("POD_REFUSED");
    const pods = new Map(set.placements.slice(1).map((each) => makePod(set, each)));
    expect(planSet(makeSnapshot(set, ["a", "b"], { pods }), POLICY).change).toBeUndefined();
    expect(planSet(makeSnapshot(set, ["a", "b"]), POLICY).change).toMatchObject(ENDED);
  });
});

describe("a set whose template has changed", () => {
  const nodes = ["a", "b", "c", "d", "e", "f", "g"];

  it("recreates a group of pods in the order of the nodes, and the next one once they are ready", () => {
    const set = makePlacedSet(nodes);
    const first = planSet(makeSnapshot(set, nodes, { templateHash: "h2" }), POLICY).change;
    expect(first).toMatchObject({ because: "template-changed", audits: [] });
    const next = first?.next ?? set;
    expect(next.placements.map(({ templateHash }) => templateHash).join()).toBe("h2,h2,h2,h2,h2,h1,h1");
    expect(new Set(next.placements.map(({ ordinal }) => ordinal)).size).toBe(7);
    const pods = new Map(
      next.placements.map((each) => makePod(next, each, { health: each.node === "a" ? "READY" : "NOT_READY" })),
    );
    const second = planSet(makeSnapshot(next, nodes, { templateHash: "h2", pods }), POLICY).change?.next;
    expect(second?.placements.map(({ templateHash }) => templateHash).join()).toBe("h2,h2,h2,h2,h2,h2,h1");
    const none = new Map(next.placements.map((each) => makePod(next, each, { health: "NOT_READY" })));
    expect(planSet(makeSnapshot(next, nodes, { templateHash: "h2", pods: none }), POLICY).waits).toEqual([
      "earlier-group-starting",
    ]);
  });

  it("leaves pods on nodes that are not eligible as they are", () => {
    const set = makePlacedSet(["a"], { spec: makeSpec({ replicasDesired: 1, allocationStrategy: "static" }) });
    expect(planSet(makeSnapshot(set, ["b"], { templateHash: "h2" }), POLICY).change).toBeUndefined();
  });
});

describe("a daemon set", () => {
  const daemon = makeSpec({ daemon: true });

  it("has a placement on each eligible node, and none elsewhere", () => {
    const set = makePlacedSet(["a", "x"], { spec: daemon });
    const left = planSet(makeSnapshot(set, ["a", "b"]), POLICY).change?.next ?? set;
    expect(left.placements.map(({ node }) => node)).toEqual(["a"]);
    expect(nodesOf(planSet(makeSnapshot(left, ["a", "b"]), POLICY))).toEqual(["a", "b"]);
  });

  it("keeps its nodes when no node is eligible any more", () => {
    const { change } = planSet(makeSnapshot(makePlacedSet(["a"], { spec: daemon }), []), POLICY);
    expect(change).toMatchObject({
      because: "trouble-changed",
      next: { placements: [{ node: "a" }], trouble: { code: "NO_ELIGIBLE_NODES" } },
    });
  });
});

it("names the nodes where its pods have long not been ready, and none while their state is unknown", () => {
  const set = makePlacedSet(["a", "b"]);
  const unhealthySet = planSet(makeSnapshot(set, ["a", "b"], { unhealthy: ["b"] }), POLICY).change?.next ?? set;
  expect(unhealthySet.trouble).toMatchObject({
    code: "NOT_HEALTHY",
    message: "pods have been unready for too long on 1 nodes, such as b",
  });
  expect(planSet(makeSnapshot(unhealthySet, ["a", "b"], { nodes: undefined }), POLICY).change).toBeUndefined();
  expect(planSet(makeSnapshot(unhealthySet, ["a", "b"]), POLICY).change?.next.trouble).toBeUndefined();
});

describe("a set that overlaps with an older one", () => {
  const contest = { nodes: new Map([["a", "older"]]), yields: new Set(["a"]) };

  it("leaves the other one's nodes, takes none of them, and names their set when it is short", () => {
    const left = planSet(makeSnapshot(makePlacedSet(["a", "b"]), ["a", "b"], { contest }), POLICY).change;
    expect(left).toMatchObject({
      because: "overlap",
      next: { placements: [{ node: "b" }] },
      audits: [{ eventType: "REPLICATION_CONTROLLER_RETARGET" }],
    });
    const short = planSet(makeSnapshot(left?.next ?? makeSet(), ["a", "b"], { contest }), POLICY).change;
    expect(short?.next.trouble?.code).toBe("OVERLAP");
    expect(short?.next.trouble?.message).toMatch(/^replica set older, which is older, .*such as a$/);
    const enough = planSet(makeSnapshot(short?.next ?? makeSet(), ["a", "b", "c"], { contest }), POLICY).change?.next;
    expect(enough?.placements.map(({ node }) => node)).toEqual(["b", "c"]);
    const settled = planSet(makeSnapshot(enough ?? makeSet(), ["a", "b", "c"], { contest }), POLICY).change;
    expect(settled).toMatchObject({ because: "trouble-changed", next: { trouble: undefined } });
  });
});

describe("a node that the set leaves", () => {
  it.each([
    ["b", "its labels no longer match"],
    ["c", "it is cordoned"],
    ["d", "it is gone"],
  ])("states the reason: %s", (node, detail) => {
    const usable = { usable: new Set(["a", "b"]), unusable: new Map([["c", "it is cordoned"]]), foreign: new Map() };
    const nodes = { eligible: new Set(["a"]), ...usable };
    const { change } = planSet(makeSnapshot(makePlacedSet([node]), [], { nodes }), POLICY);
    expect(change?.next.transfer).toMatchObject({
      oldNode: node,
      because: { code: "NODE_INELIGIBLE", detail },
    });
    expect(change?.audits[0]?.details["reason"]).toBe(detail);
  });

  it("keeps its pod while all state seems lost, even if the new one is ready", () => {
    const transfer = { id: "t", oldNode: "b", newNode: "a", deadlineMs: 1, startedAtMs: 0, because: GONE };
    const set = makePlacedSet(["a", "b"], { transfer, spec: makeSpec({ replicasDesired: 1 }) });
    expect(planSet(makeSnapshot(set, ["a"], { failsafe: true }), POLICY).change).toBeUndefined();
    expect(nodesOf(planSet(makeSnapshot(set, ["a"]), POLICY))).toEqual(["a"]);
  });
});

describe("a set in a rolling update", () => {
  it("has as many placements as the update requires", () => {
    const set = makePlacedSet(["a", "b", "c"], { rollout: "web-2" });
    expect(
      nodesOf(planSet(makeSnapshot(set, ["a", "b", "c"], { rollout: makeRollout({ oldDesired: 2 }) }), POLICY)),
    ).toEqual(["a", "b"]);
    const fresh = makeSet({ name: "web-2", rollout: "web-2" });
    const taken = new Set(["a", "b"]);
    expect(nodesOf(planSet(makeSnapshot(fresh, ["a", "b", "c"], { rollout: makeRollout(), taken }), POLICY))).toEqual([
      "c",
    ]);
  });

  it("also leaves its nodes when it is disabled, once the update has marked both sets", () => {
    const set = makePlacedSet(["a", "b"], { rollout: "web-2", disabled: true });
    const plan = (phase: "CREATING" | "RUNNING") =>
      planSet(makeSnapshot(set, ["a", "b"], { rollout: makeRollout({ phase, oldDesired: 1 }) }), POLICY);
    expect(plan("CREATING")).toEqual({ change: undefined, waits: ["disabled"] });
    expect(nodesOf(plan("RUNNING"))).toEqual(["a"]);
  });

  it("replaces placements on lost nodes without an available pod, if it is the new set and other nodes exist", () => {
    const fresh = makePlacedSet(["a", "b", "gone"], { name: "web-2", rollout: "web-2" });
    const rollout = makeRollout({ newDesired: 3 });
    const pods = new Map([
      makePod(fresh, makePlacement("a", 1), { health: "NOT_READY" }),
      makePod(fresh, makePlacement("b", 2)),
    ]);
    const plan = (free: readonly string[], more: Partial<SetSnapshot> = {}) =>
      planSet(makeSnapshot(fresh, free, { rollout, pods, ...more }), POLICY);
    expect(plan(["d", "e", "f"]).change).toMatchObject({ because: "node-ineligible" });
    expect(nodesOf(plan(["d", "e", "f"]))).toEqual(["b", "d", "e"]);
    expect(nodesOf(plan(["a", "d"]))).toEqual(["a", "b", "d"]);
    expect(plan(["a"]).change).toBeUndefined();
    expect(plan(["d"], { failsafe: true }).change).toBeUndefined();
    expect(
      plan(["d"], { rollout: { ...rollout, oldSet: "web-2", newSet: "web", oldDesired: 3 } }).change,
    ).toBeUndefined();
  });

  it("keeps its own number until the update has marked both sets", () => {
    const set = makePlacedSet(["a", "b", "c"], { rollout: "web-2" });
    const rollout = makeRollout({ phase: "CREATING", oldDesired: 0 });
    expect(planSet(makeSnapshot(set, ["a", "b", "c"], { rollout }), POLICY).change).toBeUndefined();
  });

  it("gets no trouble from nodes that the other set still uses", () => {
    const fresh = makeSet({ name: "web-2", rollout: "web-2" });
    const plan = planSet(makeSnapshot(fresh, ["a"], { rollout: makeRollout(), taken: new Set(["a"]) }), POLICY);
    expect(plan).toEqual({ change: undefined, waits: ["too-few-nodes"] });
  });
});

it("removes all placements of a deleted set, in any other state", () => {
  const deletion = { keepPods: false, atMs: 1 };
  const plan = planSet(
    makeSnapshot(makePlacedSet(["a"], { deletion }), [], { nodes: undefined, failsafe: true }),
    POLICY,
  );
  expect(plan.change).toMatchObject({ because: "deleted", next: { placements: [] } });
});

const NODE_NAMES = ["a", "b", "c", "d", "e", "f", "g", "h"];
const someNodes = fc.subarray(NODE_NAMES);

describe("in any state of the nodes", () => {
  const world = fc.record({
    desired: fc.integer({ min: 0, max: 8 }),
    strategy: fc.constantFrom("static" as const, "dynamic" as const),
    daemon: fc.boolean(),
    rounds: fc.array(
      fc.record({
        eligible: someNodes,
        taken: someNodes,
        unready: someNodes,
        hash: fc.constantFrom("h1", "h2"),
        ms: fc.integer({ min: 0, max: 400_000 }),
      }),
      { minLength: 1, maxLength: 12 },
    ),
  });

  it("a node has one placement, an ordinal is used once, a write changes one group, and the set settles", () => {
    fc.assert(
      fc.property(world, ({ desired, strategy, daemon, rounds }) => {
        let set = makeSet({ spec: makeSpec({ replicasDesired: desired, allocationStrategy: strategy, daemon }) });
        let nowMs = 1_000_000;
        for (const { eligible, taken, unready, hash, ms } of rounds) {
          nowMs += ms;
          const look = (seen: ReplicaSet): SetSnapshot => {
            const pods = new Map(
              seen.placements.map((each) =>
                makePod(seen, each, { health: unready.includes(each.node) ? "NOT_READY" : "READY" }),
              ),
            );
            return makeSnapshot(seen, eligible, { nowMs, taken: new Set(taken), templateHash: hash, pods });
          };
          let steps = 0;
          for (; steps < 60; steps += 1) {
            const { change } = planSet(look(set), POLICY);
            if (change === undefined) break;
            const before = new Set(set.placements.map(({ ordinal }) => ordinal));
            const { next } = change;
            const fresh = next.placements.filter(({ ordinal }) => !before.has(ordinal));
            expect(fresh.length).toBeLessThanOrEqual(GROUP_NODES);
            for (const { node, ordinal } of fresh) {
              expect(ordinal).toBeGreaterThanOrEqual(set.nextOrdinal);
              expect(eligible).toContain(node);
            }
            const nodes = next.placements.map(({ node }) => node);
            expect(nodes).toEqual([...new Set(nodes)].toSorted());
            set = next;
          }
          expect(steps).toBeLessThan(60);
          if (!daemon)
            expect(set.placements.length).toBeLessThanOrEqual(
              Math.max(desired, 0) + (set.transfer === undefined ? 0 : 1),
            );
        }
      }),
      { numRuns: 2000 },
    );
  });
});

it("an ineligible node with an unhealthy pod is left before one with a healthy pod, which has to wait for it", () => {
  const set = makePlacedSet(["a", "b", "c"]);
  const snapshot = makeSnapshot(set, ["c", "d", "e"]);
  const pods = new Map(
    set.placements.map((each) => makePod(set, each, each.node === "b" ? { health: "UNKNOWN" } : {})),
  );
  expect(planSet({ ...snapshot, pods }, POLICY).change?.next.transfer).toMatchObject({ oldNode: "b" });
});
