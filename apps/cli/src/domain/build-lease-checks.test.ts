import { expect, it } from "vitest";
import { makeLease } from "../../test/a-lease.ts";
import { buildLeaseChecks, type SeenEngine } from "./build-lease-checks.ts";
import type { EngineLoad } from "../adapters/lease-messages.ts";

const NOW_MS = 1_700_003_600_123;
const some = [{ id: "4711-2", type: "container", phase: "ACTIVE", expiresAtNs: 1_700_007_200_123_000_000n }];
const usedBy = { count: 2, some };

it("counts leases against their limits, and warns of those that cannot be decommissioned", () => {
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
    ending: [makeLease(), makeLease({ waitingBecause: "away for a moment" })],
    unlisted: "",
    cleanup: { value: cleanup },
  };
  const checksOf = (...value: SeenEngine[]) => buildLeaseChecks({ value }, NOW_MS);
  expect(checksOf(seen)).toMatchObject([
    { status: "ok", detail: "engine main: 3 active, 1 not active yet, 1.5 of 4 GiB memory" },
  ]);
  const unset = { waitingBecause: "Queues exist, and PROVISION_QUEUE of the provision-engine names none" };
  expect(checksOf({ ...seen, waiting: [{ waitingBecause: "" }, unset, unset] })).toMatchObject([
    { status: "ok" },
    {
      check: "queue of leases",
      status: "warning",
      detail: `engine main: 2 leases without a queue: ${unset.waitingBecause}`,
    },
  ]);
  const waits = checksOf({ ...seen, ending: Array.from({ length: 5 }, () => makeLease({ usedBy })) });
  expect(waits).toMatchObject([
    {
      status: "ok",
      detail: expect.stringMatching(
        /(; debug 4711-1 ends after container 4711-2 \(ends in 1h00m\), 1 more){3}; 2 more wait for others to end$/,
      ) as string,
    },
  ]);
  const ending = Array.from({ length: 5 }, () => makeLease({ waitingBecause: "away", isStuck: true }));
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
    detail: "it has not begun: what was ordered is not completely known",
  });
  const overdue = checksOf({ ...seen, load: { value: { ...load, overdue: 2 } } });
  expect(overdue[1]).toMatchObject({
    status: "warning",
    detail: "engine main: 2 leases still exist minutes after their end",
  });
  const restored = checksOf({ ...seen, load: { value: { ...load, unopened: 1 } } });
  expect(restored[1]).toMatchObject({
    status: "warning",
    detail: "engine main: secrets of 1 lease, or more, cannot be decrypted with its present key",
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
