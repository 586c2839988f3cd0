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
const booting = (name: string, boundTo: string, createdAtMs: number) =>
  buildNode(name, { status: { phase: "Created", boundTo, createdAtMs } });

it("tells of the nodes that boot for an owner, and of no other's", () => {
  const nodes = [
    booting("n-1", "session/s/driver", 5),
    booting("n-2", "session/s/server", 7),
    booting("n-3", "session/s2/driver", 1),
    buildNode("n-4", { status: { boundTo: "session/s/client" } }),
  ];
  expect(explainDemand(owner, [wait], nodes)).toEqual({
    known: true,
    code: "BOOTING",
    message: "waiting for 2 nodes",
    booting: [{ instanceType: "small", spot: false, count: 2, sinceMs: 5 }],
  });
});

it("says so when nothing of the owner waits", () => {
  expect(explainDemand({ kind: "session", id: "s2" }, [wait], []).known).toBe(false);
});
