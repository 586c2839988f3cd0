import { findFault } from "@muster/faults";
import { expect, it } from "vitest";
import { recordCodec } from "../src/adapters/messages.ts";
import { openLeases, MAX_RECORD_BYTES } from "../src/adapters/records.ts";
import type { LeaseRecord } from "../src/domain/lease.ts";
import {
  makeUser,
  openEngineWorld,
  listHistory,
  NS_PER_MS,
  nowNs,
  sendOrder,
  waitForPhase,
  waitUntilReady,
  signOrder,
  signRenewal,
} from "./engine-world.ts";

const TEST_MS = 300_000;

it(
  "ends a lease with a record of the maximum size, and refuses requests that would exceed it",
  async () => {
    await using world = await openEngineWorld();
    const user = makeUser();
    await world.startEngine();
    await waitUntilReady(world);
    await sendOrder(world, signOrder(user, { id: "1-1" }));
    await waitForPhase(world, "1-1", "ACTIVE");
    await listHistory(world, "1-1");
    const renewal = signRenewal(user, "1-1", nowNs() + 7_200_000n * NS_PER_MS, 1);
    const fault = await world.leases.renewLease({ requestId: "x".repeat(129), renewal }).catch(findFault);
    expect(fault).toMatchObject({ code: "invalid_request", field: "request_id" });

    const bucket = await openLeases(world.bus.connection);
    const entry = await bucket.get("1-1");
    if (entry === undefined || !("record" in entry.value)) return expect.fail("there is no record");
    const over = { ...entry.value.record, expiresAtNs: nowNs() };
    await bucket.update("1-1", grown(over), entry.revision);
    await waitForPhase(world, "1-1", "ENDED");
    expect((await listHistory(world, "1-1")).slice(-2)).toEqual(["ENDING", "DECOMMISSIONED"]);
  },
  TEST_MS,
);

/** Exactly at the maximum size of a record. */
function grown(record: LeaseRecord): LeaseRecord {
  const roughly = { ...record, requestId: "x".repeat(MAX_RECORD_BYTES - 10_000) };
  const missing = MAX_RECORD_BYTES - recordCodec.encode(roughly).length;
  return { ...roughly, requestId: roughly.requestId + "x".repeat(missing) };
}
