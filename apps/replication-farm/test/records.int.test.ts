import { randomUUID } from "node:crypto";
import { connectNats, type NatsBus } from "@muster/bus";
import { buckets, streams } from "@muster/proto";
import { startTestNats, type TestNats } from "@muster/testkit";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { openAuditLog } from "../src/adapters/audit-log.ts";
import { setCodec } from "../src/adapters/messages.ts";
import { makeRecords, openRecords, type FarmRecords } from "../src/adapters/records.ts";
import { makeSet } from "./a-set.ts";
import { buildAudits, MAX_OUTBOX } from "../src/domain/audit.ts";
import type { ReplicaSet } from "../src/domain/replica-set.ts";

const retarget = { eventType: "REPLICATION_CONTROLLER_RETARGET", details: { nodes: ["n1"] } } as const;
const audits = (set: string, count: number) =>
  buildAudits(
    set,
    Array.from({ length: count }, () => retarget),
    { nowMs: 5, traceparent: "", newId: randomUUID },
  );

describe("records", () => {
  let nats: TestNats;
  let bus: NatsBus;
  let records: FarmRecords<ReplicaSet>;

  beforeAll(async () => {
    nats = await startTestNats();
    bus = await connectNats({ url: nats.url, token: nats.token, name: "test" });
    await bus.ensureStream(streams.audit);
    records = makeRecords(await openRecords(bus.connection, buckets.replicaSets, setCodec));
  });

  afterAll(async () => {
    await bus[Symbol.asyncDispose]();
    await nats[Symbol.asyncDispose]();
  });

  it("an owner's write sets its fence, and a write with an older one is refused", async () => {
    const next = makeSet({ name: "fenced", fence: 0 });
    const revision = await records.create("fenced", next);
    const written = await records.own({ key: "fenced", revision, next, audits: [] }, 7);
    expect(written.record.fence).toBe(7);
    const late = { key: "fenced", revision: written.revision, next: written.record, audits: [] };
    await expect(async () => records.own(late, 6)).rejects.toMatchObject({ fault: { code: "conflict" } });
    const users = await records.change({ ...late, next: { ...written.record, disabled: true } });
    expect(users.record).toMatchObject({ fence: 7, disabled: true });
    await expect(records.own(late, 8)).rejects.toMatchObject({ fault: { code: "conflict" } });
  });

  it("a change and its audits are one write, and a full outbox prevents the change", async () => {
    const next = makeSet({ name: "full" });
    const revision = await records.create("full", next);
    const full = await records.change({ key: "full", revision, next, audits: audits("full", MAX_OUTBOX) });
    const more = { key: "full", revision: full.revision, next: full.record, audits: audits("full", 1) };
    await expect(records.change(more)).rejects.toMatchObject({ fault: { code: "limit_exceeded", limit: MAX_OUTBOX } });
    expect(await records.get("full")).toMatchObject({ revision: full.revision });
  });

  it("unreadable bytes are reported under their name, and do not affect other records", async () => {
    const raw = await openRecords(bus.connection, buckets.replicaSets, {
      encode: (bytes: Uint8Array) => bytes,
      decode: (bytes) => ({ record: bytes }),
    });
    await raw.create("corrupt", new Uint8Array([255]));
    expect(await records.get("corrupt")).toHaveProperty("unreadable");
    expect(await records.get("full")).toHaveProperty("record");
    expect(await records.get("missing")).toBeUndefined();
  });

  it("an audit that is published twice exists once, and the newest are listed oldest first", async () => {
    const log = openAuditLog(bus);
    const written = audits("audited", 3);
    await log.publish(written);
    await log.publish(written);
    await log.publish(audits("another", 1));
    const { signal } = new AbortController();
    const whole = { items: written, before: undefined };
    expect(await log.page("audited", { limit: 10, before: undefined }, signal)).toEqual(whole);
    const newest = await log.page("audited", { limit: 2, before: undefined }, signal);
    expect(newest.items).toEqual(written.slice(1));
    const older = await log.page("audited", { limit: 2, before: newest.before }, signal);
    expect(older).toEqual({ items: written.slice(0, 1), before: undefined });
  });
});
