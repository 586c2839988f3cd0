import { describe, expect, it } from "vitest";
import { buildNode, buildPolicy } from "../../test/build-node.ts";
import { buildMachine, buildPod, holder, inLedger } from "../../test/build-sightings.ts";
import { buildComputedNodes, buildFreeMachines, isInUse, type Use } from "./build-scaling-snapshot.ts";
import type { Machine } from "./sightings.ts";

const policies = new Map([["a", buildPolicy()]]);
const node = buildNode("n");

const seen = (machine: Machine, pods: Use["pods"] = new Map()): Use => ({ machines: inLedger(machine), pods });

describe("a node", () => {
  it.each<[string, Machine, boolean]>([
    ["is not in use while it is free", buildMachine("n", "FREE"), false],
    ["is in use while it is held", buildMachine("n", "HELD", holder), true],
    ["is in use while a part of it is held", buildMachine("n", "SHARED", undefined, { sharedHolders: [holder] }), true],
    ["is in use while foreign pods use it", buildMachine("n", "FOREIGN_USE"), true],
    [
      "is in use while it is not ready and a part of it is held",
      buildMachine("n", "NOT_READY", undefined, { sharedHolders: [holder] }),
      true,
    ],
    ["is not in use for a word that is not known", buildMachine("n", "UNKNOWN"), false],
  ])("%s", (_what, machine, isUsed) => {
    expect(isInUse(node, seen(machine))).toBe(isUsed);
    const [computed] = buildComputedNodes([node], seen(machine), policies);
    if (isUsed) expect(computed?.status.phase).toBe("Claimed");
  });

  it("takes whole demands beside pods that the ledger does not count, and none beside those that it counts", () => {
    const pods = new Map([["k-n", [buildPod("p")]]]);
    const [ignored] = buildComputedNodes([node], seen(buildMachine("n", "FREE"), pods), policies);
    expect(ignored).toMatchObject({ sharedWith: "pod default/p", status: { phase: "Available" } });
    const [counted] = buildComputedNodes([node], seen(buildMachine("n", "FOREIGN_USE"), pods), policies);
    expect(counted?.status.phase).toBe("Claimed");
  });
});

it("counts no machine of which a part is used as free for whole demands", () => {
  for (const standing of ["SHARED", "FOREIGN_USE"] as const)
    expect(buildFreeMachines([], seen(buildMachine("m", standing)), policies)).toEqual([]);
  expect(buildFreeMachines([], seen(buildMachine("m", "FREE")), policies)).toMatchObject([{ name: "k-m", pool: "a" }]);
});
