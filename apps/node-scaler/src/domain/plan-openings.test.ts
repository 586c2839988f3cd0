import { expect, it } from "vitest";
import { buildNode } from "../../test/build-node.ts";
import { buildKubeNode, inCluster } from "../../test/build-sightings.ts";
import type { ScaledNode } from "./node.ts";
import { planOpenings } from "./plan-openings.ts";

const born = inCluster(buildKubeNode("n", { unopened: true }));
const ordered = { code: "IDLE", message: "", atMs: 0, drainUntilMs: 0 } as const;

it("opens the node of a record that has seen it ready, also when it was born again while somebody holds it", () => {
  for (const phase of ["Available", "Claimed", "Cleaning"] as const)
    expect(planOpenings([buildNode("n", { status: { phase } })], born)).toEqual([
      { do: "open", node: "n", kubeNode: "k-n", because: "wanted" },
    ]);
});

it.each<[string, ScaledNode[]]>([
  ["no record", []],
  ["a record that has not seen it ready", [buildNode("n", { status: { phase: "Created" } })]],
  ["a record that is to end", [buildNode("n", { spec: { terminate: ordered } })]],
  ["a record that ends", [buildNode("n", { status: { phase: "Terminating" } })]],
  ["a record whose node has another name", [buildNode("n", { status: { kubernetesNode: "k-other" } })]],
])("leaves a node closed of %s", (_title, records) => {
  expect(planOpenings(records, born)).toEqual([]);
});

it("opens a node once", () => {
  expect(planOpenings([buildNode("n")], inCluster(buildKubeNode("n")))).toEqual([]);
});
