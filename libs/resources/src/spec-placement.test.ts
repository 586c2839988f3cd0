import { describe, expect, it } from "vitest";
import { listCommonTolerations, buildGrantedAffinity, findGrantedNode, readNodeSelection } from "./spec-placement.ts";

const REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution";
const GPU = { key: "gpu", operator: "Exists" };
const SPOT = { key: "spot", value: "true" };

describe("the affinity of a pod with a granted machine", () => {
  const granted = { node: "n-1", exclusiveKey: "exclusive", isShared: false };
  const nodesOf = (terms: readonly object[]) => ({ nodeAffinity: { [REQUIRED]: { nodeSelectorTerms: terms } } });

  it("requires the machine in every term that is written", () => {
    const zone = { key: "zone", operator: "In", values: ["a"] };
    const name = { key: "metadata.name", operator: "NotIn", values: ["n-2"] };
    const own = { key: "metadata.name", operator: "In", values: ["n-1"] };
    const written = nodesOf([{ matchExpressions: [zone] }, { matchFields: [name] }]);
    const affinity = buildGrantedAffinity(written, granted);
    expect(affinity).toMatchObject(
      nodesOf([{ matchExpressions: [zone], matchFields: [own] }, { matchFields: [name, own] }]),
    );
    expect(findGrantedNode(affinity)).toBe("n-1");
  });

  it.each([
    [false, { key: "exclusive", operator: "Exists" }],
    [true, { key: "exclusive", operator: "In", values: ["true"] }],
  ])("excludes other pods of Muster, with isShared %s", (isShared, excluded) => {
    const { podAntiAffinity } = buildGrantedAffinity(undefined, { ...granted, isShared });
    expect(podAntiAffinity).toMatchObject({ [REQUIRED]: [{ labelSelector: { matchExpressions: [excluded] } }] });
  });

  it("is not read from a pod that names none", () => {
    expect(findGrantedNode(undefined)).toBeUndefined();
    expect(
      findGrantedNode(nodesOf([{ matchFields: [{ key: "metadata.name", operator: "NotIn", values: ["n"] }] }])),
    ).toBe(undefined);
  });
});

it("a term without a requirement accepts no node, whatever the node selector is", () => {
  const affinity = { nodeAffinity: { [REQUIRED]: { nodeSelectorTerms: [{}] } } };
  expect(readNodeSelection({ affinity, nodeSelector: { disk: "ssd" } }, "pool")).toEqual({
    terms: [{}],
    tolerations: [],
  });
});

it("the selection of a spec leaves out the label of pools and how long a taint is tolerated", () => {
  const spec = { nodeSelector: { pool: "p", disk: "ssd" }, tolerations: [{ ...GPU, tolerationSeconds: 60 }] };
  expect(readNodeSelection(spec, "pool")).toEqual({
    terms: [{ matchExpressions: [{ key: "disk", operator: "In", values: ["ssd"] }] }],
    tolerations: [GPU],
  });
  expect(readNodeSelection({ nodeSelector: { pool: "p" } }, "pool")).toBeUndefined();
});

it("the tolerations of a node are those that all of its pods have", () => {
  const placed = [
    { node: "a", tolerations: [GPU, SPOT] },
    { node: "a", tolerations: [{ ...GPU }] },
    { node: "b", tolerations: [SPOT] },
    { node: "c", tolerations: [SPOT] },
    { node: "c", tolerations: [] },
  ];
  expect(listCommonTolerations(placed)).toEqual(
    new Map([
      ["a", [GPU]],
      ["b", [SPOT]],
      ["c", []],
    ]),
  );
});
