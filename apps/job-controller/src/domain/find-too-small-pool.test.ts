import { expect, it } from "vitest";
import { makeReplica, makeSpec } from "../../test/samples.ts";
import { findTooSmallPool } from "./find-too-small-pool.ts";
import type { ReplicaSpec } from "./job.ts";

const shared = { cpu: 100 };

it.each<[string, readonly ReplicaSpec[], number | undefined]>([
  ["each member that needs a machine of its own", [makeReplica("worker", 3)], 3],
  [
    "an elastic type by its minimum",
    [makeReplica("worker", 9, { elastic: { minReplicas: 2, maxReplicas: 9 } })],
    undefined,
  ],
  [
    "all members that share as one machine, because only the ledger knows how many fit",
    [makeReplica("w", 9, { shared })],
    undefined,
  ],
  [
    "one more machine for those that share than for the others",
    [makeReplica("ps", 9, { shared }), makeReplica("w", 2)],
    3,
  ],
  ["no machine for a shared type without members", [makeReplica("ps", 0, { shared }), makeReplica("w", 2)], undefined],
  ["each pool by itself", [makeReplica("ps", 2, { pool: "other" }), makeReplica("w", 2)], undefined],
])("counts %s", (_title, replicas, requested) => {
  const fault = findTooSmallPool(makeSpec({ replicas }), new Map([["pool-a", 2]]));
  expect(fault).toEqual(requested && { code: "pool_capacity", pool: "pool-a", requested, capacity: 2 });
});
