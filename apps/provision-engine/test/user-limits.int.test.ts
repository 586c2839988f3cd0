import { connectNats } from "@muster/bus";
import { buildOrderBytes } from "@muster/leases";
import { digest, verifySignature } from "@muster/leases/keys";
import { startTestNats } from "@muster/testkit";
import { expect, it } from "vitest";
import { makeRecords, openLeases } from "../src/adapters/records.ts";
import type { LeaseRecords } from "../src/holdings/records.ts";
import { readConfig } from "../src/config.ts";
import { makeLeaseRecord, makeOrder } from "./a-lease.ts";
import { openLeaseRegistry } from "../src/holdings/lease-registry.ts";
import { takeOrder, type RequestDeps } from "../src/orders/requests.ts";
import { makeUser, ENGINE_KEY } from "./engine-world.ts";

const NOW_NS = 2_000_000_000n;
const user = makeUser();

/** Orders of one user, taken by one engine from a real bucket; `records` is between the two. */
async function ordering(
  limits: { readonly leases: number },
  between: (records: LeaseRecords) => LeaseRecords = (same) => same,
) {
  await using undo = new AsyncDisposableStack();
  const nats = undo.use(await startTestNats());
  const bus = undo.use(await connectNats({ url: nats.url, token: nats.token, name: "test" }));
  const records = makeRecords(await openLeases(bus.connection));
  const config = readConfig({ PROVISION_KEY: ENGINE_KEY, PROVISION_USER_LEASES: String(limits.leases) });
  const holdings = openLeaseRegistry({}, {});
  const requests: RequestDeps = {
    records: between(records),
    holdings,
    nowNs: () => NOW_NS,
    verify: verifySignature,
    digest,
    policy: config.order,
    quota: config.quota,
  };
  const signed = (id: string) => {
    const order = makeOrder({ id, user: user.userId, createdNs: 1_000_000_000n, durationNs: 3_600_000_000_000n });
    return { ...order, signature: user.sign(buildOrderBytes(order)) };
  };
  const send = async (id: string): Promise<string> => {
    const ordered = await takeOrder(requests, { order: signed(id), requestId: id, source: "nats", dryRun: false });
    return "outcome" in ordered ? ordered.outcome : ordered.fault.code;
  };
  const all = undo.move();
  return { records, holdings, signed, send, [Symbol.asyncDispose]: () => all.disposeAsync() };
}

const ids = (count: number): string[] => Array.from({ length: count }, (_, at) => `1-${at + 1}`);
const countOf = (outcomes: readonly string[], outcome: string): number =>
  outcomes.filter((each) => each === outcome).length;

it("takes no more orders of a user than the limit, however many arrive concurrently", async () => {
  await using world = await ordering({ leases: 5 });
  const outcomes = await Promise.all(ids(200).map(world.send));
  expect(countOf(outcomes, "ORDERED")).toBe(5);
  expect(countOf(outcomes, "limit_exceeded")).toBe(195);
  expect(await world.records.list()).toHaveLength(5);
});

it("restarts no more failed leases of a user than the limit, however many orders arrive concurrently", async () => {
  await using world = await ordering({ leases: 5 });
  for (const id of ids(50)) {
    const failed = makeLeaseRecord({ order: world.signed(id), phase: "FAILED", fence: 0 });
    world.holdings.learn(await world.records.create(failed));
  }
  const outcomes = await Promise.all(ids(50).map(world.send));
  expect(countOf(outcomes, "RETRIED")).toBe(5);
  expect(countOf(outcomes, "limit_exceeded")).toBe(45);
});

it("counts an order once that arrives several times concurrently", async () => {
  await using world = await ordering({ leases: 1 });
  const outcomes = await Promise.all(Array.from({ length: 20 }, () => world.send("1-1")));
  expect(countOf(outcomes, "ORDERED")).toBe(1);
  expect(countOf(outcomes, "RESENT")).toBe(19);
});

it("releases the usage that a failed write had reserved", async () => {
  let failures = 3;
  await using world = await ordering({ leases: 1 }, (records) => ({
    ...records,
    create: (record) => {
      failures -= 1;
      return failures >= 0 ? Promise.reject(new Error("the store is full")) : records.create(record);
    },
  }));
  for (const id of ids(3)) await expect(world.send(id)).rejects.toThrow("the store is full");
  expect(await world.send("1-4")).toBe("ORDERED");
});
