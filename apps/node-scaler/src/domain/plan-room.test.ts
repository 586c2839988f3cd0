import { describe, expect, it } from "vitest";
import { checkPlans } from "../../test/plan-rows.ts";
import {
  makeDemand,
  makeGang,
  makeMachine,
  makeNode,
  makePool,
  makeShortage,
  makeSnapshot,
  makeTermination,
  NOW,
} from "../../test/scaling-snapshots.ts";
import { computeScaling } from "./compute.ts";
import type { PoolPolicy } from "./pool.ts";

describe("room in a pool that is full of idle nodes", () => {
  const full = (count: number, differences: Partial<PoolPolicy> = {}) => [makePool({ max: count, ...differences })];
  const wrong = (name: string, createdAtMs = NOW - 60_000) => makeNode(name, { instanceType: "huge", createdAtMs });
  checkPlans([
    [
      "is made by ending as many nodes as are lacking, the newest first",
      {
        nodes: [wrong("old", NOW - 3), wrong("new", NOW - 1), wrong("middle", NOW - 2)],
        demands: [makeDemand("d1"), makeDemand("d2")],
        pools: full(3),
      },
      { stop: ["new IDLE", "middle IDLE"], start: [], waits: ["d1 POOL_MAX d1", "d2 POOL_MAX d2"] },
    ],
    [
      "is made of spot nodes for on-demand requests",
      { nodes: [makeNode("n1", { spot: true })], demands: [makeDemand("d1")], pools: full(1) },
      { stop: ["n1 IDLE"] },
    ],
    [
      "is not made of on-demand nodes for demand that prefers spot, which uses them",
      { nodes: [makeNode("n1")], demands: [makeDemand("d1", { spot: "Preferred" })], pools: full(1) },
      { stop: [], start: [], bound: { d1: "n1" } },
    ],
    [
      "is made of nodes in another zone",
      { nodes: [makeNode("n1", { zone: "a" })], demands: [makeDemand("d1", { zone: "b" })], pools: full(1) },
      { stop: ["n1 IDLE"] },
    ],
    [
      "is made in the same round for a gang whose only possible node ends in it",
      {
        nodes: [
          makeNode("idle", { spot: true, idleSinceMs: NOW - 400_000 }),
          makeNode("private", { privateIpOnly: true }),
        ],
        demands: [makeDemand("g/0", { group: "g" }), makeDemand("g/1", { group: "g", spot: "Preferred" })],
        pools: full(2),
      },
      { stop: ["idle IDLE", "private IDLE"], start: [] },
    ],
    [
      "is used once the ended nodes are gone, and then no more nodes end",
      { nodes: [wrong("n1")], demands: [makeDemand("d1")], pools: full(2) },
      { stop: [], start: ["large for d1"] },
    ],
    [
      "is awaited while enough nodes end",
      {
        nodes: [
          wrong("n1"),
          makeNode("n2", { terminate: makeTermination() }),
          makeNode("n3", { phase: "Terminating" }),
        ],
        demands: [makeDemand("d1"), makeDemand("d2")],
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
        nodes: [makeNode("idle", { instanceType: "huge", idleSinceMs: NOW - 400_000, createdAtMs: 0 }), wrong("new")],
        demands: [makeDemand("d1")],
        pools: full(2),
      },
      { stop: ["idle IDLE"] },
    ],
    [
      "is also made for the excess if the pool is above its maximum",
      { nodes: [wrong("n1"), wrong("n2"), wrong("n3")], demands: [makeDemand("d1")], pools: full(2) },
      { stop: ["n3 IDLE", "n2 IDLE"] },
    ],
    [
      "is never made of nodes that stand by",
      {
        nodes: [wrong("old", NOW - 2), wrong("new", NOW - 1)],
        demands: [makeDemand("d1"), makeDemand("d2")],
        pools: full(2, { standby: [{ instanceType: "huge", count: 1, spot: false }] }),
      },
      { stop: ["new IDLE"] },
    ],
    [
      "is never made of nodes that are held or bound",
      {
        nodes: [makeNode("n1", { instanceType: "huge", phase: "Claimed" }), makeNode("n2", { boundTo: "d2" })],
        demands: [makeDemand("d1", { instanceTypes: ["huge"] }), makeDemand("d2")],
        pools: full(2),
      },
      { stop: [], bound: { d2: "n2" } },
    ],
    [
      "is not made of nodes that another group waits for",
      {
        nodes: [wrong("n1")],
        demands: [...makeGang(2, { instanceTypes: ["huge"] }), makeDemand("younger", { createdAtMs: NOW })],
        pools: full(1),
      },
      { stop: [], start: [] },
    ],
    [
      "is not made of on-demand nodes while a demand waits for preferred spot that is short, since it may get them soon",
      {
        nodes: [makeNode("n1")],
        demands: [makeDemand("d1", { instanceTypes: ["huge"] }), makeDemand("d2", { spot: "Preferred" })],
        unavailable: [makeShortage({ spot: true })],
        pools: full(1),
      },
      { stop: [] },
    ],
    [
      "is not made of nodes for younger demand that loses its machine to the group",
      {
        nodes: [makeNode("right"), wrong("n1"), wrong("n2")],
        machines: [makeMachine("m1")],
        demands: [...makeGang(2, { spot: "Always" }), makeDemand("younger", { createdAtMs: NOW })],
        pools: full(3),
      },
      { stop: ["n2 IDLE", "n1 IDLE"], start: [], bound: { younger: "m1" } },
    ],
    [
      "is made of nodes for older demand, which keeps its machine",
      {
        nodes: [makeNode("right")],
        machines: [makeMachine("m1")],
        demands: [makeDemand("older", { createdAtMs: NOW - 2000 }), makeDemand("d1", { spot: "Always" })],
        pools: full(1),
      },
      { stop: ["right IDLE"], start: [], bound: { older: "m1" } },
    ],
    [
      "is not made for demand that could not boot there",
      { nodes: [wrong("n1")], demands: [makeDemand("d1")], unavailable: [makeShortage()], pools: full(1) },
      { stop: [] },
    ],
    [
      "is made for a whole gang, less the nodes that suit it",
      { nodes: [makeNode("right"), wrong("n1"), wrong("n2"), wrong("n3")], demands: makeGang(3), pools: full(4) },
      { stop: ["n3 IDLE", "n2 IDLE"], start: [], bound: {} },
    ],
    [
      "is not made for a part of a gang, but for other groups that it completes",
      { nodes: [wrong("n1")], demands: [...makeGang(2), makeDemand("younger", { createdAtMs: NOW })], pools: full(1) },
      { stop: ["n1 IDLE"] },
    ],
    [
      "is not made in one pool for a gang that lacks nodes of another",
      {
        nodes: [wrong("n1")],
        demands: [makeDemand("a", { group: "gang" }), makeDemand("b", { group: "gang", pool: "cpu" })],
        pools: [...full(1), makePool({ name: "cpu", max: 0 })],
      },
      { stop: [] },
    ],
    [
      "does not serve standby while a gang waits for more of it",
      {
        nodes: [makeNode("n1", { phase: "Terminating" })],
        demands: makeGang(2),
        pools: full(2, { standby: [{ instanceType: "huge", count: 1, spot: false }] }),
      },
      { start: [] },
    ],
    [
      "is not made while a pool may have more nodes",
      { nodes: [wrong("n1")], demands: [makeDemand("d1")], pools: full(3) },
      { stop: [], start: ["large for d1"] },
    ],
  ]);

  it("names the demand that needs the room", () => {
    const { stop } = computeScaling(
      makeSnapshot({ nodes: [wrong("n1")], demands: [makeDemand("d1")], pools: full(1) }),
    );
    expect(stop[0]?.because).toEqual({
      code: "IDLE",
      message: "it makes room for d1: pool gpu is full at 1, and nothing needs this node",
    });
  });
});
