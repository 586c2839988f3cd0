import { describe, expect, it } from "vitest";
import {
  acceptsNode,
  compactNodeSelection,
  describeNodeSelection,
  indexSelections,
  matchesNode,
  buildNodeSelectionKey,
  excludeNodes,
  restrictSelection,
  isTolerated,
  findUntolerated,
  withMinimum,
  withoutMinimum,
  type NodeSelection,
  type NodeSelectorRequirement,
  type Taint,
  type Toleration,
} from "./node-selection.ts";

const node = { name: "gpu-1", labels: { disk: "ssd", gpus: "8" } };

/** Combines all requirements in one term. */
function all(...matchExpressions: readonly NodeSelectorRequirement[]): NodeSelection {
  return { terms: [{ matchExpressions }], tolerations: [] };
}

const ssd = { key: "disk", operator: "In", values: ["ssd", "nvme"] };
const zone = { key: "zone", operator: "Exists" };

it("accepts a node by its labels and its taints, and without a selection each node without taints", () => {
  const taints = [{ key: "gpu", effect: "NoSchedule" }];
  const tolerations = [{ key: "gpu", operator: "Exists" }];
  const selections = [undefined, all(ssd), { ...all(ssd), tolerations }, { ...all(zone), tolerations }];
  const accepted = (seen: readonly Taint[]) => selections.map((each) => acceptsNode(each, { ...node, taints: seen }));
  expect(accepted([])).toEqual([true, true, true, false]);
  expect(accepted(taints)).toEqual([false, false, true, false]);
});

describe("a node matches", () => {
  it.each<[string, NodeSelection, boolean]>([
    ["no terms", { terms: [], tolerations: [] }, true],
    ["a term without a requirement", { terms: [{}], tolerations: [] }, false],
    ["one of several values", all(ssd), true],
    ["another value", all({ ...ssd, values: ["hdd"] }), false],
    ["a value that is excluded", all({ ...ssd, operator: "NotIn" }), false],
    ["a label that is excluded and missing", all({ key: "zone", operator: "NotIn", values: ["a"] }), true],
    ["a missing label", all(zone), false],
    ["a label that must be missing", all({ key: "zone", operator: "DoesNotExist" }), true],
    ["a smaller number", all({ key: "gpus", operator: "Gt", values: ["4"] }), true],
    ["an equal number", all({ key: "gpus", operator: "Gt", values: ["8"] }), false],
    ["a larger number", all({ key: "gpus", operator: "Lt", values: ["9"] }), true],
    ["a number of a missing label", all({ key: "cores", operator: "Lt", values: ["9"] }), false],
    ["a number of a label that is none", all({ key: "disk", operator: "Lt", values: ["9"] }), false],
    ["more than a text that is no whole number", all({ key: "gpus", operator: "Gt", values: ["0x1"] }), false],
    ["a label that every object has", all({ key: "constructor", operator: "Exists" }), false],
    ["an unknown operator", all({ key: "disk", operator: "Is", values: ["ssd"] }), false],
    ["one requirement of two", all(ssd, zone), false],
    ["one term of two", { terms: [{ matchExpressions: [zone] }, { matchExpressions: [ssd] }], tolerations: [] }, true],
    [
      "its name",
      { terms: [{ matchFields: [{ key: "metadata.name", operator: "In", values: ["gpu-1"] }] }], tolerations: [] },
      true,
    ],
    [
      "another name",
      { terms: [{ matchFields: [{ key: "metadata.name", operator: "NotIn", values: ["gpu-1"] }] }], tolerations: [] },
      false,
    ],
  ])("%s: %#", (_title, selection, expected) => {
    expect(matchesNode(selection, node)).toBe(expected);
  });
});

describe("a taint is tolerated by", () => {
  const taint: Taint = { key: "gpu", value: "big", effect: "NoSchedule" };

  it.each<[string, Toleration, boolean]>([
    ["its key and value", { key: "gpu", value: "big" }, true],
    [
      "its key and value with the operator",
      { key: "gpu", operator: "Equal", value: "big", effect: "NoSchedule" },
      true,
    ],
    ["another value", { key: "gpu", value: "small" }, false],
    ["its key alone, if it exists", { key: "gpu", operator: "Exists" }, true],
    ["its key alone, if it must be equal", { key: "gpu" }, false],
    ["another key", { key: "cpu", operator: "Exists" }, false],
    ["another effect", { key: "gpu", operator: "Exists", effect: "NoExecute" }, false],
    ["everything", { operator: "Exists" }, true],
    ["an unknown operator", { key: "gpu", operator: "Like", value: "big" }, false],
    ["no key, if it must be equal", { value: "big" }, false],
    ["empty fields as absent ones", { key: "gpu", operator: "", value: "big", effect: "" }, true],
  ])("%s: %#", (_title, toleration, expected) => {
    expect(isTolerated(toleration, taint)).toBe(expected);
    expect(findUntolerated([taint], [toleration])).toEqual(expected ? undefined : taint);
  });

  it("nothing, if it keeps no pod off", () => {
    expect(findUntolerated([{ ...taint, effect: "PreferNoSchedule" }], [])).toBeUndefined();
  });
});

describe("selections", () => {
  const full: NodeSelection = {
    terms: [{ matchExpressions: [{ key: "zone", operator: "Exists", values: [] }], matchFields: [] }],
    tolerations: [{ key: "gpu", operator: "Exists", value: "", effect: "" }],
  };
  const compact: NodeSelection = {
    terms: [{ matchExpressions: [{ key: "zone", operator: "Exists" }] }],
    tolerations: [{ key: "gpu", operator: "Exists" }],
  };

  it("are equal with and without their empty fields", () => {
    expect(compactNodeSelection(full)).toEqual(compact);
    expect(buildNodeSelectionKey(full)).toBe(buildNodeSelectionKey(compact));
    expect(buildNodeSelectionKey(all(ssd))).not.toBe(buildNodeSelectionKey(all(zone)));
  });

  it("with a minimum accept nodes that are known to hold it beside one pod", () => {
    const selection = withMinimum(all(ssd), { cpu: 4000, "example.com/gpu": 0 });
    const accepts = (record: Readonly<Record<string, number>> | undefined): boolean => {
      const allocatable = record && new Map(Object.entries(record));
      return acceptsNode(selection, { name: "n", labels: { disk: "ssd" }, taints: [], allocatable });
    };
    expect(accepts({ cpu: 4000, pods: 1 })).toBe(true);
    expect(accepts({ cpu: 3999, pods: 1 })).toBe(false);
    expect(accepts({ cpu: 4000, pods: 0 })).toBe(false);
    expect(accepts(undefined)).toBe(false);
  });

  it("exclude nodes by name from each term, beside its other requirements", () => {
    const accepts = (selection: NodeSelection | undefined, name: string): boolean =>
      acceptsNode(excludeNodes(selection, ["n1", "n2"]), { name, labels: { disk: "ssd" }, taints: [] });
    expect(["n1", "n2", "n3"].filter((name) => accepts(undefined, name))).toEqual(["n3"]);
    expect(["n1", "n3"].filter((name) => accepts(all(ssd), name))).toEqual(["n3"]);
    const byName = { terms: [{ matchFields: [{ key: "metadata.name", operator: "In", values: ["n1", "n3"] }] }] };
    expect(["n1", "n3"].filter((name) => accepts({ ...byName, tolerations: [] }, name))).toEqual(["n3"]);
    expect(accepts({ terms: [{}], tolerations: [] }, "n3")).toBe(false);
  });

  it("keep their minimum when they are restricted, compacted or listed, and differ by it", () => {
    const selection = withMinimum(undefined, { cpu: 4, memory: 0 });
    const requirement = { key: "zone", operator: "Exists" };
    expect(restrictSelection(selection, requirement)).toEqual({ ...all(requirement), minimum: { cpu: 4, memory: 0 } });
    expect(selection && compactNodeSelection(selection)).toEqual({ terms: [], tolerations: [], minimum: { cpu: 4 } });
    expect(compactNodeSelection({ terms: [], tolerations: [], minimum: {} })).toEqual({ terms: [], tolerations: [] });
    const [one, other] = [
      { cpu: 4, memory: 1 },
      { memory: 1, cpu: 4 },
    ].map((minimum) => ({ ...all(ssd), minimum }));
    expect(one && buildNodeSelectionKey(one)).toBe(other && buildNodeSelectionKey(other));
    expect(one && buildNodeSelectionKey(one)).not.toBe(buildNodeSelectionKey(all(ssd)));
    expect(withoutMinimum(one)).toEqual(all(ssd));
    expect(withoutMinimum(one)).toBe(withoutMinimum(one));
    expect(withoutMinimum(selection)).toBeUndefined();
    expect(withMinimum(undefined, {})).toBeUndefined();
  });

  it("are described in 200 characters at most", () => {
    const values = Array.from({ length: 100 }, (_, index) => `value-${index}`);
    const text = describeNodeSelection(all({ key: "disk", operator: "In", values }));
    expect(text).toHaveLength(200);
    expect(text).toMatch(/^disk in \(value-0, .*…$/);
  });

  it("are listed once, with the place of each need among them", () => {
    const needs = [{ selection: all(ssd) }, {}, { selection: all(zone) }, { selection: all(ssd) }];
    expect(indexSelections(needs)).toEqual({ selections: [all(ssd), all(zone)], indexes: [1, 0, 2, 1] });
  });

  it.each<[NodeSelection, string]>([
    [all({ key: "disk", operator: "In", values: ["ssd"] }, zone), "disk=ssd, zone"],
    [all(ssd, { key: "zone", operator: "DoesNotExist" }), "disk in (ssd, nvme), no zone"],
    [all({ key: "gpus", operator: "Gt", values: ["4"] }), "gpus > 4"],
    [
      { terms: [], tolerations: [{ key: "gpu", value: "big" }, { operator: "Exists" }] },
      "tolerates gpu=big, every taint",
    ],
    [{ ...all(ssd), minimum: { cpu: 4500, memory: 2 ** 33 } }, "disk in (ssd, nvme); holds cpu 4500m, memory 8Gi"],
    [{ ...compact, terms: [...all(ssd).terms, ...compact.terms] }, "disk in (ssd, nvme) or zone; tolerates gpu"],
  ])("are described: %#", (selection, text) => {
    expect(describeNodeSelection(selection)).toBe(text);
  });
});
