import { expect, it } from "vitest";
import { makeLease } from "../../test/a-lease.ts";
import { arrangeLeases } from "./arrange-leases.ts";

const lease = (id: string, phase: string) =>
  makeLease({ order: { ...makeLease().order, id, createdNs: BigInt(id.replace("-", "")) }, phase });
const LEASES = [
  lease("1-1", "ENDED"),
  lease("1-5", "FAILED"),
  lease("1-2", "ACTIVE"),
  lease("1-4", "DECOMMISSIONING"),
  lease("1-3", "ENDED"),
];

it.each([
  { maxOver: 9, ids: ["1-4", "1-2", "1-5", "1-3", "1-1"], left: 0 },
  { maxOver: 3, ids: ["1-4", "1-2", "1-5", "1-3", "1-1"], left: 0 },
  { maxOver: 1, ids: ["1-4", "1-2", "1-5"], left: 2 },
  { maxOver: 0, ids: ["1-4", "1-2"], left: 3 },
])("shows unfinished leases from new to old, and $maxOver finished ones", ({ maxOver, ids, left }) => {
  const arranged = arrangeLeases(LEASES, maxOver);
  expect({ ...arranged, shown: arranged.shown.map(({ order }) => order.id) }).toEqual({ shown: ids, left });
});
