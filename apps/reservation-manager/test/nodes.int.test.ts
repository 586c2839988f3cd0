import { buckets, muster } from "@muster/proto";
import { startTestNats, until } from "@muster/testkit";
import { expect, it } from "vitest";
import {
  connectUser,
  buildNeeds,
  openNodeWriter,
  retryUntilAnswered,
  makeReservations,
  startManager,
} from "./managers.ts";

const { RESERVATION_STATE_GRANTED: GRANTED } = muster.reservation.v1.ReservationState;

/** Longer than any pause of a busy machine. */
const LONG_LEAD = { RESERVATION_LOCK_TTL_MS: "600000" };

const owner = (id: string) => ({ kind: "session", id });

it("refuses nothing permanently before the watcher has marked all nodes as known, nor while its mark is too far from now", async () => {
  await using server = await startTestNats();
  await using bus = await connectUser(server);
  const nodes = await openNodeWriter(bus, { complete: false });
  await using manager = startManager(server);
  const reservations = makeReservations(bus);
  await reservations.listPools({});
  // Only the first answer counts, so the request is not repeated.
  const once = { repeat: "never" } as const;
  const reserve = (id: string, ...pools: string[]) =>
    reservations.reserve({ owner: owner(id), needs: buildNeeds(...pools), wait: true }, once);
  const unavailable = { fault: { code: "unavailable", retryAfterMs: 1000 } };
  await expect(reserve("x", "a")).rejects.toMatchObject(unavailable);
  await nodes.put("a1", "a");
  expect((await retryUntilAnswered(() => reserve("x", "a"))).reservation?.because).toMatchObject({
    code: "POOLS_NOT_KNOWN_YET",
  });
  expect((await reserve("y", "a")).reservation?.because).toMatchObject({ code: "POOLS_NOT_KNOWN_YET" });
  await expect(reserve("z", "b")).rejects.toMatchObject(unavailable);
  const check = (...pools: string[]) =>
    reservations.checkReservation({ owner: owner("z"), needs: buildNeeds(...pools) }, once);
  expect(await check("b")).toMatchObject({ because: { code: "POOLS_NOT_KNOWN_YET", pool: "b" } });
  expect(await check("a")).toMatchObject({ because: { code: "POOLS_NOT_KNOWN_YET", pool: "a" } });
  await expect(reserve("z", "a", "a")).rejects.toMatchObject(unavailable);

  for (const offMs of [-600_000, 600_000]) {
    await nodes.complete(Date.now() + offMs);
    await expect(reserve("z", "b"), `a mark ${offMs} ms from now`).rejects.toMatchObject(unavailable);
  }

  expect((await reservations.getReservation({ owner: owner("x") })).reservation?.state).not.toBe(GRANTED);
  await nodes.complete();
  const stateOf = async (id: string) => (await reservations.getReservation({ owner: owner(id) })).reservation?.state;
  await until("the first one is granted", async () => (await stateOf("x")) === GRANTED);
  await expect(retryUntilAnswered(() => reserve("z", "b"))).rejects.toMatchObject({ fault: { code: "pool_unknown" } });
  await expect(reserve("z", "a", "a")).rejects.toMatchObject({ fault: { code: "pool_capacity" } });
  await expect(check("a", "a")).rejects.toMatchObject({ fault: { code: "pool_capacity" } });
  const { code } = await reservations.explainReservation({ owner: owner("y") });
  expect(code).toBe("POOL_AVAILABILITY");
  expect(manager.errors).toEqual([]);
});

it("refuses every pool as unknown when the watcher reports that no node exists", async () => {
  await using server = await startTestNats();
  await using bus = await connectUser(server);
  await openNodeWriter(bus);
  await using _manager = startManager(server);
  const request = { owner: owner("x"), needs: buildNeeds("a"), wait: true };
  await expect(makeReservations(bus).reserve(request)).rejects.toMatchObject({
    fault: { code: "pool_unknown" },
  });
});

it("continues without a node whose record does not decode, before and after its start", async () => {
  await using server = await startTestNats();
  await using bus = await connectUser(server);
  const nodes = await openNodeWriter(bus);
  await nodes.put("a1", "a");
  const spoil = (name: string) => bus.connection.request(`$KV.${buckets.nodes}.${name}`, Uint8Array.from([0xff]));
  await spoil("bad1");
  await using manager = startManager(server, LONG_LEAD);
  const reservations = makeReservations(bus);
  await reservations.listPools({});
  await spoil("bad2");
  await nodes.put("a2", "a");
  await until("the nodes that decode count", async () => {
    return (await reservations.listPools({})).pools[0]?.capacity === 2;
  });
  expect(manager.leads).toBe(1);
  expect(manager.errors).toEqual([]);
});

it("reads the pool of a node from the configured label, and from no other label", async () => {
  await using server = await startTestNats();
  await using bus = await connectUser(server);
  const nodes = await openNodeWriter(bus);
  await nodes.put("n1", "slow", { labels: { "example.com/tier": "fast", pool: "slow" } });
  await nodes.put("n2", "slow");
  await using manager = startManager(server, { RESERVATION_POOL_LABEL: "example.com/tier" });
  const reservations = makeReservations(bus);
  const { pools } = await reservations.listPools({});
  expect(pools).toMatchObject([{ name: "fast", available: 1, capacity: 1 }]);
  const { reservation } = await reservations.reserve({ owner: owner("x"), needs: buildNeeds("fast") });
  expect(reservation?.machines).toMatchObject([{ pool: "fast", node: "n1" }]);
  await expect(reservations.reserve({ owner: owner("y"), needs: buildNeeds("slow") })).rejects.toMatchObject({
    fault: { code: "pool_unknown", pool: "slow" },
  });
  await nodes.put("n2", "slow", { labels: { "example.com/tier": "fast" } });
  await until("the node has changed its pool", async () => (await reservations.listPools({})).pools[0]?.capacity === 2);
  expect(manager.errors).toEqual([]);
});

it("derives pools from live nodes and follows their additions, cordons, failures, occupation and removals", async () => {
  await using server = await startTestNats();
  await using bus = await connectUser(server);
  const nodes = await openNodeWriter(bus);
  await using manager = startManager(server);
  const reservations = makeReservations(bus);
  const pool = async () => (await reservations.listPools({})).pools[0];
  const poolBecomes = (what: string, wanted: object) =>
    until(what, async () => {
      expect(await pool()).toMatchObject(wanted);
      return true;
    });
  expect(await pool()).toBeUndefined();

  await nodes.put("a1", "a");
  await poolBecomes("the node counts", { name: "a", available: 1, capacity: 1, unusable: 0 });
  await reservations.reserve({ owner: owner("x"), needs: buildNeeds("a") });
  await nodes.put("a2", "a", { schedulable: false });
  const unusable = (reason: string) => ({ unusable: 1, unusableByReason: [{ reason, count: 1 }] });
  await poolBecomes("a cordoned node does not count", { available: 0, capacity: 1, held: 1, ...unusable("CORDONED") });
  await expect(
    reservations.reserve({ owner: owner("y"), needs: buildNeeds("a", "a"), wait: true }),
  ).rejects.toMatchObject({
    fault: { code: "pool_capacity", requested: 2, capacity: 1 },
  });
  await reservations.reserve({ owner: owner("y"), needs: buildNeeds("a"), wait: true });

  await nodes.put("a2", "a", { occupants: [owner("foreign")] });
  await poolBecomes("an occupied node does not count", {
    available: 0,
    capacity: 1,
    waiting: 1,
    ...unusable("OCCUPIED"),
  });
  await nodes.put("a2", "a", { ready: false });
  await poolBecomes("a node that is not ready does not count", {
    available: 0,
    capacity: 1,
    waiting: 1,
    ...unusable("NOT_READY"),
  });
  await nodes.put("a2", "a");
  await until("the waiting request is granted", async () => {
    const { reservation } = await reservations.getReservation({ owner: owner("y") });
    return reservation?.machines[0]?.node === "a2";
  });
  await nodes.remove("a2");
  await poolBecomes("a lost node does not count", { available: 0, capacity: 1, held: 1 });
  await reservations.unreserve({ owner: owner("y"), reservationId: "r-2" });
  await nodes.put("a1", "a", { deleted: true });
  await until("the pool is gone with its last node", async () => (await pool()) === undefined);
  expect(manager.errors).toEqual([]);
});
