import { makeClient } from "@muster/bus";
import { bucketKeys, buckets, muster, ReservationService } from "@muster/proto";
import { toWireOrder } from "@muster/leases/wire";
import { openBucket, makeProtoCodec } from "@muster/store";
import { until, makePatientClient } from "@muster/testkit";
import { fileURLToPath } from "node:url";
import { expect, it } from "vitest";
import {
  makeUser,
  openEngineWorld,
  type EngineWorld,
  listHistory,
  LASTING_LEAD,
  LONG,
  sendOrder,
  readPhase,
  waitForPhase,
  waitUntilReady,
  signEnd,
  signOrder,
} from "./engine-world.ts";

const LEDGER = fileURLToPath(new URL("../../reservation-manager/src/main.ts", import.meta.url));
const { NodeState, NodesComplete } = muster.watch.v1;
const { Queue } = muster.reservation.v1;

async function nodesBucket({ connection }: EngineWorld["bus"]) {
  const nodes = await openBucket(connection, {
    name: buckets.nodes,
    codec: { encode: (bytes: Uint8Array) => bytes, decode: (bytes) => bytes },
  });
  return {
    mark: () => nodes.create(bucketKeys.nodesComplete, NodesComplete.encode({ atMs: Date.now() }).finish()),
    publish: async (name: string, changes: muster.watch.v1.NodeState.$Properties = {}): Promise<void> => {
      const state = { name, labels: { pool: "n" }, ready: true, schedulable: true, ...changes };
      const found = await nodes.get(name);
      const bytes = NodeState.encode(state).finish();
      await (found === undefined ? nodes.create(name, bytes) : nodes.update(name, bytes, found.revision));
    },
  };
}

it("leases whole machines of a pool, queues for them in the ledger, and releases them at the end, even late grants", async () => {
  await using world = await openEngineWorld();
  const { bus, leases } = world;
  const nodes = await nodesBucket(bus);
  for (const name of ["n-0", "n-1"]) await nodes.publish(name);
  await nodes.mark();
  await world.startEngine({ RESERVATION_LOCK_TTL_MS: "600000" }, LEDGER, "reservation-manager");
  await world.startEngine({
    ...LASTING_LEAD,
    PROVISION_ATTEMPTS_MAX: "2",
    PROVISION_RETRY_MS: "600000",
    PROVISION_RETRY_MOST_MS: "600000",
    PROVISION_CLEANUP: "off",
    PROVISION_RECHECK_MS: "300",
    PROVISION_CLEANUP_GRACE_MS: "0",
  });
  await waitUntilReady(world);
  const ledger = makePatientClient(makeClient(bus, ReservationService));
  const held = () => ledger.listReservations({ ownerKind: "lease" }).then(({ reservations }) => reservations);
  await until("the ledger answers", () => held().then(() => true), LONG);

  const user = makeUser();
  const tried = async (data: string, skipForesight = false) => {
    const sent = signOrder(user, { id: "5-9", type: "machine", data });
    const reply = await leases.orderLease({ requestId: "d", order: toWireOrder(sent), dryRun: true, skipForesight });
    return reply.refusedBecause;
  };
  expect(await tried('{"pool":"n","machines":3}')).toContain("3");
  expect(await tried('{"pool":"nowhere","machines":1}')).toContain("nowhere");
  expect(await tried('{"pool":"nowhere","machines":1}', true)).toBe("");
  expect(await tried('{"pool":"n","machines":2}')).toBe("");
  expect(await held()).toEqual([]);
  const two = '{"pool":"n","machines":2}';
  await sendOrder(world, signOrder(user, { id: "5-1", type: "machine", data: two }));
  await waitForPhase(world, "5-1", "ACTIVE");
  const { lease } = await leases.getLease({ id: "5-1" });
  const result: unknown = JSON.parse(new TextDecoder().decode(lease?.record?.result?.dataJson ?? undefined));
  expect(result).toMatchObject({
    machines: expect.arrayContaining([
      { pool: "n", node: "n-0" },
      { pool: "n", node: "n-1" },
    ]) as unknown,
  });

  await sendOrder(world, signOrder(user, { id: "5-2", type: "machine", data: '{"pool":"n","machines":1}' }));
  const waiting = async () => (await leases.getLease({ id: "5-2" })).lease?.waitingBecause;
  await until("it waits", async () => (await waiting()) !== "", LONG);
  expect(await waiting()).toContain("n");
  expect(await readPhase(world, "5-2")).toBe("PROVISIONING");
  const { explanation } = await leases.explainLease({ id: "5-2" });
  expect(explanation).toMatchObject({ name: "5-2", phase: "PROVISIONING", reasons: [{ code: "POOL_AVAILABILITY" }] });
  await leases.endLease({ requestId: "e", end: signEnd(user, "5-1") });
  await waitForPhase(world, "5-1", "ENDED");
  // Woken by the grant: the next attempt would be minutes later.
  await waitForPhase(world, "5-2", "ACTIVE");
  await leases.endLease({ requestId: "f", end: signEnd(user, "5-2") });
  await waitForPhase(world, "5-2", "ENDED");
  expect(await held()).toEqual([]);

  // A late request arrives once its lease is over.
  const late = [{ component: "machine-0", pool: "n" }];
  for (const id of ["5-1-1", "5-2-1"])
    await ledger.reserve({ requestId: id, owner: { kind: "lease", id }, needs: late, wait: false });
  await sendOrder(world, signOrder(user, { id: "5-4", type: "machine", data: '{"pool":"n","machines":1}' }));
  await until("it waits for them", async () => (await held()).some(({ owner }) => owner?.id === "5-4-1"), LONG);
  const look = (dryRun: boolean) => leases.cleanupResources({ requestId: "c", engine: "main", dryRun });
  expect(await look(false)).toMatchObject({ found: 3, suspected: 2, removed: 0 });
  expect(await look(true)).toMatchObject({ suspected: 0, removed: 2 });
  expect(await held()).toHaveLength(3);
  expect(await look(false)).toMatchObject({ suspected: 0, removed: 2 });
  await waitForPhase(world, "5-4", "ACTIVE");
  const [own] = await held();
  expect(own?.owner?.id).toBe("5-4-1");

  // The machines are released by hand; they are requested again.
  await ledger.unreserve({ requestId: "u", owner: own?.owner ?? null, reservationId: own?.id ?? "" });
  const isOther = async () => (await held()).some(({ id, owner }) => owner?.id === "5-4-1" && id !== own?.id);
  await until("they are held again", isOther, LONG);
  const resultOf = async () => new TextDecoder().decode((await leaseOf())?.record?.result?.dataJson ?? undefined);
  const leaseOf = async () => (await leases.getLease({ id: "5-4" })).lease;
  const nowHeld = async () => (await held()).find(({ owner }) => owner?.id === "5-4-1");
  await until("its result has it", async () => (await resultOf()).includes(`"${(await nowHeld())?.id ?? "?"}"`), LONG);
  const node = (await nowHeld())?.machines[0]?.node ?? "";
  await nodes.publish(node, { ready: false });
  await until("it names the lost node", async () => (await leaseOf())?.waitingBecause.includes(node), LONG);
  expect(await readPhase(world, "5-4")).toBe("ACTIVE");
  await nodes.publish(node);
  await until("all is well again", async () => (await leaseOf())?.waitingBecause === "", LONG);
  expect(await listHistory(world, "5-4")).toEqual(expect.arrayContaining(["TROUBLED", "RESTORED"]));

  await sendOrder(world, signOrder(user, { id: "5-3", type: "machine", data: '{"pool":"nowhere","machines":1}' }));
  await waitForPhase(world, "5-3", "FAILED");
  expect((await leases.getLease({ id: "5-3" })).lease?.record?.result?.message).toContain("nowhere");
}, 300_000);

it("requests other machines if one was lost between the grant and ACTIVE, and names it while there are none", async () => {
  await using world = await openEngineWorld();
  const { bus, leases } = world;
  const nodes = await nodesBucket(bus);
  const harms = {
    gone: { deleted: true },
    off: { ready: false },
    cordoned: { schedulable: false, cordoned: true },
    tainted: { schedulable: false },
  };
  for (const pool of [...Object.keys(harms), "only", "last"]) await nodes.publish(`${pool}-0`, { labels: { pool } });
  await nodes.mark();
  await world.startEngine({ RESERVATION_LOCK_TTL_MS: "600000" }, LEDGER, "reservation-manager");
  const ledger = makePatientClient(makeClient(bus, ReservationService));
  /** The request of an engine that ended before it recorded the grant. */
  const granted = async (id: string, pool: string): Promise<void> => {
    const needs = [{ component: "machine-0", pool }];
    const request = { requestId: id, owner: { kind: "lease", id: `${id}-1` }, needs, wait: false };
    await until("the ledger grants", () => ledger.reserve(request).then(() => true), LONG);
  };
  const standing = async (node: string) =>
    (await ledger.listMachines({})).machines.find((each) => each.node === node)?.standing;
  const loses = async (node: string, changes: muster.watch.v1.NodeState.$Properties): Promise<void> => {
    await nodes.publish(node, { labels: { pool: node.slice(0, -2) }, ...changes });
    await until(`the ledger knows that ${node} is lost`, async () => (await standing(node)) !== "HELD", LONG);
  };
  const ids = Object.keys(harms).map((pool, index) => ({ id: `6-${index}`, pool }));
  for (const { id, pool } of [...ids, { id: "7-1", pool: "only" }, { id: "7-2", pool: "last" }])
    await granted(id, pool);
  for (const [pool, changes] of Object.entries(harms)) {
    await nodes.publish(`${pool}-1`, { labels: { pool } });
    await loses(`${pool}-0`, changes);
  }
  await nodes.publish("only-1", { labels: { pool: "only" } });
  const busy = { kind: "job", id: "busy" };
  const needs = [{ component: "worker-0", pool: "only" }];
  const held = await until(
    "the rest of the pool is held",
    () => ledger.reserve({ requestId: "b", owner: busy, needs }),
    LONG,
  );
  await loses("only-0", harms.off);
  await loses("last-0", harms.gone);

  await world.startEngine({
    ...LASTING_LEAD,
    PROVISION_RETRY_MS: "600000",
    PROVISION_RETRY_MOST_MS: "600000",
    PROVISION_CLEANUP: "off",
  });
  await waitUntilReady(world);
  const user = makeUser();
  const ask = (id: string, pool: string) =>
    sendOrder(world, signOrder(user, { id, type: "machine", data: JSON.stringify({ pool, machines: 1 }) }));
  for (const { id, pool } of ids) await ask(id, pool);
  for (const { id, pool } of ids) {
    await waitForPhase(world, id, "ACTIVE");
    const { lease } = await leases.getLease({ id });
    const result: unknown = JSON.parse(new TextDecoder().decode(lease?.record?.result?.dataJson ?? undefined));
    expect(result, pool).toMatchObject({ machines: [{ pool, node: `${pool}-1` }] });
    expect(await listHistory(world, id)).toEqual(["ORDERED", "DELAYED", "PROVISIONED"]);
  }

  await ask("7-1", "only");
  const waiting = async () => (await leases.getLease({ id: "7-1" })).lease?.waitingBecause ?? "";
  await until("it waits", async () => (await waiting()) !== "", LONG);
  expect(await waiting()).toContain("node only-0, which is NOT_READY");
  expect(await readPhase(world, "7-1")).toBe("PROVISIONING");
  await ledger.unreserve({ requestId: "u", owner: busy, reservationId: held.reservation?.id ?? "" });
  await waitForPhase(world, "7-1", "ACTIVE");

  await ask("7-2", "last");
  await waitForPhase(world, "7-2", "FAILED");
  const { lease } = await leases.getLease({ id: "7-2" });
  expect(lease?.record?.result?.message).toMatch(/node last-0 is LOST.*pool last/);
}, 300_000);

it("leases machines in the queue of its setting, within its quota, and waits for a queue once queues exist", async () => {
  await using world = await openEngineWorld();
  const { bus, leases } = world;
  const nodes = await nodesBucket(bus);
  for (const name of ["n-0", "n-1"]) await nodes.publish(name);
  await nodes.mark();
  const queues = await openBucket(bus.connection, { name: buckets.queues, codec: makeProtoCodec(Queue) });
  await world.startEngine({ RESERVATION_LOCK_TTL_MS: "600000" }, LEDGER, "reservation-manager");
  const retry = { PROVISION_RETRY_MS: "200", PROVISION_RETRY_MOST_MS: "200", PROVISION_ATTEMPTS_MAX: "2" };
  const settings = { ...LASTING_LEAD, ...retry, PROVISION_CLEANUP: "off", PROVISION_LOCK_TTL_MS: "1000" };
  const unset = await world.startEngine(settings);
  await waitUntilReady(world);
  const ledger = makePatientClient(makeClient(bus, ReservationService));
  const held = async () =>
    (await ledger.listReservations({ ownerKind: "lease" })).reservations.map(
      ({ owner, queue }) => `${owner?.id} ${queue}`,
    );
  const waiting = async (id: string) => (await leases.getLease({ id })).lease?.waitingBecause ?? "";
  const codeOf = async (id: string) => (await leases.explainLease({ id })).explanation?.reasons[0]?.code;
  const user = makeUser();
  const one = { type: "machine", data: '{"pool":"n","machines":1}' };
  await sendOrder(world, signOrder(user, { id: "7-1", ...one }));
  await waitForPhase(world, "7-1", "ACTIVE");

  const cpu = [{ resource: "cpu", nominal: 0, borrowingLimit: 0 }];
  await queues.create("other", { name: "other", weightMilli: 1000, quotas: [{ pool: "n", resources: cpu }] });
  await until("the ledger follows it", async () => (await ledger.listQueues({})).queues.length === 1, LONG);
  await sendOrder(world, signOrder(user, { id: "7-2", ...one }));
  await until("it waits for a setting", async () => (await waiting("7-2")).includes("PROVISION_QUEUE"), LONG);
  expect(await codeOf("7-2")).toBe("QUEUE_UNKNOWN");
  expect([await readPhase(world, "7-1"), await held()]).toEqual(["ACTIVE", ["7-1-1 "]]);

  await unset.kill();
  await world.startEngine({ ...settings, PROVISION_QUEUE: "leases" });
  await until(
    "the setting names no queue",
    async () => (await waiting("7-2")).includes("queue leases does not exist"),
    LONG,
  );
  expect(await codeOf("7-2")).toBe("QUEUE_UNKNOWN");
  await queues.create("leases", { name: "leases", weightMilli: 1000, stopPolicy: "Hold" });
  await until("it waits in the held queue", async () => (await codeOf("7-2")) === "QUEUE_HELD", LONG);
  const [{ revision } = { revision: 0 }] = await queues.list("leases");
  await queues.update("leases", { name: "leases", weightMilli: 1000, stopPolicy: "None" }, revision);
  await waitForPhase(world, "7-2", "ACTIVE");
  expect((await held()).toSorted()).toEqual(["7-1-1 ", "7-2-1 leases"]);
});
