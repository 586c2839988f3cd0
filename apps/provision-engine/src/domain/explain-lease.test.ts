import type { SeenMachines } from "@muster/ledger-client/explanation";
import type { Result } from "@muster/leases";
import { expect, it } from "vitest";
import { makeLeaseRecord } from "../../test/a-lease.ts";
import { explainLease, getLeasePhase, type LeaseSeen } from "./explain-lease.ts";
import type { LeaseEnding, LeaseRecord } from "./lease.ts";

const NOW_MS = 1_700_003_600_123;
const EXPIRES_NS = 1_700_007_200_123_456_789n;
const ENDING: LeaseEnding = { cause: "CRASHED", message: "4 exits", atNs: 7_000_000n, request: undefined };
const ERROR: Result = {
  id: "4711-1",
  type: "debug",
  createdNs: 5_000_000n,
  state: "error",
  message: "failed to apply provision: no space",
  data: "null",
  signature: new Uint8Array(),
};
const USERS = {
  count: 2,
  some: [makeLeaseRecord({ order: { id: "4711-2", type: "container" }, expiresAtNs: EXPIRES_NS })],
};

type Changes = Omit<Partial<LeaseRecord>, "order"> & Partial<Omit<LeaseSeen, "record">>;

/** A lease that ends in an hour. */
function seen({ waitingBecause = "", isStuck = false, users = NO_USERS, ...changes }: Changes): LeaseSeen {
  return {
    record: makeLeaseRecord({ order: { id: "4711-1" }, expiresAtNs: EXPIRES_NS, ...changes }),
    waitingBecause,
    isStuck,
    users,
  };
}

const NO_USERS = { count: 0, some: [] };

it.each<[what: string, lease: Changes, code: string, message: RegExp]>([
  ["was just ordered", { phase: "ORDERED" }, "ORDERED", /begins next/],
  ["waits for another one", { phase: "ORDERED", waitingBecause: "waits for network home" }, "WAITING", /network home/],
  ["is being provisioned", { phase: "PROVISIONING" }, "PROVISIONING", /^it is being made$/],
  ["is retried", { phase: "PROVISIONING", waitingBecause: "no image" }, "NOT_YET", /retried: no image/],
  ["is there", {}, "ACTIVE", /it ends in 60m|it ends in 1h/],
  ["never ends", { expiresAtNs: 2n ** 63n - 1n }, "ACTIVE", /it ends never$/],
  ["is active, with a failed node", { waitingBecause: "node n-0" }, "TROUBLED", /a part of it is in trouble: node n-0/],
  ["crashed", { phase: "DECOMMISSIONING", ending: ENDING }, "CRASHED", /taken down: CRASHED: 4 exits/],
  [
    "is not removed at the first attempt",
    { phase: "DECOMMISSIONING", ending: ENDING, waitingBecause: "away" },
    "CRASHED",
    /^its resources are removed, and the removal is retried: CRASHED: 4 exits; away$/,
  ],
  [
    "cannot be removed",
    { phase: "DECOMMISSIONING", ending: ENDING, waitingBecause: "away", isStuck: true },
    "NOT_TAKEN_DOWN",
    /4 exits; away/,
  ],
  [
    "ends after others",
    { phase: "DECOMMISSIONING", ending: ENDING, waitingBecause: "it is in use by 4711-2", users: USERS },
    "IN_USE",
    /^it ends \(CRASHED: 4 exits\), and stays until the leases that use it have ended: container 4711-2 \(ends in 1h00m\), 1 more$/,
  ],
  ["is over", { phase: "ENDED", ending: ENDING, result: ERROR }, "CRASHED", /^all of it is taken down: CRASHED/],
  ["is over and was never active", { phase: "ENDED", ending: ENDING }, "CRASHED", /^it never became ACTIVE, /],
  ["failed", { phase: "FAILED", result: ERROR }, "FAILED", /^no space$/],
])("explains a lease that %s", (_what, lease, code, message) => {
  const explained = explainLease(seen(lease), undefined, NOW_MS);
  expect(explained.code).toBe(code);
  expect(explained.message).toMatch(message);
});

it("explains a lease that waits for machines by the ledger's reason", () => {
  const pools = [{ pool: "n", unusable: 1, elasticMax: 0, holders: [] }];
  const machines: SeenMachines = { code: "POOL_AVAILABILITY", message: "pool n has 0 of 1", components: [], pools };
  const waiting = seen({ phase: "PROVISIONING", waitingBecause: "it waits for machines" });
  expect(explainLease(waiting, machines, NOW_MS)).toEqual({
    code: "POOL_AVAILABILITY",
    message: "pool n has 0 of 1",
    next: "repair the 1 unusable node of pool n",
  });
  expect(explainLease(waiting, { ...machines, code: "" }, NOW_MS).code).toBe("NOT_YET");
});

it.each<[sinceMs: number, lease: Changes]>([
  [0, { phase: "PROVISIONING" }],
  [5, { phase: "ACTIVE", result: ERROR }],
  [7, { phase: "DECOMMISSIONING", ending: ENDING }],
  [9, { phase: "ENDED", ending: ENDING, endedAtNs: 9_000_000n }],
  [7, { phase: "FAILED", ending: ENDING }],
])("is in its phase since %i", (sinceMs, lease) => {
  const { record } = seen(lease);
  expect(getLeasePhase(record)).toEqual({ phase: record.phase, sinceMs });
});
