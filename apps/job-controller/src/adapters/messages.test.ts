import { muster } from "@muster/proto";
import { expect, it } from "vitest";
import { listPoolMaxima } from "./messages.ts";

const { Pool } = muster.reservation.v1;
const SCALED = { name: "a", capacity: 2, elasticMax: 2, elasticAtMs: 1000 };

it.each([
  ["the scaler's maximum", { ...SCALED, elasticMax: 8 }, 8],
  ["the nodes if they are more", { ...SCALED, capacity: 3 }, 3],
  ["nodes that another client occupies", { ...SCALED, unusableByReason: [{ reason: "OCCUPIED", count: 1 }] }, 3],
  [
    "nodes that another client occupies, or that have foreign pods",
    {
      ...SCALED,
      unusableByReason: [
        { reason: "OCCUPIED", count: 2 },
        { reason: "FOREIGN_USE", count: 3 },
      ],
    },
    7,
  ],
  ["no cordoned nodes", { ...SCALED, unusable: 1, unusableByReason: [{ reason: "CORDONED", count: 1 }] }, 2],
  ["the nodes of a pool that may not grow", { ...SCALED, elasticMax: 0 }, 2],
  ["nothing of an unscaled pool", { ...SCALED, elasticMax: 0, elasticAtMs: 0 }, undefined],
])("counts %s", (_title, pool, most) => {
  expect(listPoolMaxima([Pool.create(pool)]).get("a")).toBe(most);
});
