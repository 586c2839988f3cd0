import fc from "fast-check";
import { MAX_DATA_BYTES } from "@muster/leases/data";
import { describe, expect, it } from "vitest";
import { GIB, MIB, NO_UNITS, describeProblems } from "../domain/claim.ts";
import { readClaim, sortByRank, sumHeldUnits } from "./workload-types.ts";
import { makeLeaseRecord, DATA_BY_TYPE } from "../../test/a-lease.ts";
import type { LeaseRecord, LeasePhase } from "../domain/lease.ts";

const capacity = { cpu: 2, memory: 2048 };
const NO_NEEDS = { networks: [], volumes: [] };

describe("the resources of an order", () => {
  it.each([
    ["network", { name: "net" }, { units: NO_UNITS, network: "net", needs: NO_NEEDS }],
    ["volume", { size: 20, type: "ssd" }, { units: { ...NO_UNITS, sru: 20n * GIB }, needs: NO_NEEDS }],
    [
      "volume",
      { size: 1_048_576, type: "hdd", network: "net" },
      { units: { ...NO_UNITS, hru: 2n ** 50n }, needs: { networks: ["net"], volumes: [] } },
    ],
    ["zdb", { size: 3, mode: "seq", disk_type: "hdd" }, { units: { ...NO_UNITS, hru: 3n * GIB }, needs: NO_NEEDS }],
    [
      "container",
      { image: "i", capacity: { ...capacity, disk_size: 256 } },
      { units: { cru: 2n, mru: 2048n * MIB, hru: 0n, sru: 256n * MIB }, needs: NO_NEEDS },
    ],
    [
      "container",
      { image: "i", capacity },
      { units: { cru: 2n, mru: 2048n * MIB, hru: 0n, sru: GIB }, needs: NO_NEEDS },
    ],
    [
      "container",
      { image: "i", capacity: { ...capacity, disk_size: 0 } },
      { units: { cru: 2n, mru: 2048n * MIB, hru: 0n, sru: GIB }, needs: NO_NEEDS },
    ],
    [
      "container",
      {
        image: "i",
        network: "net",
        mounts: [{ volume_id: "1-2", mountpoint: "/data" }],
        capacity: { ...capacity, disk_type: "hdd", disk_size: 1 },
      },
      { units: { cru: 2n, mru: 2048n * MIB, hru: MIB, sru: 0n }, needs: { networks: ["net"], volumes: ["1-2"] } },
    ],
    ["kubernetes", { size: 18 }, { units: { cru: 1n, mru: GIB, hru: 0n, sru: 25n * GIB }, needs: NO_NEEDS }],
    ["machine", { pool: "a100", machines: 2 }, { units: NO_UNITS, needs: NO_NEEDS }],
    ["debug", [1, "x", null], { units: NO_UNITS, needs: NO_NEEDS }],
  ])("%s %o", (type, data, claim) => {
    expect(readClaim({ type, data: JSON.stringify(data) })).toEqual({
      ok: true,
      value: { network: undefined, ...claim },
    });
  });
});

const without = (field: string) => ({ image: "i", capacity: { ...capacity, [field]: undefined } });

it.each([
  ["volume", "{", "data is not JSON"],
  ["volume", `"${"x".repeat(MAX_DATA_BYTES)}"`, "data is larger than 65536 bytes"],
  ["volume", "null", "data an object is needed"],
  ["volume", "{}", "data.size is missing; data.type ssd or hdd is needed"],
  ["volume", '{"size":0,"type":"ssd"}', "data.size at least 1 GiB is needed"],
  ["volume", '{"size":1048577,"type":"ssd"}', "data.size at most 1048576 GiB is possible"],
  ["volume", '{"size":1.5,"type":"ssd"}', "data.size a whole number is needed"],
  ["volume", '{"size":"1","type":"ssd"}', "data.size a number is needed"],
  ["volume", '{"size":1,"type":"tape"}', "data.type ssd or hdd is needed"],
  ["volume", '{"size":1,"type":"ssd","class":"x"}', "data.class there is no such field"],
  ["network", '{"name":""}', "data.name must not be empty"],
  ["network", '{"name":"n","open_ports":[80,0]}', "data.open_ports.1 at least 1 is needed"],
  ["zdb", '{"size":1,"mode":"x","disk_type":"ssd"}', "data.mode user or seq is needed"],
  ["container", JSON.stringify({ capacity }), "data.image is missing"],
  ["container", JSON.stringify(without("cpu")), "data.capacity.cpu is missing"],
  [
    "container",
    JSON.stringify({ image: "i", capacity: { cpu: 0, memory: 1023 } }),
    "data.capacity.cpu at least 1 is needed; data.capacity.memory at least 1024 MiB is needed",
  ],
  [
    "container",
    JSON.stringify({ image: "i", capacity, mounts: [{ volume_id: "v", mountpoint: "data" }] }),
    "data.mounts.0.volume_id the id of a lease is needed: <number>-<number>; data.mounts.0.mountpoint an absolute path without ':' is needed",
  ],
  [
    "container",
    JSON.stringify({ image: "i", capacity, env: { "1a": "x" } }),
    "data.env.1a \"1a\" is not a name for an environment variable: letters, digits and '_', not beginning with a digit",
  ],
  ["kubernetes", '{"size":19}', "data.size only size 1 to 18"],
  ["kubernetes", '{"size":0}', "data.size only size 1 to 18"],
  ["machine", '{"pool":"-","machines":1}', expect.stringContaining('data.pool "-" is not a label value')],
  ["machine", '{"pool":"","machines":1}', "data.pool must not be empty"],
  ["machine", '{"pool":"p","machines":0}', "data.machines at least 1 is needed"],
  ["public_ip", "{}", "type of reservation not supported: public_ip"],
  ["toString", "{}", "type of reservation not supported: toString"],
])("refuses %s %s with the field and the reason", (type, data, expected) => {
  const claim = readClaim({ type, data });
  expect(claim.ok ? "nothing is wrong" : describeProblems(claim.problems)).toEqual(expected);
});

it("begins dependencies first, and keeps the order within a type", () => {
  const types = [
    "container 1",
    "x 1",
    "volume 1",
    "network 1",
    "container 2",
    "debug 1",
    "zdb 1",
    "kubernetes 1",
    "x 2",
  ];
  expect(sortByRank(types, (each) => each.split(" ")[0] ?? "")).toEqual([
    "debug 1",
    "network 1",
    "zdb 1",
    "volume 1",
    "container 1",
    "container 2",
    "kubernetes 1",
    "x 1",
    "x 2",
  ]);
});

const of = (type: string, changes: { phase?: LeasePhase; user?: string; data?: object } = {}): LeaseRecord =>
  makeLeaseRecord({
    phase: changes.phase ?? "ACTIVE",
    order: { type, user: changes.user ?? "u", data: JSON.stringify(changes.data ?? DATA_BY_TYPE[type]) },
  });

it("sums exactly the units of leases that are active, being created or being removed", () => {
  const phases: LeasePhase[] = ["ORDERED", "PROVISIONING", "ACTIVE", "DECOMMISSIONING", "ENDED", "FAILED"];
  const records = phases.map((phase) => of("container", { phase }));
  expect(sumHeldUnits(records, {})).toEqual({ cru: 3n, mru: 3n * GIB, hru: 0n, sru: 1536n * MIB });
  const largest = { size: 1_048_576, type: "ssd" };
  const many = Array.from({ length: 16 }, () => of("volume", { data: largest }));
  expect(sumHeldUnits([...many, of("volume")], {}).sru).toBe(2n ** 54n + GIB);
});

it("adds the configured overhead of its type to each lease, and to no other", () => {
  const overheads = { zdb: { cru: 1n, mru: GIB, hru: 0n, sru: 0n } };
  const records = [of("zdb"), of("zdb", { phase: "PROVISIONING" }), of("volume")];
  expect(sumHeldUnits(records, overheads)).toEqual({ cru: 2n, mru: 2n * GIB, hru: 4n * GIB, sru: GIB });
});

it("does not depend on the order of the records", () => {
  const records = fc.array(
    fc
      .constantFrom(...Object.keys(DATA_BY_TYPE))
      .chain((type) =>
        fc.constantFrom<LeasePhase>("ACTIVE", "PROVISIONING", "ENDED").map((phase) => of(type, { phase })),
      ),
  );
  fc.assert(
    fc.property(records, (each) => {
      const reversed = each.toReversed();
      expect(sumHeldUnits(reversed, {})).toEqual(sumHeldUnits(each, {}));
    }),
  );
});
