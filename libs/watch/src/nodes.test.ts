import { bucketKeys, muster } from "@muster/proto";
import type { Toleration } from "@muster/resources";
import { expect, it } from "vitest";
import { openCrowding } from "./crowding.ts";
import { viewNodes } from "./nodes.ts";

const NOW_MS = Date.UTC(2026, 0, 1);
const GPU = { key: "gpu", value: "", effect: "NoSchedule" };
const EXISTS: Toleration = { key: "gpu", operator: "Exists" };
const { NodeState, NodesComplete } = muster.watch.v1;

/** Views of one node `n`, whose state is long unchanged, and of a current mark. */
function nodesWith(node: muster.watch.v1.NodeState.$Properties) {
  const base = { name: "n", ready: true, schedulable: true, observedAtMs: 1 };
  const state = NodeState.decode(NodeState.encode({ ...base, ...node }).finish());
  const entry = <Value>(value: Value) => ({ key: "n", value, revision: 1 });
  const states = { get: (key: string) => (key === "n" ? entry(state) : undefined), ageMs: () => 0 };
  const mark = entry(NodesComplete.create({ atMs: NOW_MS }));
  const marks = {
    get: (key: string) => (key === bucketKeys.nodesComplete ? mark : undefined),
    ageMs: () => 0,
    onChange: () => () => undefined,
  };
  return viewNodes({ states, marks, lostAfterMs: 1000 });
}

const tainted = { schedulable: false, taints: [GPU] };
it.each<[string, muster.watch.v1.NodeState.$Properties, Toleration[], boolean]>([
  ["a node without taints", {}, [], true],
  ["a tainted node", tainted, [], false],
  ["a tainted node whose taint is tolerated", tainted, [EXISTS], true],
  ["a tainted node, with a toleration of another taint", tainted, [{ ...EXISTS, key: "spot" }], false],
  ["a cordoned node, whatever is tolerated", { ...tainted, cordoned: true }, [{ operator: "Exists" }], false],
  ["a node that is not ready, whatever is tolerated", { ...tainted, ready: false }, [EXISTS], false],
])("pods can be started on %s, or it is lost: %j %j", (_title, node, tolerations, isUsable) => {
  const nodes = nodesWith(node);
  const byNode = new Map([["n", tolerations]]);
  const occupied = new Set<string>();
  expect([...nodes.usableAmong(["n"], NOW_MS, byNode)]).toEqual(isUsable ? ["n"] : []);
  expect([...nodes.lostAmong(["n"], { nowMs: NOW_MS, occupied, tolerations: byNode }).keys()]).toEqual(
    isUsable ? [] : ["n"],
  );
});

it("records for each owner since when foreign pods have crowded a place", () => {
  const foreign = { pods: 1, requests: { cpu: 3000 }, examples: ["shop/web"] };
  const nodes = nodesWith({
    allocatable: { cpu: 4000, pods: 10 },
    overhead: { pods: 1, requests: { cpu: 500 } },
    foreign,
  });
  const crowding = openCrowding(nodes, 1000);
  const place = { component: "a", node: "n", requests: () => ({ cpu: 501 }) };
  const lostAt = (uid: string, nowMs: number) => crowding(uid, [place], nowMs).map(({ isLost }) => isLost);
  expect(lostAt("one", NOW_MS)).toEqual([false]);
  expect(lostAt("one", NOW_MS + 1000)).toEqual([true]);
  expect(lostAt("two", NOW_MS + 1000)).toEqual([false]);
  expect(crowding("one", [], NOW_MS + 1000)).toEqual([]);
  expect(lostAt("one", NOW_MS + 2000)).toEqual([false]);
  expect(crowding("one", [{ ...place, requests: () => ({ cpu: 500 }) }], NOW_MS)).toEqual([]);
});
