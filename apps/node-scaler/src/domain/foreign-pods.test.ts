import { describe } from "vitest";
import { checkPlans } from "../../test/plan-rows.ts";
import { aDemand, aNode, aPool } from "../../test/scaling-snapshots.ts";

describe("a node that foreign pods make unusable for whole demands", () => {
  const foreign = { ...aNode("n1", { phase: "Claimed" }), sharedWith: "pod default/web" };
  checkPlans([
    [
      "is named if the pool is full",
      { nodes: [foreign], demands: [aDemand("d1")], pools: [aPool({ max: 1, idleMs: 0 })] },
      {
        start: [],
        stop: [],
        messages: [
          "1 node needed: pool gpu has 1 nodes of 1 at most, 1 of them with foreign pods: n1 has pod default/web",
        ],
      },
    ],
    ["causes another node to be created", { nodes: [foreign], demands: [aDemand("d1")] }, { start: ["large for d1"] }],
    [
      "is no standby",
      { nodes: [foreign], pools: [aPool({ standby: [{ instanceType: "large", count: 1, spot: false }] })] },
      { start: ["large for standby"] },
    ],
  ]);
});
