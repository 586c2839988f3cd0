import { describe, expect, it } from "vitest";
import { checkPlans } from "../../test/plan-rows.ts";
import {
  aDemand,
  aGang,
  aMachine,
  aNode,
  aPool,
  aShortage,
  aSnapshot,
  aTermination,
  NOW,
} from "../../test/scaling-snapshots.ts";
import { computeScaling } from "./compute.ts";
import type { PoolPolicy } from "./pool.ts";

describe("room in a pool that is full of idle nodes", () => {
  const full = (count: number, differences: Partial<PoolPolicy> = {}) => [aPool({ max: count, ...differences })];
  const wrong = (name: string, createdAtMs = NOW - 60_000) => aNode(name, { instanceType: "huge", createdAtMs });
  checkPlans([
    [
      "is made by ending as many nodes as are lacking, the newest first",
      {
        nodes: [wrong("old", NOW - 3), wrong("new", NOW - 1), wrong("middle", NOW - 2)],
        demands: [aDemand("d1"), aDemand("d2")],
        pools: full(3),
      },
      { stop: ["new IDLE", "middle IDLE"], start: [], waits: ["d1 POOL_MAX d1", "d2 POOL_MAX d2"] },
    ],
    [
      "is made of spot nodes for on-demand requests",
      { nodes: [aNode("n1", { spot: true })], demands: [aDemand("d1")], pools: full(1) },
      { stop: ["n1 IDLE"] },
    ],
    [
      "is not made of on-demand nodes for demand that prefers spot, which uses them",
      { nodes: [aNode("n1")], demands: [aDemand("d1", { spot: "Preferred" })], pools: full(1) },
      { stop: [], start: [], bound: { d1: "n1" } },
    ],
    [
      "is made of nodes in another zone",
      { nodes: [aNode("n1", { zone: "a" })], demands: [aDemand("d1", { zone: "b" })], pools: full(1) },
      { stop: ["n1 IDLE"] },
    ],
    [
      "is made in the same round for a gang whose only possible node ends in it",
      {
        nodes: [aNode("idle", { spot: true, idleSinceMs: NOW - 400_000 }), aNode("private", { privateIpOnly: true })],
        demands: [aDemand("g/0", { group: "g" }), aDemand("g/1", { group: "g", spot: "Preferred" })],
        pools: full(2),
      },
      { stop: ["idle IDLE", "private IDLE"], start: [] },
    ],
    [
      "is used once the ended nodes are gone, and then no more nodes end",
      { nodes: [wrong("n1")], demands: [aDemand("d1")], pools: full(2) },
      { stop: [], start: ["large for d1"] },
    ],
    [
      "is awaited while enough nodes end",
      {
        nodes: [wrong("n1"), aNode("n2", { terminate: aTermination() }), aNode("n3", { phase: "Terminating" })],
        demands: [aDemand("d1"), aDemand("d2")],
        pools: full(3),
      },
      {
        stop: [],
        start: [],
        messages: Array<string>(2).fill("1 node needed: pool gpu has 3 nodes of 3 at most, 2 of them to end"),
      },
    ],
    [
      "is not made if a node ends in the same round because it has been idle for long",
      {
        nodes: [aNode("idle", { instanceType: "huge", idleSinceMs: NOW - 400_000, createdAtMs: 0 }), wrong("new")],
        demands: [aDemand("d1")],
        pools: full(2),
      },
      { stop: ["idle IDLE"] },
    ],
    [
      "is also made for the excess if the pool is above its maximum",
      { nodes: [wrong("n1"), wrong("n2"), wrong("n3")], demands: [aDemand("d1")], pools: full(2) },
      { stop: ["n3 IDLE", "n2 IDLE"] },
    ],
    [
      "is never made of nodes that stand by",
      {
        nodes: [wrong("old", NOW - 2), wrong("new", NOW - 1)],
        demands: [aDemand("d1"), aDemand("d2")],
        pools: full(2, { standby: [{ instanceType: "huge", count: 1, spot: false }] }),
      },
      { stop: ["new IDLE"] },
    ],
    [
      "is never made of nodes that are held or bound",
      {
        nodes: [aNode("n1", { instanceType: "huge", phase: "Claimed" }), aNode("n2", { boundTo: "d2" })],
        demands: [aDemand("d1", { instanceTypes: ["huge"] }), aDemand("d2")],
        pools: full(2),
      },
      { stop: [], bound: { d2: "n2" } },
    ],
    [
      "is not made of nodes that another group waits for",
      {
        nodes: [wrong("n1")],
        demands: [...aGang(2, { instanceTypes: ["huge"] }), aDemand("younger", { createdAtMs: NOW })],
        pools: full(1),
      },
      { stop: [], start: [] },
    ],
    [
      "is not made of on-demand nodes while a demand waits for preferred spot that is short, since it may get them soon",
      {
        nodes: [aNode("n1")],
        demands: [aDemand("d1", { instanceTypes: ["huge"] }), aDemand("d2", { spot: "Preferred" })],
        unavailable: [aShortage({ spot: true })],
        pools: full(1),
      },
      { stop: [] },
    ],
    [
      "is not made of nodes for younger demand that loses its machine to the group",
      {
        nodes: [aNode("right"), wrong("n1"), wrong("n2")],
        machines: [aMachine("m1")],
        demands: [...aGang(2, { spot: "Always" }), aDemand("younger", { createdAtMs: NOW })],
        pools: full(3),
      },
      { stop: ["n2 IDLE", "n1 IDLE"], start: [], bound: { younger: "m1" } },
    ],
    [
      "is made of nodes for older demand, which keeps its machine",
      {
        nodes: [aNode("right")],
        machines: [aMachine("m1")],
        demands: [aDemand("older", { createdAtMs: NOW - 2000 }), aDemand("d1", { spot: "Always" })],
        pools: full(1),
      },
      { stop: ["right IDLE"], start: [], bound: { older: "m1" } },
    ],
    [
      "is not made for demand that could not boot there",
      { nodes: [wrong("n1")], demands: [aDemand("d1")], unavailable: [aShortage()], pools: full(1) },
      { stop: [] },
    ],
    [
      "is made for a whole gang, less the nodes that suit it",
      { nodes: [aNode("right"), wrong("n1"), wrong("n2"), wrong("n3")], demands: aGang(3), pools: full(4) },
      { stop: ["n3 IDLE", "n2 IDLE"], start: [], bound: {} },
    ],
    [
      "is not made for a part of a gang, but for other groups that it completes",
      { nodes: [wrong("n1")], demands: [...aGang(2), aDemand("younger", { createdAtMs: NOW })], pools: full(1) },
      { stop: ["n1 IDLE"] },
    ],
    [
      "is not made in one pool for a gang that lacks nodes of another",
      {
        nodes: [wrong("n1")],
        demands: [aDemand("a", { group: "gang" }), aDemand("b", { group: "gang", pool: "cpu" })],
        pools: [...full(1), aPool({ name: "cpu", max: 0 })],
      },
      { stop: [] },
    ],
    [
      "does not serve standby while a gang waits for more of it",
      {
        nodes: [aNode("n1", { phase: "Terminating" })],
        demands: aGang(2),
        pools: full(2, { standby: [{ instanceType: "huge", count: 1, spot: false }] }),
      },
      { start: [] },
    ],
    [
      "is not made while a pool may have more nodes",
      { nodes: [wrong("n1")], demands: [aDemand("d1")], pools: full(3) },
      { stop: [], start: ["large for d1"] },
    ],
  ]);

  it("names the demand that needs the room", () => {
    const { stop } = computeScaling(aSnapshot({ nodes: [wrong("n1")], demands: [aDemand("d1")], pools: full(1) }));
    expect(stop[0]?.because).toEqual({
      code: "IDLE",
      message: "it makes room for d1: pool gpu is full at 1, and nothing needs this node",
    });
  });
});
