import { buckets, muster } from "@muster/proto";
import { openBucket } from "@muster/store";
import { startTestNats, until } from "@muster/testkit";
import { expect, it } from "vitest";
import { scalingCodec } from "../src/adapters/messages.ts";
import {
  connectUser,
  buildNeeds,
  openNodeWriter,
  retryUntilAnswered,
  makeReservations,
  startManager,
} from "./managers.ts";

const { RESERVATION_STATE_GRANTED: GRANTED, RESERVATION_STATE_WAITING: WAITING } =
  muster.reservation.v1.ReservationState;

const owner = (id: string) => ({ kind: "session", id });

it("takes requests for a pool that may grow, known before or since its start, and keeps them waiting when the pool may no longer grow", async () => {
  await using server = await startTestNats();
  await using bus = await connectUser(server);
  const nodes = await openNodeWriter(bus);
  const scalings = await openBucket(bus.connection, { name: buckets.pools, codec: scalingCodec });
  const scaling = (pool: string, max: number) => muster.node.v1.PoolScaling.create({ pool, max, atMs: 1234 });
  let revision = await scalings.create("elastic", scaling("elastic", 2));
  await bus.connection.request(`$KV.${buckets.pools}.broken`, Uint8Array.from([0xff]));
  await using manager = startManager(server);
  const reservations = makeReservations(bus);
  const reserve = (id: string, ...pools: string[]) =>
    retryUntilAnswered(() => reservations.reserve({ owner: owner(id), needs: buildNeeds(...pools), wait: true }));

  const [pool] = (await reservations.listPools({})).pools;
  expect(pool).toMatchObject({ name: "elastic", available: 0, capacity: 0, elasticMax: 2, elasticAtMs: 1234 });
  await expect(reserve("big", "elastic", "elastic", "elastic")).rejects.toMatchObject({
    fault: { code: "pool_capacity", pool: "elastic", requested: 3, capacity: 2 },
  });
  const { reservation } = await reserve("x", "elastic", "elastic");
  expect(reservation).toMatchObject({ state: WAITING, because: { code: "POOL_AVAILABILITY", pool: "elastic" } });
  expect(await reservations.explainReservation({ owner: owner("x") })).toMatchObject({
    message: "pool elastic has 0 of 2 machines; it may grow to 2",
    pools: [{ pool: "elastic", elasticMax: 2, elasticAtMs: 1234 }],
  });

  revision = await scalings.update("elastic", scaling("elastic", 3), revision);
  await until("the ledger knows that the pool may grow further", async () => {
    return (await reservations.listPools({})).pools[0]?.elasticMax === 3;
  });
  expect((await reserve("big", "elastic", "elastic", "elastic")).reservation?.state).toBe(WAITING);

  await scalings.delete("elastic", revision);
  await until("the pool is gone", async () => (await reservations.listPools({})).pools.length === 0);
  await expect(reserve("late", "elastic")).rejects.toMatchObject({ fault: { code: "pool_unknown" } });
  expect((await reservations.getReservation({ owner: owner("x") })).reservation?.state).toBe(WAITING);
  expect((await reservations.listDemand({ pools: ["elastic"] })).reservations).toHaveLength(2);
  await nodes.put("e1", "elastic");
  await nodes.put("e2", "elastic");
  await until("what waited is granted", async () => {
    return (await reservations.getReservation({ owner: owner("x") })).reservation?.state === GRANTED;
  });
  expect(manager.errors).toEqual([]);
});
