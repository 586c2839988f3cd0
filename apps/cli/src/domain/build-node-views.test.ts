import { expect, it } from "vitest";
import { buildNodeTable } from "./build-node-views.ts";
import type { ScaledNode } from "./scaled-node.ts";

const node: ScaledNode = {
  ...{ name: "elastic-7f3k2", pool: "elastic", instanceType: "c7i.4xlarge", spot: true, zone: "eu-central-1a" },
  ...{ phase: "CREATING", phaseSinceMs: 0, createdAtMs: 0, instanceId: "", kubernetesNode: "", addresses: [] },
  ...{ boundTo: "session/benchmark/0", holder: "", terminate: undefined },
  ...{ unhealthySinceMs: undefined, idleSinceMs: undefined, trouble: "" },
};
const trouble = "provider aws is not available; try again in 10 s";

it("shows below the table what its rows had to cut", () => {
  const nodes = [node, { ...node, name: "elastic-2", trouble }];
  const lines = buildNodeTable(nodes, 1000, { columns: 80, colours: false });
  expect(lines.slice(3)).toEqual(["", `elastic-2: ${trouble}`]);
  expect(lines.slice(0, 3).every((line) => line.length <= 80)).toBe(true);
});

it("shows nothing twice where the rows have room", () => {
  const lines = buildNodeTable([{ ...node, trouble }], 1000, { columns: 200, colours: false });
  expect(lines).toHaveLength(2);
  expect(lines[1]).toContain(trouble);
});
