import { readFileSync } from "node:fs";
import { expect, it } from "vitest";
import { findKubernetesSize, LEASE_DATA, readData, type LeaseType } from "./data.ts";
import { KUBERNETES_SIZES } from "./kubernetes-sizes.ts";
import { MAX_SEALED_CHARACTERS, SEALED_PREFIX, MAX_SECRET_CHARACTERS } from "./secret-fields.ts";

const PAGE = readFileSync(new URL("../../../docs/lease-types.md", import.meta.url), "utf8");

function problemsOf(type: LeaseType, data: unknown) {
  const read = readData(type, JSON.stringify(data));
  return read.ok ? [] : read.problems;
}

it("reports every problem with its path, and the known fields for an unknown one", () => {
  const data = { image: "i", capacity: { cpu: 0, memorry: 2048 }, mounts: [{ volume: "1-2", mountpoint: "data" }] };
  expect(problemsOf("container", data)).toEqual([
    { path: ["mounts", 0, "volume_id"], reason: "is missing" },
    { path: ["mounts", 0, "mountpoint"], reason: "an absolute path without ':' is needed" },
    { path: ["mounts", 0, "volume"], reason: "there is no such field", known: ["volume_id", "mountpoint"] },
    { path: ["capacity", "cpu"], reason: "at least 1 is needed" },
    { path: ["capacity", "memory"], reason: "is missing" },
    {
      path: ["capacity", "memorry"],
      reason: "there is no such field",
      known: ["cpu", "memory", "disk_type", "disk_size"],
    },
  ]);
});

it("refuses a repeated port of a network or a container", () => {
  const twice = [{ path: [expect.any(String), 2], reason: "80 is there twice" }];
  expect(problemsOf("network", { name: "n", open_ports: [80, 443, 80] })).toEqual(twice);
  expect(problemsOf("container", { ...container({}), ports: [80, 443, 80] })).toEqual(twice);
});

it("allows a sealed secret to be longer than a plain one", () => {
  const zdb = { size: 1, mode: "user", disk_type: "ssd" };
  const sealed = SEALED_PREFIX.padEnd(MAX_SEALED_CHARACTERS, "x");
  expect(problemsOf("zdb", { ...zdb, password: sealed })).toEqual([]);
  expect(problemsOf("zdb", { ...zdb, password: `${sealed}x` })).toHaveLength(1);
  expect(problemsOf("zdb", { ...zdb, password: "x".repeat(MAX_SECRET_CHARACTERS) })).toEqual([]);
  expect(problemsOf("zdb", { ...zdb, password: "x".repeat(MAX_SECRET_CHARACTERS + 1) })).toHaveLength(1);
});

it("has the sizes of kubernetes and the types that docs/lease-types.md shows", () => {
  const rows = [...PAGE.matchAll(/^\| +(\d+) \| +(\d+) \| +(\d+) \| +(\d+) \|$/gm)].map((row) =>
    row.slice(1).map(Number),
  );
  const sizes = Array.from({ length: KUBERNETES_SIZES }, (_, index) => {
    const { processors, memoryGib, ssdGib } = findKubernetesSize(index + 1);
    return [index + 1, processors, memoryGib, ssdGib];
  });
  expect(rows).toEqual(sizes);
  expect(() => findKubernetesSize(KUBERNETES_SIZES + 1)).toThrow(RangeError);
  const shown = [...PAGE.matchAll(/^## (.*)$/gm)].flatMap(([, title = ""]) => title.split(", "));
  expect(shown).toEqual(Object.keys(LEASE_DATA));
});

const container = (changes: object) => ({ image: "i", capacity: { cpu: 1, memory: 1024, ...changes } });

it.each<[string, LeaseType, (amount: number) => unknown]>([
  ["`size` of a volume or zdb", "volume", (size) => ({ size, type: "ssd" })],
  ["`size` of a volume or zdb", "zdb", (size) => ({ size, mode: "user", disk_type: "ssd" })],
  ["`capacity.cpu`", "container", (cpu) => container({ cpu })],
  ["`capacity.memory`", "container", (memory) => container({ memory })],
  ["`capacity.disk_size`", "container", (disk_size) => container({ disk_size })],
  ["`machines`", "machine", (machines) => ({ pool: "a", machines })],
  ["`size` of kubernetes", "kubernetes", (size) => ({ size })],
  ["`image`", "container", (length) => ({ ...container({}), image: "i".repeat(length) })],
  ["`name` of a network", "network", (length) => ({ name: "n".repeat(length) })],
])("takes of %s the fields of docs/lease-types.md for %s, and no more", (field, type, dataOf) => {
  const row = PAGE.split("\n").find((line) => line.startsWith(`| ${field} `)) ?? "";
  const [least = Number.NaN, most = Number.NaN] = row
    .split("|")
    .slice(2)
    .map((cell) => Number.parseInt(cell, 10));
  for (const amount of [least, most]) expect(problemsOf(type, dataOf(amount))).toEqual([]);
  for (const amount of [least - 1, most + 1].filter((each) => each >= 0))
    expect(problemsOf(type, dataOf(amount))).toHaveLength(1);
});
