import { expect, it } from "vitest";
import { buildPolicy } from "../../test/build-node.ts";
import { buildPoolTroubles, type TroubleFacts } from "./build-pool-troubles.ts";

const NOW = 1_000_000;

const nothing: TroubleFacts = {
  policies: new Map([buildPolicy(), buildPolicy({ name: "b", provider: "other" })].map((one) => [one.name, one])),
  unavailable: [],
  backoffs: new Map(),
  silences: new Map(),
  invalidPools: new Map(),
  bootFailures: [],
  nowMs: NOW,
};

const shortage = {
  ...{ provider: "cloud", instanceType: "small", spot: false, zone: "z1", subnet: undefined },
  ...{ message: "none left", sinceMs: NOW - 40_000, untilMs: NOW + 560_000 },
};

it("finds no trouble in a healthy pool", () => {
  expect(buildPoolTroubles(nothing)).toEqual([]);
});

it("reports to each pool which of its types are short, and when they are retried", () => {
  const unavailable = [
    shortage,
    { ...shortage, instanceType: "huge" },
    { ...shortage, spot: true },
    { ...shortage, untilMs: NOW },
    { ...shortage, provider: "other" },
  ];
  const found = buildPoolTroubles({ ...nothing, unavailable });
  expect(found.map(({ pool }) => pool)).toEqual(["a", "b"]);
  expect(found[0]).toEqual({
    ...{ pool: "a", code: "NO_CAPACITY", provider: "cloud", instanceType: "small", spot: false, zone: "z1", boots: 0 },
    ...{ message: "none left", sinceMs: NOW - 40_000, nextTryAtMs: NOW + 560_000 },
  });
  const policies = new Map([["a", buildPolicy({ spot: "Preferred" })]]);
  expect(buildPoolTroubles({ ...nothing, policies, unavailable })).toHaveLength(2);
});

it("reports shortages of standby nodes of another kind than those for work", () => {
  const standby = [{ instanceType: "small", count: 1, spot: true }];
  const policies = new Map([["a", buildPolicy({ spot: "Never", standby })]]);
  const unavailable = [{ ...shortage, spot: true }];
  expect(buildPoolTroubles({ ...nothing, policies, unavailable })).toMatchObject([
    { pool: "a", code: "NO_CAPACITY", instanceType: "small", spot: true },
  ]);
});

const asked = { provider: "cloud", instanceType: "small", spot: false, zone: undefined };

it("reports a failing provider to each of its pools until shortly after its pause", () => {
  const backoff = { asked, failures: 2, sinceMs: NOW - 90_000, untilMs: NOW + 20_000, message: "refused" };
  const withBackoff = (untilMs: number) =>
    buildPoolTroubles({ ...nothing, backoffs: new Map([["", { ...backoff, untilMs }]]) });
  expect(withBackoff(NOW + 20_000)).toMatchObject([
    { pool: "a", code: "PROVIDER_FAILED", message: "refused", sinceMs: NOW - 90_000, nextTryAtMs: NOW + 20_000 },
  ]);
  expect(withBackoff(NOW - 1000)).toMatchObject([{ nextTryAtMs: undefined }]);
  expect(withBackoff(NOW - 600_000)).toEqual([]);
});

it("reports a silent provider once, even if boots fail because of it", () => {
  const silences = new Map([["cloud", { sinceMs: NOW - 5000, message: "cloud is not available" }]]);
  const backoffs = new Map([
    ["", { asked, failures: 1, sinceMs: NOW - 1000, untilMs: NOW + 9000, message: "refused" }],
  ]);
  expect(buildPoolTroubles({ ...nothing, silences, backoffs })).toMatchObject([
    { code: "PROVIDER_FAILED", message: "cloud is not available", sinceMs: NOW - 5000, nextTryAtMs: NOW + 9000 },
  ]);
});

it("reports a pool that its provider cannot create, and no other", () => {
  const invalidPools = new Map([["b", { sinceMs: NOW - 5000, message: "no such type" }]]);
  expect(buildPoolTroubles({ ...nothing, invalidPools })).toEqual([
    {
      ...{ pool: "b", code: "POOL_WRONG", provider: "other", instanceType: undefined, spot: false, zone: undefined },
      ...{ message: "no such type", sinceMs: NOW - 5000, nextTryAtMs: undefined, boots: 0 },
    },
  ]);
});

it("reports failed boots, the oldest trouble of a pool first", () => {
  const failure = {
    pool: "a",
    provider: "cloud",
    instanceType: "small",
    spot: false,
    boots: 3,
    latestMs: NOW,
    pauses: 2,
    untilMs: NOW + 9000,
  };
  const bootFailures = [
    { ...failure, code: "BOOT_TIMEOUT", message: "has not joined", sinceMs: NOW - 900_000 },
  ] as const;
  const found = buildPoolTroubles({ ...nothing, bootFailures, unavailable: [shortage] });
  expect(found).toMatchObject([
    { pool: "a", code: "BOOT_TIMEOUT", instanceType: "small", boots: 3, nextTryAtMs: NOW + 9000 },
    { code: "NO_CAPACITY" },
  ]);
});
