import { client } from "@muster/bus";
import { bucketKeys, buckets, muster, ReservationService } from "@muster/proto";
import { openBucket } from "@muster/store";
import { until } from "@muster/testkit";
import { fileURLToPath } from "node:url";
import { expect, it } from "vitest";
import { aUser, engineWorld, LONG, order, phase, reaches, ready, signedEnd, signedOrder } from "./engine-world.ts";

const LEDGER = fileURLToPath(new URL("../../reservation-manager/src/main.ts", import.meta.url));
const { NodeState, NodesComplete } = muster.watch.v1;

it("leases whole machines of a pool, waits in the ledger's queue for them, and gives them back at the end", async () => {
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
  await world.startEngine({ RESERVATION_LOCK_TTL_MS: "1500" }, LEDGER);
  await world.startEngine({ PROVISION_ATTEMPTS_MAX: "2" });
  await ready(world);
  const ledger = client(bus, ReservationService);
  const held = () => ledger.listReservations({ ownerKind: "lease" }).then(({ reservations }) => reservations);
  await until("the ledger answers", () => held().then(() => true), LONG);

  const user = aUser();
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
  // It is asked for more often than what fails is tried.
  const asked = new Set<string>();
  const waits = async (): Promise<boolean> => {
    const { lease: waiting } = await leases.getLease({ id: "5-2" });
    const { trouble = "", notBefore } = waiting?.record ?? {};
    if (trouble !== "") asked.add(`${notBefore?.seconds ?? 0}.${notBefore?.nanos ?? 0}`);
    return asked.size > 3;
  };
  await until("it waits", waits, LONG);
  expect(await phase(world, "5-2")).toBe("PROVISIONING");
  expect((await leases.getLease({ id: "5-2" })).lease?.waitingBecause).toContain("n");
  await leases.endLease({ requestId: "e", end: signedEnd(user, "5-1") });
  await reaches(world, "5-1", "ENDED");
  await reaches(world, "5-2", "ACTIVE");
  await leases.endLease({ requestId: "f", end: signedEnd(user, "5-2") });
  await reaches(world, "5-2", "ENDED");
  expect(await held()).toEqual([]);

  await order(world, signedOrder(user, { id: "5-3", type: "machine", data: '{"pool":"nowhere","machines":1}' }));
  await reaches(world, "5-3", "FAILED");
  expect((await leases.getLease({ id: "5-3" })).lease?.record?.result?.message).toContain("nowhere");
}, 240_000);
