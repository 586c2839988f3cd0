import { expect, it } from "vitest";
import type { NodeRecord } from "../adapters/messages.ts";
import { holderOrDemandOf, selectNodes, stageOfNode } from "./nodes.ts";

const node = (fields: object): NodeRecord =>
  ({ name: "gpu-1", phase: "AVAILABLE", spec: { pool: "gpu" }, boundTo: "", ...fields }) as unknown as NodeRecord;

it.each([
  ["CREATING", undefined, "starting"],
  ["CREATED", undefined, "starting"],
  ["AVAILABLE", undefined, "waiting"],
  ["CLAIMED", undefined, "running"],
  ["CLEANING", undefined, "ending"],
  ["TERMINATING", undefined, "ending"],
  ["TERMINATED", undefined, "cancelled"],
  ["A_LATER_PHASE", undefined, "waiting"],
  ["CLAIMED", { code: "IDLE" }, "ending"],
  ["TERMINATED", { code: "IDLE" }, "cancelled"],
])("a node in phase %s with the termination %j is %s", (phase, terminate, stage) => {
  expect(stageOfNode(node({ phase, spec: { pool: "gpu", terminate } }))).toBe(stage);
});

it.each([
  [{ holder: { kind: "job", id: "train" }, boundTo: "job/other/0" }, "job/train"],
  [{ boundTo: "job/train/0" }, "job/train/0"],
  [{}, ""],
])("a node with %j works for '%s'", (fields, whom) => {
  expect(holderOrDemandOf(node(fields))).toBe(whom);
});

it.each([
  ["", ["gpu-1", "cpu-2"]],
  ["  ", ["gpu-1", "cpu-2"]],
  ["GPU-1", ["gpu-1"]],
  ["claimed zone-b", ["cpu-2"]],
  ["zone-b gpu-1", []],
  ["boot_refused", ["gpu-1"]],
  ["no capacity", ["gpu-1"]],
  ["ip-10-0-0-2", ["cpu-2"]],
  ["large", ["cpu-2"]],
  ["session/echo", ["cpu-2"]],
])("a search for '%s' selects %j", (q, names) => {
  const nodes = [
    node({ troubleCode: "BOOT_REFUSED", trouble: "no capacity" }),
    node({
      ...{ name: "cpu-2", phase: "CLAIMED", kubernetesNode: "ip-10-0-0-2", holder: { kind: "session", id: "echo" } },
      spec: { pool: "cpu", instanceType: "large", zone: "zone-b" },
    }),
  ];
  expect(selectNodes(nodes, q).map(({ name }) => name)).toEqual(names);
});
