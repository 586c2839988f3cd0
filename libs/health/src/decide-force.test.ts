import { describe, expect, it } from "vitest";
import { decideForce, type ForceReason, type NodeSeen } from "./decide-force.ts";

const NOW = 1_000_000;
const POLICY = { nodeLostMs: 300_000 };

describe("decideForce", () => {
  it.each<[string, NodeSeen | undefined, ForceReason | undefined]>([
    ["waits for a pod whose node is unknown", undefined, undefined],
    ["waits for a pod whose node answers", { state: "ready" }, undefined],
    ["does not wait for a node that is gone", { state: "gone" }, "node-gone"],
    ["waits for a node that may come back", { state: "not-ready", sinceMs: NOW - 299_999 }, undefined],
    [
      "does not wait for one that has been not ready for too long",
      { state: "not-ready", sinceMs: NOW - 300_000 },
      "node-not-ready",
    ],
    ["waits where the API server's clock is ahead", { state: "not-ready", sinceMs: NOW + 5000 }, undefined],
  ])("%s", (_title, node, because) => {
    expect(decideForce(node, NOW, POLICY)).toBe(because);
  });
});
