import { acceptsNode, type NodeSelection } from "@muster/resources";
import fc from "fast-check";
import { expect, it } from "vitest";
import { aDemand, aMachine, aNode, aPool, aSnapshot, applyPlan } from "../../test/scaling-snapshots.ts";
import { computeScaling } from "./compute.ts";
import type { JoinedNode } from "./fit.ts";

const tolerations = [{ key: "gpu", operator: "Exists" }];
const ssd = [{ matchExpressions: [{ key: "disk", operator: "In", values: ["ssd"] }] }];
const notSsd = [{ matchExpressions: [{ key: "disk", operator: "NotIn", values: ["ssd"] }] }];
const SELECTIONS: readonly (NodeSelection | undefined)[] = [
  undefined,
  { terms: ssd, tolerations: [] },
  { terms: notSsd, tolerations: [] },
  { terms: ssd, tolerations },
  { terms: [], tolerations },
];

/** Counts how many needs get an accepted node each in the best assignment, by augmenting paths. */
function matchNeeds(needs: readonly (NodeSelection | undefined)[], nodes: readonly JoinedNode[]): number {
  const owners = new Map<JoinedNode, number>();
  const place = (need: number, seen: Set<JoinedNode>): boolean =>
    nodes.some((node) => {
      if (seen.has(node) || !acceptsNode(needs[need], node)) return false;
      seen.add(node);
      const owner = owners.get(node);
      if (owner !== undefined && !place(owner, seen)) return false;
      owners.set(node, need);
      return true;
    });
  return needs.filter((_, need) => place(need, new Set())).length;
}

const node = fc.record({
  disk: fc.constantFrom("ssd", "hdd"),
  isTainted: fc.constantFrom(false, false, true),
  isOwn: fc.boolean(),
});

it("creates for a gang with two selections as many nodes as it lacks in the best assignment of its machines", () => {
  const classes = fc.shuffledSubarray([...SELECTIONS], { minLength: 2, maxLength: 2 });
  const world = fc.tuple(
    classes,
    fc.array(fc.nat(1), { minLength: 1, maxLength: 7 }),
    fc.array(node, { maxLength: 7 }),
  );
  fc.assert(
    fc.property(world, ([selections, choices, existing]) => {
      const needs = choices.map((choice) => selections[choice]);
      const nodes = existing.map(({ disk, isTainted, isOwn }, index) => {
        const taints = isTainted ? [{ key: "gpu", effect: "NoSchedule" }] : [];
        return { isOwn, joined: { name: `n${index}`, labels: { disk }, taints } };
      });
      const demands = needs.map((selection, index) =>
        aDemand(`d${index}`, { group: "gang", ...(selection && { selection }) }),
      );
      const snapshot = aSnapshot({
        pools: [aPool({ idleMs: 1e9 })],
        machines: nodes.flatMap(({ isOwn, joined }) => (isOwn ? [] : [aMachine(joined.name, { joined })])),
        nodes: nodes.flatMap(({ isOwn, joined }) => (isOwn ? [{ ...aNode(joined.name), joined }] : [])),
        demands,
      });
      const plan = computeScaling(snapshot);
      const byName = new Map(nodes.map(({ joined }) => [joined.name, joined]));
      expect(plan.start).toHaveLength(needs.length - matchNeeds(needs, [...byName.values()]));
      expect(new Set(plan.bindings.values()).size).toBe(needs.length);
      for (const { name, selection } of demands) {
        const bound = byName.get(plan.bindings.get(name) ?? "");
        if (bound !== undefined) expect(acceptsNode(selection, bound)).toBe(true);
      }
      const again = computeScaling(applyPlan(snapshot, plan, "r2"));
      expect([again.start, again.stop]).toEqual([[], []]);
    }),
    { numRuns: 500 },
  );
});
