import { describeFault } from "@muster/faults";
import { expect, it } from "vitest";
import { recordCodec } from "../adapters/messages.ts";
import { makeLeaseRecord } from "../../test/a-lease.ts";
import {
  decideQuota,
  isAlive,
  countPromisedBytes,
  recordBytes,
  countRegainedBytes,
  buildStorable,
  decideRoom,
} from "./decide-quota.ts";
import type { LeasePhase, LeaseRecord } from "./lease.ts";
import { withEvent } from "./lease-change.ts";

const PHASES: readonly LeasePhase[] = ["ORDERED", "PROVISIONING", "ACTIVE", "DECOMMISSIONING", "ENDED", "FAILED"];
const POLICY = { maxLeases: 3, maxBytes: 1000 };

it.each([
  ["the last lease and the last byte", { leases: 2, bytes: 900 }, undefined],
  [
    "one lease too many",
    { leases: 3, bytes: 0 },
    "number of leases (PROVISION_USER_LEASES) of user u is over its limit of 3; try again in 60 s",
  ],
  [
    "one byte too many",
    { leases: 0, bytes: 901 },
    "size of 1001 bytes of records of leases (PROVISION_USER_BYTES) of user u is over its limit of 1000; try again in 60 s",
  ],
])("decides about %s", (_title, usage, text) => {
  const fault = decideQuota("u", { leases: 1, bytes: 100 }, usage, POLICY);
  expect(fault && describeFault(fault)).toBe(text);
});

it("gives no retry time for an order that exceeds the whole quota of its user", () => {
  const fault = decideQuota("u", { leases: 1, bytes: 1001 }, { leases: 0, bytes: 0 }, POLICY);
  expect(fault).toMatchObject({ code: "limit_exceeded", limit: 1000, retryAfterMs: 0 });
});

it("estimates the size of records by their texts, and not below their stored size", () => {
  const small = makeLeaseRecord();
  const large = makeLeaseRecord({ order: { data: "ü".repeat(30_000) }, trouble: "t".repeat(2000) });
  expect(recordBytes(large) - recordBytes(small)).toBeGreaterThanOrEqual(62_000 - small.order.data.length);
  for (const each of [small, large]) {
    const stored = recordCodec.encode(each).length;
    expect(recordBytes(each)).toBeGreaterThanOrEqual(stored);
    expect(recordBytes(each)).toBeLessThan(stored + 1000);
  }
});

it("counts leases that are not over, and reserves room for results that do not exist yet", () => {
  expect(PHASES.filter((phase) => isAlive({ phase }))).toEqual([
    "ORDERED",
    "PROVISIONING",
    "ACTIVE",
    "DECOMMISSIONING",
  ]);
  const promising = PHASES.filter(
    (phase) => countPromisedBytes(makeLeaseRecord({ phase, order: { data: "12345" } })) === 5,
  );
  expect(promising).toEqual(["ORDERED", "PROVISIONING"]);
});

it("counts the data that a repeated order restores", () => {
  const order = { data: "ü2345" };
  expect(countRegainedBytes(makeLeaseRecord({ order, phase: "FAILED" }), order)).toBe(0);
  expect(
    countRegainedBytes(makeLeaseRecord({ order: { data: "" }, phase: "FAILED", orderHash: new Uint8Array(32) }), order),
  ).toBe(6);
});

const bytesOf = ({ requestId, outbox }: LeaseRecord): number =>
  outbox.reduce((sum, { message }) => sum + message.length + 10, requestId.length);

const heavy = withEvent(makeLeaseRecord({ requestId: "r".repeat(500) }), "FAILED", "m".repeat(500), 1n);

it.each([
  ["the whole record if it fits", 1010, { requestId: heavy.requestId, outbox: heavy.outbox }],
  [
    "no request id and brief texts if there is less room",
    1009,
    { requestId: "", outbox: [{ eventType: "FAILED", message: "m".repeat(100) }] },
  ],
  ["no unpublished history if there is no room", 109, { requestId: "", outbox: [] }],
] as const)("stores %s", (_title, maxBytes, stored) => {
  const storable = buildStorable(heavy, bytesOf, maxBytes);
  expect(storable).toMatchObject(stored);
  expect({ ...storable, requestId: heavy.requestId, outbox: heavy.outbox }).toEqual(heavy);
});

it.each([
  ["below nine tenths", { bytes: 800, maxBytes: 1000 }, 50, 50, { kind: "room" }],
  ["beyond them", { bytes: 800, maxBytes: 1000 }, 50, 51, { kind: "none", limit: 900 }],
  ["beyond nine tenths with the promised bytes", { bytes: 800, maxBytes: 1000 }, 101, 0, { kind: "none", limit: 900 }],
  ["without a limit", { bytes: 1e12, maxBytes: undefined }, 1, 1, { kind: "room" }],
] as const)("%s", (_title, fill, promised, wanted, verdict) => {
  expect(decideRoom(fill, promised, wanted)).toEqual(verdict);
});
