import { expect, it } from "vitest";
import { buildNode } from "../../test/build-node.ts";
import { buildKubeNode, inCluster } from "../../test/build-sightings.ts";
import type { ScaledNode } from "./node.ts";
import { planStartupTaints } from "./plan-startup-taints.ts";

const born = inCluster(buildKubeNode("n", { hasStartupTaint: true }));
const ordered = { code: "IDLE", message: "", atMs: 0, drainUntilMs: 0 } as const;

it("removes the taint of a node that its record has observed ready, even if a held node has registered again", () => {
  for (const phase of ["Available", "Claimed", "Cleaning"] as const)
    expect(planStartupTaints([buildNode("n", { status: { phase } })], born)).toEqual([
      { kind: "open", node: "n", kubeNode: "k-n", because: "wanted" },
    ]);
});

it.each<[string, ScaledNode[]]>([
  ["no record", []],
  ["a record that has not observed it ready", [buildNode("n", { status: { phase: "Created" } })]],
  ["a record that must end", [buildNode("n", { spec: { terminate: ordered } })]],
  ["a record that ends", [buildNode("n", { status: { phase: "Terminating" } })]],
  ["a record whose node has another name", [buildNode("n", { status: { kubernetesNode: "k-other" } })]],
])("keeps the taint of the node of %s", (_title, records) => {
  expect(planStartupTaints(records, born)).toEqual([]);
});

it("removes a taint once", () => {
  expect(planStartupTaints([buildNode("n")], inCluster(buildKubeNode("n")))).toEqual([]);
});
