import { describe, expect, it } from "vitest";
import { buildNodeTable } from "./build-node-views.ts";
import type { ListedNode, MachineState, ScaledNode } from "../adapters/node-messages.ts";

const node: ScaledNode = {
  ...{ name: "elastic-7f3k2", pool: "elastic", instanceType: "c7i.4xlarge", spot: true, zone: "eu-central-1a" },
  pricePerHourMicros: undefined,
  ...{ phase: "CREATING", phaseSinceMs: 0, createdAtMs: 0, instanceId: "", kubernetesNode: "", addresses: [] },
  ...{ boundTo: "session/benchmark/0", holder: "", terminate: undefined },
  ...{ unhealthySinceMs: undefined, idleSinceMs: undefined, trouble: "", machine: undefined },
};
const trouble = "provider aws is not available; try again in 10 s";

it("shows below the table the text that its rows had to cut", () => {
  const nodes = [node, { ...node, name: "elastic-2", trouble }];
  const lines = buildNodeTable(nodes, 1000, { columns: 80, colours: false });
  expect(lines.slice(3)).toEqual(["", `elastic-2: ${trouble}`]);
  expect(lines.slice(0, 3).every((line) => line.length <= 80)).toBe(true);
});

it("shows the price of each node, and of all that exist, where the file of pools has prices", () => {
  const nodes = [
    { ...node, pricePerHourMicros: 192_000 },
    { ...node, name: "elastic-2", pricePerHourMicros: 400_000, phase: "TERMINATED" },
    { ...node, name: "elastic-3" },
  ];
  const [header, first, second, third, ...rest] = buildNodeTable(nodes, 1000, { columns: 200, colours: false });
  expect(header).toMatch(/PRICE\/H/);
  expect([first, second, third].map((line) => /\s(\S+)\s*$/.exec(line ?? "")?.[1])).toEqual(["0.192", "0.4", "-"]);
  expect(rest).toEqual(["", "total: 0.192 an hour, without the 1 of unknown price"]);
  expect(buildNodeTable([node], 1000, { columns: 200, colours: false })[0]).not.toContain("PRICE");
});

it("shows nothing twice if the rows have room", () => {
  const lines = buildNodeTable([{ ...node, trouble }], 1000, { columns: 200, colours: false });
  expect(lines).toHaveLength(2);
  expect(lines[1]).toContain(trouble);
});

it("shows amounts granted in parts, within the width of a terminal", () => {
  const machine = (standing: string, ...owners: string[]): ScaledNode["machine"] => {
    const sharedHolders = owners.map((owner) => ({ owner, sinceMs: 0 }));
    return {
      node: "",
      pool: "",
      holder: "",
      standing,
      sharedHolders,
      allocatable: {},
      free: {},
      excess: {},
      foreign: undefined,
      cordoned: undefined,
    };
  };
  const claimed = { ...node, phase: "CLAIMED", holder: "job/a", spot: false, zone: "z1", instanceType: "large" };
  const nodes = [
    { ...claimed, machine: machine("SHARED", "job/a", "job/b", "session/c") },
    { ...claimed, machine: machine("SHARED", "job/b") },
    { ...claimed, phase: "AVAILABLE", holder: "", boundTo: "", machine: machine("FOREIGN_USE") },
    { ...claimed, machine: machine("HELD") },
    { ...claimed, phase: "CREATING", holder: "" },
  ];
  const lines = buildNodeTable(nodes, 1000, { columns: 120, colours: false });
  expect(lines.every((line) => line.length <= 120)).toBe(true);
  expect(
    lines.map((line) =>
      line
        .slice(line.indexOf("z1") + 2)
        .trim()
        .split(/ {2,}/),
    ),
  ).toEqual([
    expect.anything(),
    ["CLAIMED", "SHARED", "1.0s", "3 owners"],
    ["CLAIMED", "SHARED", "1.0s", "job/b"],
    ["AVAILABLE", "FOREIGN_USE", "1.0s", "-"],
    ["CLAIMED", "HELD", "1.0s", "job/a"],
    ["CREATING", "-", "1.0s", "session/benchmark/0"],
  ]);
  expect(lines[0]).toMatch(/PHASE +STANDING +AGE/);
});

it("shows no standing if every node is whole", () => {
  expect(buildNodeTable([node], 1000, { columns: 120, colours: false })[0]).not.toContain("STANDING");
});

it.each([
  ["that is cordoned", "CORDONED", true, "CORDONED"],
  ["that is tainted and not cordoned", "CORDONED", false, "TAINTED"],
  ["of a ledger that does not report cordons", "CORDONED", undefined, "CORDONED"],
  ["that is held", "HELD", false, "HELD"],
])("shows the standing of a node %s", (_title, standing, cordoned, shown) => {
  const machine: MachineState = {
    ...{ node: "gpu-1", pool: "gpu", holder: "", standing, cordoned, sharedHolders: [] },
    ...{ allocatable: {}, free: {}, excess: {}, foreign: undefined },
  };
  const fixed = { name: "gpu-1", pool: "gpu", phase: "STATIC", kubernetesNode: "gpu-1", holder: "", machine };
  const [, row] = buildNodeTable([fixed], 1000, { columns: 120, colours: false });
  expect(row).toMatch(new RegExp(` STATIC +${shown} `));
});

describe("the room of nodes", () => {
  const GI = 2 ** 30;
  const machine = (more: Partial<MachineState>): MachineState => ({
    ...{
      node: "gpu-1",
      pool: "gpu",
      holder: "",
      standing: "SHARED",
      sharedHolders: [],
      excess: {},
      foreign: undefined,
      cordoned: undefined,
    },
    allocatable: { cpu: 4000, memory: 15.48 * GI, pods: 110, "nvidia.com/gpu": 2 },
    free: { cpu: 500, memory: 3 * GI, pods: 100, "nvidia.com/gpu": 1 },
    ...more,
  });
  const fixed = (state: MachineState): ListedNode => {
    return {
      ...{ name: state.node, pool: "gpu", phase: "STATIC", kubernetesNode: state.node, holder: "" },
      machine: state,
    };
  };
  const foreign = { pods: 2, requests: { cpu: 1500, memory: 2 * GI }, examples: ["default/web"] };
  const nodes = [fixed(machine({ foreign })), fixed(machine({ node: "gpu-2", free: {}, standing: "HELD" }))];

  it("is the free of the allocatable amount, with accelerators and foreign use", () => {
    const [header = "", first = "", second = ""] = buildNodeTable(nodes, 1000, { columns: undefined, colours: false });
    expect(header).toMatch(/ {2}FREE CPU {2}FREE MEMORY {2}FREE GPU {2}FOREIGN$/);
    expect(first).toMatch(
      /^gpu-1 +gpu +- +- +- +STATIC +SHARED +- +- +500m\/4 +3Gi\/15.4Gi +1\/2 +2 pods, 1500m cpu, 2Gi$/,
    );
    expect(second).toMatch(/^gpu-2 .* HELD .* 0\/4 +0\/15.4Gi +0\/2 +-$/);
  });

  it("is exceeded if foreign pods start after the grant", () => {
    const over = fixed(machine({ foreign, excess: { cpu: 500, memory: GI } }));
    expect(buildNodeTable([over], 1000, { columns: undefined, colours: false })[1]).toMatch(
      / OVERCOMMITTED: 500m cpu, 1Gi beyond what it can allocate; pods default\/web$/,
    );
  });

  it.each([80, 100, 120])("fits %d columns", (columns) => {
    const lines = buildNodeTable([node, ...nodes], 1000, { columns, colours: false });
    expect(lines.every((line) => line.length <= columns)).toBe(true);
    expect(lines[0]).toMatch(/STANDING .*FREE CPU {2}FREE MEMORY {2}FREE GPU/);
  });

  it("names an accelerator in full if two would have the same heading", () => {
    const two = machine({ allocatable: { "a.com/gpu": 1, "b.com/gpu": 1 } });
    expect(buildNodeTable([fixed(two)], 1000, { columns: undefined, colours: false })[0]).toMatch(
      /FREE A.COM\/GPU {2}FREE B.COM\/GPU/,
    );
  });
});
