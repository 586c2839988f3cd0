import { expect, it } from "vitest";
import { decideRoom } from "./decide-room.ts";

it.each([
  ["below nine tenths", { bytes: 800, bytesMax: 1000 }, 50, 50, { kind: "room" }],
  ["beyond them", { bytes: 800, bytesMax: 1000 }, 50, 51, { kind: "none", limit: 900 }],
  ["beyond them with what is promised", { bytes: 800, bytesMax: 1000 }, 101, 0, { kind: "none", limit: 900 }],
  ["without a limit", { bytes: 1e12, bytesMax: undefined }, 1, 1, { kind: "room" }],
] as const)("%s", (_title, fill, promised, wanted, verdict) => {
  expect(decideRoom(fill, promised, wanted)).toEqual(verdict);
});
