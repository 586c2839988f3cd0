import { expect, it } from "vitest";
import { buildNode } from "../../test/build-node.ts";
import { explainDemand } from "./explain-demand.ts";

const owner = { kind: "session", id: "s" };
const wait = {
  group: "session/s",
  code: "BOOTING",
  message: "waiting for 2 nodes",
  demands: [],
  pools: ["a"],
} as const;
const planned = { waits: [wait], bindings: new Map<string, string>() };
const booting = (name: string, boundTo: string, createdAtMs: number) =>
  buildNode(name, { status: { phase: "Created", boundTo, createdAtMs } });

it("reports the nodes that boot for an owner, and no others", () => {
  const nodes = [
    booting("n-1", "session/s/driver", 5),
    booting("n-2", "session/s/server", 7),
    booting("n-3", "session/s2/driver", 1),
    buildNode("n-4", { status: { boundTo: "session/s/client" } }),
  ];
  expect(explainDemand(owner, planned, nodes, [])).toEqual({
    known: true,
    code: "BOOTING",
    message: "waiting for 2 nodes",
    booting: [{ instanceType: "small", spot: false, count: 2, sinceMs: 5 }],
    troubles: [],
  });
});

it("reports a node that boots for a part that the owner needs, whichever demand it is bound to", () => {
  const waits = [{ ...wait, demands: ["session/s/driver"] }];
  const bindings = new Map([["session/s/driver", "n-1"]]);
  const nodes = [booting("n-1", "session/other/driver", 5), booting("n-2", "session/other/server", 7)];
  expect(explainDemand(owner, { waits, bindings }, nodes, []).booting).toMatchObject([{ count: 1, sinceMs: 5 }]);
});

it("reports that no demand of the owner waits", () => {
  expect(explainDemand({ kind: "session", id: "s2" }, planned, [], []).known).toBe(false);
});

it("reports failed boots in the pools for which the owner waits, and no other trouble", () => {
  const failed = {
    pool: "a",
    code: "BOOT_FAILED",
    provider: "cloud",
    instanceType: "small",
    spot: false,
    zone: undefined,
    message: "no disk",
    sinceMs: 0,
    nextTryAtMs: undefined,
    boots: 17,
  } as const;
  const others = [
    { ...failed, pool: "b" },
    { ...failed, code: "NO_CAPACITY" as const, boots: 0 },
  ];
  expect(explainDemand(owner, planned, [], [...others, failed]).troubles).toEqual([failed]);
});
