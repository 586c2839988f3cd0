import { expect, it } from "vitest";
import { buildPoolTable, buildReservationTable, type ShownPool } from "./build-views.ts";

const GI = 2 ** 30;
const pool: ShownPool = {
  ...{ name: "workers", available: 2, capacity: 12, held: 10, unusable: 1, waiting: 3, elasticMax: 0 },
  ...{
    shared: 4,
    foreign: undefined,
    scaling: undefined,
    elasticAtMs: undefined,
    overcommitted: 0,
    overcommittedNodes: [],
  },
  unusableByReason: [{ reason: "FOREIGN_USE", count: 1 }],
  allocatable: { cpu: 52_000, memory: 201.3 * GI, pods: 1430 },
  free: { cpu: 9500, memory: 35 * GI, pods: 1300 },
};
const gpu = { ...pool, name: "gpu", shared: 0, allocatable: { cpu: 8000, "nvidia.com/gpu": 8 }, free: {} };

it("shows shared machines, and what is free of the pool", () => {
  expect(buildPoolTable([pool], 0, { columns: 100, colours: false })).toEqual([
    "POOL     AVAILABLE  CAPACITY  HELD  SHARED  UNUSABLE  WAITING  FREE CPU  FREE MEMORY  WHY UNUSABLE",
    "workers  2          12        10    4       1         3        9500m/52  35Gi/201Gi   1 FOREIGN_USE",
  ]);
});

it.each([
  [undefined, "3 CORDONED, 1 OCCUPIED"],
  [0, "3 CORDONED, 1 OCCUPIED"],
  [1, "2 CORDONED, 1 TAINTED, 1 OCCUPIED"],
  [3, "3 TAINTED, 1 OCCUPIED"],
  [4, "3 TAINTED, 1 OCCUPIED"],
])("counts %s machines that are tainted and not cordoned", (tainted, why) => {
  const unusableByReason = [
    { reason: "CORDONED", count: 3 },
    { reason: "OCCUPIED", count: 1 },
  ];
  const [, row] = buildPoolTable([{ ...pool, unusableByReason, tainted }], 0, { columns: 120, colours: false });
  expect(row?.endsWith(`  ${why}`)).toBe(true);
});

it.each([80, 100, 120])("keeps free amounts within %d columns", (columns) => {
  const lines = buildPoolTable([pool, gpu], 0, { columns, colours: false });
  expect(lines.every((line) => line.length <= columns)).toBe(true);
  expect(lines[0]).toMatch(/SHARED .*FREE CPU {2}FREE MEMORY {2}FREE GPU/);
});

it("omits the columns of parts and free amounts if nothing is shared and sizes are unknown", () => {
  const [header] = buildPoolTable([{ ...pool, shared: 0, allocatable: {}, free: {} }], 0, {
    columns: 100,
    colours: false,
  });
  expect(header).toBe("POOL     AVAILABLE  CAPACITY  HELD  UNUSABLE  WAITING  WHY UNUSABLE");
});

it("shows the queues of reservations only if one has a queue", () => {
  const reservation = {
    ...{ id: "r-1", ownerKind: "job", ownerId: "train-1", state: "granted" as const, needs: [], machines: [] },
    ...{ priority: 0, createdAtMs: 0, grantedAtMs: 0, because: undefined },
  };
  const header = (columns: number, ...queues: readonly (string | undefined)[]): string | undefined => {
    const all = queues.map((queue) => (queue === undefined ? reservation : { ...reservation, queue }));
    return buildReservationTable(all, 0, { columns, colours: false })[0];
  };
  expect(header(100, undefined, "team-a")).toMatch(/^ID +OWNER +QUEUE +STATE/);
  expect(header(100, undefined)).toMatch(/^ID +OWNER +STATE/);
});
