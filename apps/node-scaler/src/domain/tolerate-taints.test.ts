import { expect, it } from "vitest";
import { buildNode, buildPolicy } from "../../test/build-node.ts";
import { buildMachine, inLedger } from "../../test/build-sightings.ts";
import type { PoolPolicy } from "./pool.ts";
import { tolerateTaints } from "./tolerate-taints.ts";

const gpu = { key: "gpu", value: "", effect: "NoSchedule" };
const tainted = { toleratedStanding: "FREE", taints: [gpu], cordoned: false } as const;
const machines = inLedger(buildMachine("n", "CORDONED", undefined, tainted));
const standing = (own: boolean, ...pools: readonly PoolPolicy[]) => {
  const policies = new Map(pools.map((pool) => [pool.name, pool]));
  return tolerateTaints(machines, own ? [buildNode("n")] : [], policies).byNode.get("k-n")?.standing;
};

it("gives a tainted machine that the scaler did not create its standing for work that tolerates the taint", () => {
  expect(standing(false, buildPolicy())).toBe("FREE");
});

it("does so for a tainted node of the scaler if its pool declares the taint", () => {
  expect(standing(true, buildPolicy({ taints: [gpu] }))).toBe("FREE");
  expect(standing(true, buildPolicy({ taints: [{ key: "gpu", effect: "NoSchedule" }] }))).toBe("FREE");
});

it("keeps its standing for other work if the pool declares no taint, another one, or is no longer scaled", () => {
  expect(standing(true, buildPolicy())).toBe("CORDONED");
  for (const other of [{ key: "tpu" }, { value: "a" }, { effect: "NoExecute" }])
    expect(standing(true, buildPolicy({ taints: [{ ...gpu, ...other }] }))).toBe("CORDONED");
  expect(standing(true)).toBe("CORDONED");
});
