import { expect, it } from "vitest";
import { buildNode } from "../../test/build-node.ts";
import { buildMachine, inLedger } from "../../test/build-sightings.ts";
import { tolerateTaints } from "./tolerate-taints.ts";

const tainted = {
  toleratedStanding: "FREE",
  taints: [{ key: "gpu", effect: "NoSchedule" }],
  cordoned: false,
} as const;
const machines = inLedger(buildMachine("n", "CORDONED", undefined, tainted));

it("counts a tainted machine that the scaler did not make as what it is for work that tolerates the taint", () => {
  expect(tolerateTaints(machines, []).byNode.get("k-n")?.standing).toBe("FREE");
});

it("leaves a tainted node of the scaler what it is for other work", () => {
  expect(tolerateTaints(machines, [buildNode("n")]).byNode.get("k-n")?.standing).toBe("CORDONED");
});
