import { forEachSome } from "@muster/backoff";
import { streams, subjects } from "@muster/proto";
import { until } from "@muster/testkit";
import { expect, it } from "vitest";
import { makeRecords, openLeases } from "../src/adapters/records.ts";
import { makeLeaseRecord } from "./a-lease.ts";
import { openEngineWorld, nowNs, NS_PER_MS, waitUntilReady } from "./engine-world.ts";

/** Larger numbers take longer on slow machines: `MANY_ENDS=10000`. */
const COUNT = Number(process.env["MANY_ENDS"] ?? 1000);
const TEST_MS = Math.max(240_000, COUNT * 100);

it(
  `${COUNT} leases that end in the same second are all decommissioned, and each is reported once`,
  async () => {
    await using world = await openEngineWorld();
    const records = makeRecords(await openLeases(world.bus.connection));
    // Written directly as active leases, so that the test does not depend on the speed of orders.
    const createdNs = nowNs();
    const durationNs = 5_000n * NS_PER_MS;
    const ids = Array.from({ length: COUNT }, (_, at) => `9-${at}`);
    const write = (id: string) => records.create(makeLeaseRecord({ order: { id, createdNs, durationNs }, fence: 0 }));
    await forEachSome(ids, 64, write, (id, error) => expect.fail(`${id}: ${String(error)}`));
    // An engine that loses its lead on a busy machine reads all records again.
    await world.startEngine({ PROVISION_LOCK_TTL_MS: "20000" });
    await waitUntilReady(world);
    const left = async (): Promise<number> =>
      (await records.list()).filter(({ record }) => record.phase !== "ENDED" || record.feedback.deleted).length;
    await until("all have ended and are reported", async () => (await left()) === 0, {
      timeoutMs: TEST_MS - 60_000,
      // Each poll reads all records, next to the work of the engine.
      everyMs: Math.max(200, COUNT / 2),
    });
    for (const { record } of await records.list()) {
      expect(record.ending?.cause).toBe("EXPIRED");
      expect(record.ending?.atNs).toBeGreaterThan(createdNs + durationNs);
    }
    const reported = new Set<string>();
    for (let from = 1; ;) {
      const message = await world.bus.readMessage(streams.events.name, subjects.anyLeaseAnswered, from);
      if (message === undefined) break;
      expect(reported.has(message.subject)).toBe(false);
      reported.add(message.subject);
      from = message.sequence + 1;
    }
    expect(reported.size).toBe(COUNT);
  },
  TEST_MS,
);
