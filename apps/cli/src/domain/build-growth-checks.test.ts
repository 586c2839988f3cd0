import { expect, it } from "vitest";
import { buildGrowthChecks } from "./build-growth-checks.ts";
import type { PoolScaling, PoolTrouble } from "../adapters/node-messages.ts";

const NO_ROOM = {
  ...{ shared: 0, allocatable: {}, free: {}, foreign: undefined },
  ...{ overcommitted: 0, overcommittedNodes: [] },
};

const NOW = 10_000_000;

const pool = (name: string, elasticMax: number, elasticAtMs = NOW) => ({
  ...{ name, elasticMax, elasticAtMs, available: 0, capacity: 0, held: 0 },
  ...{ unusable: 0, unusableByReason: [], ...NO_ROOM, waiting: 0 },
});

const shortage: PoolTrouble = {
  ...{ pool: "elastic", code: "NO_CAPACITY", provider: "aws", instanceType: "large", spot: false, zone: "zone-a" },
  ...{ message: "out of\ncapacity", sinceMs: NOW - 125_000, nextTryAtMs: NOW + 475_000, boots: 0 },
};

function check(troubles: readonly PoolTrouble[], pools: readonly PoolScaling[] = []) {
  const seen = { pools: { value: [pool("fixed", 0), pool("elastic", 8)] }, scaler: { value: { pools, troubles } } };
  return buildGrowthChecks(seen, NOW);
}

it("passes without a problem, and omits pools that do not grow", () => {
  expect(check([])).toEqual([
    {
      check: "nodes of elastic",
      status: "ok",
      detail: "nothing prevents the node scaler from creating them",
      next: "",
    },
  ]);
});

it("reports work that waits for a full pool, without a failure", () => {
  const message = "job/a: 1 node needed: pool elastic has 8 nodes of 8 at most";
  const full = { pool: "elastic", max: 8, standby: 0, booting: [], blocked: { code: "MAX_POOL", message } };
  expect(check([], [full])).toEqual([{ check: "nodes of elastic", status: "ok", detail: message, next: "" }]);
});

it.each([
  [
    "a shortage",
    shortage,
    "no large on demand in zone zone-a available for 2m05s (out of capacity), retried in 7m55s",
    "wait, or give pool elastic another instance type or zone in the file of pools",
  ],
  [
    "boots that the provider aborts",
    { ...shortage, code: "BOOT_FAILED", zone: "", message: "no disk", nextTryAtMs: undefined, boots: 3 },
    "3 boots of large on demand in a row failed to become nodes, since 2m05s ago: BOOT_FAILED (no disk)",
    "the text in brackets comes from provider aws; if it does not help, inspect an instance of type large in its console",
  ],
  [
    "boots that take too long",
    { ...shortage, code: "BOOT_TIMEOUT", zone: "", message: "has not joined", nextTryAtMs: undefined, boots: 3 },
    "3 boots of large on demand in a row failed to become nodes, since 2m05s ago: BOOT_TIMEOUT (has not joined)",
    "find out from the console of an instance of type large why it does not join",
  ],
  [
    "unusable nodes",
    { ...shortage, code: "UNHEALTHY", zone: "", message: "is ready and CORDONED", nextTryAtMs: undefined, boots: 3 },
    "3 boots of large on demand in a row became unusable nodes, since 2m05s ago: UNHEALTHY (is ready and CORDONED)",
    "check for taints, for the label of pool elastic",
  ],
  [
    "a provider that fails",
    { ...shortage, code: "PROVIDER_FAILED", instanceType: "", zone: "", message: "refused", nextTryAtMs: undefined },
    "provider aws fails for 2m05s (refused), retried with the next node that is needed",
    "check that the node scaler reaches provider aws",
  ],
  [
    "a pool that its provider cannot create",
    { ...shortage, code: "POOL_WRONG", instanceType: "", zone: "", message: "no such type", nextTryAtMs: undefined },
    "provider aws cannot create the nodes of this pool for 2m05s (no such type); checked again until it can",
    "correct the problem in brackets: in pool elastic of the file of pools",
  ],
  [
    "a trouble of a newer scaler",
    { ...shortage, code: "ECLIPSE", message: "" },
    "ECLIPSE of large on demand in zone zone-a for 2m05s, retried in 7m55s",
    "`muster nodes dump` shows",
  ],
])("warns of %s with pool, type, reason, start and next step", (_what, trouble, detail, next) => {
  expect(check([trouble])).toEqual([
    { check: "nodes of elastic", status: "warning", detail, next: expect.stringContaining(next) as unknown },
  ]);
});

it("shows the first of many troubles, and the number of the others", () => {
  const many = ["a", "b", "c", "d", "e"].map((zone) => ({ ...shortage, zone }));
  expect(check(many)[0]?.detail).toMatch(/zone a .*; no large.*zone c .*; and 2 more$/);
});

it("warns of the cause that blocks a pool without a recorded trouble, and not of work beyond its maximum", () => {
  const scaling = { pool: "elastic", max: 8, standby: 0, booting: [] };
  const blocked = (code: string) => check([], [{ ...scaling, blocked: { code, message: "no boot image" } }])[0];
  expect(blocked("UNAVAILABLE")).toMatchObject({ status: "warning", detail: "no boot image" });
  expect(blocked("TOO_LARGE")).toMatchObject({
    status: "warning",
    next: expect.stringContaining("request less") as unknown,
  });
  expect(blocked("MAX_POOL")).toMatchObject({ status: "ok" });
});

it("warns of a scaler that has been silent for long, and leaves a running one to the check of services", () => {
  const withScaler = (heardMs: number) =>
    buildGrowthChecks({ pools: { value: [pool("elastic", 8, heardMs)] }, scaler: { trouble: "no answer" } }, NOW);
  expect(withScaler(NOW - 10_000)).toEqual([]);
  expect(withScaler(NOW - 300_000)).toMatchObject([
    { status: "warning", detail: expect.stringContaining("last reported 5m00s ago") as unknown },
  ]);
});
