import { streams } from "@muster/proto";
import { expect, it } from "vitest";
import { openHistory } from "../src/adapters/history.ts";
import { makeLeaseRecord } from "./a-lease.ts";
import { withEvent } from "../src/domain/lease-change.ts";
import { makeUser, openEngineWorld, sendOrder, waitUntilReady, signOrder } from "./engine-world.ts";

const LARGE = JSON.stringify("y".repeat(60_000));
const TEST_MS = 300_000;

it(
  "lists leases and their history in pages that fit into a NATS message, however large each is",
  async () => {
    await using world = await openEngineWorld();
    const user = makeUser();
    await world.startEngine();
    await waitUntilReady(world);
    const ids = Array.from({ length: 20 }, (_, at) => `1-${at + 10}`);
    for (const id of ids) await sendOrder(world, signOrder(user, { id, data: LARGE }));
    const listed: string[] = [];
    for (let page = "", isFirst = true; isFirst || page !== ""; isFirst = false) {
      const reply = await world.leases.listLeases({ continue: page });
      listed.push(...reply.leases.map(({ record }) => record?.order?.id ?? ""));
      page = reply.continue;
    }
    expect(listed).toEqual(ids);

    await world.bus.ensureStream(streams.audit);
    let reported = makeLeaseRecord({ order: { id: "7-7" } });
    for (let count = 0; count < 300; count++) reported = withEvent(reported, "TROUBLED", "ü".repeat(2000), 1n);
    await openHistory(world.bus).publish(reported.outbox);
    const events: string[] = [];
    for (let page = "", isFirst = true; isFirst || page !== ""; isFirst = false) {
      const reply = await world.leases.listLeaseHistory({ id: "7-7", limit: 300, continue: page });
      events.unshift(...reply.events.map(({ id }) => id));
      page = reply.continue;
    }
    expect(events).toEqual(reported.outbox.map(({ id }) => id));
  },
  TEST_MS,
);
