import { connectNats, type NatsBus } from "@muster/bus";
import { buckets, streams } from "@muster/proto";
import { openBucket } from "@muster/store";
import { startTestNats, type TestNats } from "@muster/testkit";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { openHistory } from "../src/adapters/history.ts";
import {
  makeRecords,
  openLeases,
  MAX_OUTBOX_EVENTS,
  MAX_RECORD_BYTES,
  MAX_USER_RECORD_BYTES,
} from "../src/adapters/records.ts";
import type { LeaseRecords } from "../src/holdings/records.ts";
import { makeLeaseRecord } from "./a-lease.ts";
import type { LeaseEvent } from "../src/domain/lease.ts";
import { withEvent } from "../src/domain/lease-change.ts";

describe("records", () => {
  let nats: TestNats;
  let bus: NatsBus;
  let records: LeaseRecords;

  beforeAll(async () => {
    nats = await startTestNats();
    bus = await connectNats({ url: nats.url, token: nats.token, name: "test" });
    await bus.ensureStream(streams.audit);
    records = makeRecords(await openLeases(bus.connection));
  });

  afterAll(async () => {
    await bus[Symbol.asyncDispose]();
    await nats[Symbol.asyncDispose]();
  });

  it("an engine's write sets its fence, and one with an older fence is refused", async () => {
    const created = await records.create(makeLeaseRecord({ order: { id: "1-1" }, fence: 0 }));
    const written = await records.own(created, created.record, 7);
    expect(written.record.fence).toBe(7);
    await expect(records.own(written, written.record, 6)).rejects.toMatchObject({ fault: { code: "conflict" } });
    const users = await records.change(written, { ...written.record, requestId: "x" });
    expect(users.record).toMatchObject({ fence: 7, requestId: "x" });
    await expect(records.own(written, written.record, 8)).rejects.toMatchObject({ fault: { code: "conflict" } });
    await expect(records.create(created.record)).rejects.toMatchObject({ fault: { code: "already_exists" } });
  });

  it("a user changes nothing of a lease whose history waits for its stream, but the engine does", async () => {
    const created = await records.create(makeLeaseRecord({ order: { id: "1-2" } }));
    let full = created.record;
    for (let count = 0; count <= MAX_OUTBOX_EVENTS; count++) full = withEvent(full, "RESENT", "", 1n);
    const limit = { fault: { code: "limit_exceeded", limit: MAX_OUTBOX_EVENTS } };
    await expect(records.change(created, full)).rejects.toMatchObject(limit);
    const own = await records.own(created, full, 1);
    expect(own.record.outbox).toHaveLength(MAX_OUTBOX_EVENTS + 1);
    // An end is always accepted.
    const end = withEvent({ ...full, phase: "DECOMMISSIONING" }, "ENDING", "", 2n);
    expect((await records.change(own, end)).record.outbox).toHaveLength(MAX_OUTBOX_EVENTS + 2);
  });

  it("a user's record leaves room, and the engine's record is shrunk to the room", async () => {
    const large = makeLeaseRecord({ order: { id: "2-1" }, requestId: "r".repeat(MAX_USER_RECORD_BYTES) });
    const refused = { fault: { code: "limit_exceeded", limit: MAX_USER_RECORD_BYTES, retryAfterMs: 0 } };
    await expect(records.create(large)).rejects.toMatchObject(refused);
    const created = await records.create({ ...large, requestId: "r".repeat(MAX_USER_RECORD_BYTES - 1000) });
    await expect(records.change(created, large)).rejects.toMatchObject(refused);
    const own = await records.own(created, withEvent(large, "DELAYED", "m".repeat(MAX_RECORD_BYTES), 1n), 3);
    expect(own.record).toMatchObject({ requestId: "", fence: 3, outbox: [{ message: "m".repeat(100) }] });
    expect(await records.get("2-1")).toEqual(own);
    await records.remove(own);
  });

  it("bytes that are not a record are refused under their name, and do not affect others", async () => {
    const raw = await openBucket(bus.connection, {
      name: buckets.leases,
      codec: { encode: (bytes: Uint8Array) => bytes, decode: (bytes) => bytes },
    });
    await raw.create("1-3", new Uint8Array([255]));
    await expect(records.get("1-3")).rejects.toMatchObject({ fault: { code: "invalid_request", field: "record" } });
    expect((await records.list()).map(({ record }) => record.order.id)).toEqual(["1-1", "1-2"]);
    expect(await records.get("1-4")).toBeUndefined();
  });

  it("an event that is published twice is in the history once", async () => {
    const history = openHistory(bus);
    const { outbox } = withEvent(withEvent(makeLeaseRecord(), "ORDERED", "", 1n), "PROVISIONED", "", 2n);
    await history.publish(outbox);
    await history.publish(outbox);
    const page = await history.page("1-1", { limit: 10, before: undefined }, new AbortController().signal);
    expect(page).toEqual({ items: outbox, before: undefined });
  });

  it("an event that only another version knows is kept in the history", async () => {
    const history = openHistory(bus);
    const [known] = withEvent(makeLeaseRecord({ order: { id: "1-9" } }), "ORDERED", "", 1n).outbox;
    const later = { ...known, eventType: "FROZEN" } as LeaseEvent;
    await history.publish([later]);
    const page = await history.page("1-9", { limit: 10, before: undefined }, new AbortController().signal);
    expect(page.items).toEqual([later]);
  });
});
