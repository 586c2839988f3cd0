import { expect, it } from "vitest";
import { aLease } from "../../test/a-lease.ts";
import { buildLeaseChecks, type EngineLoad, type SeenEngine } from "./build-lease-checks.ts";
import { explainLease } from "./explain-lease.ts";
import { decideLeaseCondition, LEASE_PHASES, type Lease } from "./lease.ts";

const NOW_MS = 1_700_003_600_123;
const ending = { cause: "CRASHED", message: "4 exits", atNs: 1n };
const some = [{ id: "4711-2", type: "container", phase: "ACTIVE", expiresAtNs: 1_700_007_200_123_000_000n }];
const usedBy = { count: 2, some };
const error = {
  id: "4711-1",
  type: "debug",
  createdNs: 1n,
  state: "error" as const,
  message: "no space",
  data: "null",
  signature: new Uint8Array(),
};

it.each<[what: string, lease: Partial<Lease>, code: string, message: RegExp]>([
  ["was just ordered", { phase: "ORDERED" }, "ORDERED", /begun next/],
  ["waits for another one", { phase: "ORDERED", waitingBecause: "waits for network home" }, "WAITING", /network home/],
  ["is tried again", { phase: "PROVISIONING", waitingBecause: "no image" }, "NOT_YET", /tried again: no image/],
  ["is there", {}, "ACTIVE", /it ends in 60m|it ends in 1h/],
  [
    "is there, with a node that died",
    { waitingBecause: "node n-0" },
    "TROUBLED",
    /a part of it is in trouble: node n-0/,
  ],
  ["crashed", { phase: "DECOMMISSIONING", ending }, "CRASHED", /taken down: CRASHED: 4 exits/],
  [
    "was not taken down at once",
    { phase: "DECOMMISSIONING", ending, waitingBecause: "away" },
    "CRASHED",
    /^it is taken down, and that is tried again: CRASHED: 4 exits; away$/,
  ],
  [
    "cannot be taken down",
    { phase: "DECOMMISSIONING", ending, waitingBecause: "away", isStuck: true },
    "NOT_TAKEN_DOWN",
    /4 exits; away/,
  ],
  [
    "ends after others",
    { phase: "DECOMMISSIONING", ending, waitingBecause: "it is in use by 4711-2", usedBy },
    "IN_USE",
    /^it ends \(CRASHED: 4 exits\), and stays until what uses it is gone: container 4711-2 \(ends in 1h00m\), 1 more$/,
  ],
  ["is over", { phase: "ENDED", ending, result: error }, "CRASHED", /^all of it is taken down: CRASHED/],
  ["is over and was never there", { phase: "ENDED", ending }, "CRASHED", /^it never became ACTIVE, /],
  ["failed", { phase: "FAILED", result: error }, "FAILED", /^no space$/],
  ["is in a phase of a later version", { phase: "UNKNOWN" }, "UNKNOWN", /does not know the phase/],
])("explains a lease that %s", (_what, lease, code, message) => {
  const explained = explainLease(aLease(lease), undefined, NOW_MS);
  expect(explained.code).toBe(code);
  expect(explained.message).toMatch(message);
});

it("waits for any phase, in any letters, and no longer than it can come", () => {
  const goal = (type: string, is = true) => ({ kind: "condition" as const, type, isTrue: is });
  expect(decideLeaseCondition({ phase: "ACTIVE" }, goal("active"))).toBe("met");
  expect(decideLeaseCondition({ phase: "ACTIVE" }, goal("ACTIVE", false))).toBe("open");
  expect(decideLeaseCondition({ phase: "FAILED" }, goal("ACTIVE"))).toBe("never");
  expect(decideLeaseCondition({ phase: "ACTIVE" }, goal("PROVISIONING"))).toBe("never");
  expect(decideLeaseCondition({ phase: "PROVISIONING" }, goal("ACTIVE"))).toBe("open");
  expect(decideLeaseCondition({ phase: "DECOMMISSIONING" }, goal("ENDED"))).toBe("open");
  const gone = LEASE_PHASES.filter((phase) => decideLeaseCondition({ phase }, { kind: "delete" }) === "met");
  expect(gone).toEqual(["ENDED", "FAILED"]);
});

it("counts leases for the doctor, against what is limited, and warns of those that cannot be taken down", () => {
  const schedule = { mode: "", nextScanMs: undefined };
  const cleanup = { heldBecause: "", waitsFor: "", schedule };
  const load: EngineLoad = {
    engine: "main",
    active: 3,
    overdue: 0,
    unopened: 0,
    used: { cru: 2, mruBytes: 1.5 * 1024 ** 3, sruBytes: 0, hruBytes: 0 },
    capacity: { mruBytes: 4 * 1024 ** 3 },
  };
  const seen: SeenEngine = {
    engine: "main",
    load: { value: load },
    waiting: [{ waitingBecause: "" }],
    ending: [aLease(), aLease({ waitingBecause: "away for a moment" })],
    unlisted: "",
    cleanup: { value: cleanup },
  };
  const checksOf = (...value: SeenEngine[]) => buildLeaseChecks({ value }, NOW_MS);
  expect(checksOf(seen)).toMatchObject([
    { status: "ok", detail: "engine main: 3 active, 1 not active yet, 1.5 of 4 GiB memory" },
  ]);
  const waits = checksOf({ ...seen, ending: Array.from({ length: 5 }, () => aLease({ usedBy })) });
  expect(waits).toMatchObject([
    {
      status: "ok",
      detail: expect.stringMatching(
        /(; debug 4711-1 ends after container 4711-2 \(ends in 1h00m\), 1 more){3}; 2 more wait for others to end$/,
      ) as string,
    },
  ]);
  const ending = Array.from({ length: 5 }, () => aLease({ waitingBecause: "away", isStuck: true }));
  const [check] = checksOf({ ...seen, ending });
  expect(check?.status).toBe("warning");
  expect(check?.detail).toMatch(/5 leases cannot be taken down: (4711-1: away; ){3}and 2 more$/);
  const held = checksOf({ ...seen, cleanup: { value: { ...cleanup, heldBecause: "no record of any lease" } } });
  expect(held.map(({ status }) => status)).toEqual(["ok", "warning"]);
  expect(held[1]).toMatchObject({ detail: "no record of any lease" });
  expect(held[1]?.next).toContain("muster lease cleanup --dry-run");
  const own = checksOf({
    ...seen,
    cleanup: { value: { ...cleanup, schedule: { mode: "off", nextScanMs: undefined } } },
  });
  expect(own[1]).toMatchObject({ status: "ok", detail: expect.stringMatching(/^off /) as string });
  const waitsForOrders = checksOf({ ...seen, cleanup: { value: { ...cleanup, waitsFor: "what was ordered" } } });
  expect(waitsForOrders[1]).toMatchObject({
    status: "warning",
    detail: "it has not begun: what was ordered is not all known",
  });
  const overdue = checksOf({ ...seen, load: { value: { ...load, overdue: 2 } } });
  expect(overdue[1]).toMatchObject({
    status: "warning",
    detail: "engine main: 2 leases still there, and over minutes ago",
  });
  const restored = checksOf({ ...seen, load: { value: { ...load, unopened: 1 } } });
  expect(restored[1]).toMatchObject({
    status: "warning",
    detail: "engine main: secrets of 1 lease, or more, cannot be opened with the key that it has",
  });
  const [unlisted] = checksOf({ ...seen, ending: [], unlisted: "too large" });
  expect(unlisted).toMatchObject({
    status: "warning",
    detail: expect.stringContaining("cannot be listed: too large") as string,
  });
  expect(buildLeaseChecks({ trouble: "no engine" }, NOW_MS)).toEqual([]);
  const silent = { ...seen, engine: "west", load: { trouble: "no answer" }, cleanup: { trouble: "no leader" } };
  expect(checksOf({ ...seen, ending: [] }, silent)).toMatchObject([
    { check: "leases (main)", status: "ok" },
    { check: "leases (west)", status: "warning", detail: "engine west: no answer" },
  ]);
});
