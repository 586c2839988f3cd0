import { client } from "@muster/bus";
import { bucketKeys, buckets, muster, ReservationService } from "@muster/proto";
import { toWireOrder } from "@muster/leases/wire";
import { openBucket } from "@muster/store";
import { until } from "@muster/testkit";
import { fileURLToPath } from "node:url";
import { expect, it } from "vitest";
import {
  aUser,
  engineWorld,
  historyOf,
  LONG,
  order,
  phase,
  reaches,
  ready,
  signedEnd,
  signedOrder,
} from "./engine-world.ts";

const LEDGER = fileURLToPath(new URL("../../reservation-manager/src/main.ts", import.meta.url));
const { NodeState, NodesComplete } = muster.watch.v1;

it("leases whole machines of a pool, waits in the ledger's queue for them, and gives them back at the end, also those that were granted after it", async () => {
  await using world = await engineWorld();
  const { bus, leases } = world;
  const nodes = await openBucket(bus.connection, {
    name: buckets.nodes,
    codec: { encode: (bytes: Uint8Array) => bytes, decode: (bytes) => bytes },
  });
  for (const name of ["n-0", "n-1"]) {
    const state = { name, labels: { pool: "n" }, ready: true, schedulable: true };
    await nodes.create(name, NodeState.encode(state).finish());
  }
  await nodes.create(bucketKeys.nodesComplete, NodesComplete.encode({ atMs: Date.now() }).finish());
  await world.startEngine({ RESERVATION_LOCK_TTL_MS: "1500" }, LEDGER, "reservation-manager");
  await world.startEngine({
    PROVISION_ATTEMPTS_MAX: "2",
    PROVISION_RETRY_MS: "60000",
    PROVISION_RETRY_MOST_MS: "600000",
    PROVISION_CLEANUP: "off",
    PROVISION_RECHECK_MS: "300",
    PROVISION_CLEANUP_GRACE_MS: "0",
  });
  await ready(world);
  const ledger = client(bus, ReservationService);
  const held = () => ledger.listReservations({ ownerKind: "lease" }).then(({ reservations }) => reservations);
  await until("the ledger answers", () => held().then(() => true), LONG);

  const user = aUser();
  const tried = async (data: string, skipForesight = false) => {
    const sent = signedOrder(user, { id: "5-9", type: "machine", data });
    const reply = await leases.orderLease({ requestId: "d", order: toWireOrder(sent), dryRun: true, skipForesight });
    return reply.refusedBecause;
  };
  expect(await tried('{"pool":"n","machines":3}')).toContain("3");
  expect(await tried('{"pool":"nowhere","machines":1}')).toContain("nowhere");
  expect(await tried('{"pool":"nowhere","machines":1}', true)).toBe("");
  expect(await tried('{"pool":"n","machines":2}')).toBe("");
  expect(await held()).toEqual([]);
  const two = '{"pool":"n","machines":2}';
  await order(world, signedOrder(user, { id: "5-1", type: "machine", data: two }));
  await reaches(world, "5-1", "ACTIVE");
  const { lease } = await leases.getLease({ id: "5-1" });
  const result: unknown = JSON.parse(new TextDecoder().decode(lease?.record?.result?.dataJson ?? undefined));
  expect(result).toMatchObject({
    machines: expect.arrayContaining([
      { pool: "n", node: "n-0" },
      { pool: "n", node: "n-1" },
    ]) as unknown,
  });

  await order(world, signedOrder(user, { id: "5-2", type: "machine", data: '{"pool":"n","machines":1}' }));
  const waiting = async () => (await leases.getLease({ id: "5-2" })).lease?.waitingBecause;
  await until("it waits", async () => (await waiting()) !== "", LONG);
  expect(await waiting()).toContain("n");
  expect(await phase(world, "5-2")).toBe("PROVISIONING");
  await leases.endLease({ requestId: "e", end: signedEnd(user, "5-1") });
  await reaches(world, "5-1", "ENDED");
  // Woken by the grant: it would be asked for again in minutes.
  await reaches(world, "5-2", "ACTIVE");
  await leases.endLease({ requestId: "f", end: signedEnd(user, "5-2") });
  await reaches(world, "5-2", "ENDED");
  expect(await held()).toEqual([]);

  // A request that was on its way for long arrives once its lease is over.
  const late = [{ component: "machine-0", pool: "n" }];
  for (const id of ["5-1-1", "5-2-1"])
    await ledger.reserve({ requestId: id, owner: { kind: "lease", id }, needs: late, wait: false });
  await order(world, signedOrder(user, { id: "5-4", type: "machine", data: '{"pool":"n","machines":1}' }));
  await until("it waits for them", async () => (await held()).some(({ owner }) => owner?.id === "5-4-1"), LONG);
  const look = (dryRun: boolean) =>
    leases.cleanupResources({ requestId: "c", engine: "main", dryRun }, { timeoutMs: 20_000 });
  expect(await look(false)).toMatchObject({ found: 3, suspected: 2, removed: 0 });
  expect(await look(true)).toMatchObject({ suspected: 0, removed: 2 });
  expect(await held()).toHaveLength(3);
  expect(await look(false)).toMatchObject({ suspected: 0, removed: 2 });
  await reaches(world, "5-4", "ACTIVE");
  const [own] = await held();
  expect(own?.owner?.id).toBe("5-4-1");

  // Somebody takes them back; they are asked for again.
  await ledger.unreserve({ requestId: "u", owner: own?.owner ?? null, reservationId: own?.id ?? "" });
  const isOther = async () => (await held()).some(({ id, owner }) => owner?.id === "5-4-1" && id !== own?.id);
  await until("they are held again", isOther, LONG);
  const resultOf = async () => new TextDecoder().decode((await leaseOf())?.record?.result?.dataJson ?? undefined);
  const leaseOf = async () => (await leases.getLease({ id: "5-4" })).lease;
  const nowHeld = async () => (await held()).find(({ owner }) => owner?.id === "5-4-1");
  await until("its result says so", async () => (await resultOf()).includes(`"${(await nowHeld())?.id ?? "?"}"`), LONG);
  const node = (await nowHeld())?.machines?.[0]?.node ?? "";
  const setReady = async (ready: boolean): Promise<void> => {
    const state = { name: node, labels: { pool: "n" }, ready, schedulable: true };
    await nodes.update(node, NodeState.encode(state).finish(), (await nodes.get(node))?.revision ?? 0);
  };
  await setReady(false);
  await until("it says that its node died", async () => (await leaseOf())?.waitingBecause?.includes(node), LONG);
  expect(await phase(world, "5-4")).toBe("ACTIVE");
  await setReady(true);
  await until("all is well again", async () => (await leaseOf())?.waitingBecause === "", LONG);
  expect(await historyOf(world, "5-4")).toEqual(expect.arrayContaining(["TROUBLED", "RESTORED"]));

  await order(world, signedOrder(user, { id: "5-3", type: "machine", data: '{"pool":"nowhere","machines":1}' }));
  await reaches(world, "5-3", "FAILED");
  expect((await leases.getLease({ id: "5-3" })).lease?.record?.result?.message).toContain("nowhere");
}, 240_000);
