import type { V1Node } from "@kubernetes/client-node";
import { makeClient, type Client } from "@muster/bus";
import { buckets, muster, ReservationService } from "@muster/proto";
import { openBucket, makeProtoCodec } from "@muster/store";
import { until, makePatientClient } from "@muster/testkit";
import { afterAll, afterEach, beforeAll, describe, expect, it } from "vitest";
import { setCodec } from "../src/adapters/messages.ts";
import { makeRecords, openRecords } from "../src/adapters/records.ts";
import { makeSet, makeSpec } from "./a-set.ts";
import { API_SERVERS } from "./api-servers.ts";
import {
  openFarmWorld,
  listNodes,
  waitUntilReady,
  waitForSettled,
  buildSpec,
  buildTemplate,
  type FarmProcess,
  type FarmWorld,
} from "./farm-world.ts";

const { Queue } = muster.reservation.v1;
const NODES = 4;
const PATIENT = { timeoutMs: 90_000, everyMs: 100 };

const [embedded] = API_SERVERS;

describe("replica sets on machines of a pool", () => {
  let world: FarmWorld;
  let farms: FarmProcess[];
  let ledgerProcess: FarmProcess;
  let ledger: Client<typeof ReservationService>;

  const apply = (name: string, replicas: number, more: Parameters<typeof buildSpec>[2] = {}) =>
    world.farms.applyReplicaSet({ requestId: name, name, spec: buildSpec("", replicas, { pool: "n", ...more }) });
  const scale = (name: string, replicasDesired: number) =>
    world.farms.scaleReplicaSet({ requestId: `${name}-${replicasDesired}`, name, replicasDesired });
  const record = async (name: string) => (await world.farms.getReplicaSet({ name })).set?.record;
  const reserved = async () => {
    const { reservations } = await ledger.listReservations({ ownerKind: "replica-set" });
    return reservations.map(({ owner, machines }) => ({ id: owner?.id ?? "", node: machines[0]?.node ?? "" }));
  };
  const nodesHeld = async () => (await reserved()).map(({ node }) => node).toSorted();
  const reserveForJob = (id: string, size: number) =>
    ledger.reserve({
      requestId: id,
      owner: { kind: "job", id },
      needs: Array.from({ length: size }, (_, index) => ({ component: `c-${index}`, pool: "n" })),
    });
  const releaseOfJob = async (id: string) => {
    const owner = { kind: "job", id };
    const { reservation } = await ledger.getReservation({ owner });
    await ledger.unreserve({ requestId: `${id}-over`, owner, reservationId: reservation?.id ?? "" });
  };
  const remove = async (name: string) => {
    await world.farms.deleteReplicaSet({ requestId: `${name}-gone`, name, force: true });
    await untilGone(name);
  };
  const untilGone = (name: string) =>
    until(
      `${name} is gone`,
      () =>
        record(name).then(
          () => false,
          (error: unknown) => String(error).includes("does not exist"),
        ),
      PATIENT,
    );
  const cordon = (node: string, unschedulable: boolean) =>
    world.calls.patch<V1Node>({ apiVersion: "v1", plural: "nodes" }, node, {
      kind: "merge",
      body: { spec: { unschedulable } },
    });
  const untilFree = (count: number) =>
    until(
      `${count} machines are free`,
      async () => (await ledger.listPools({})).pools.find(({ name }) => name === "n")?.available === count,
      PATIENT,
    );

  beforeAll(async () => {
    world = await openFarmWorld(await embedded.start(), NODES);
    ledger = makePatientClient(makeClient(world.bus, ReservationService));
    ledgerProcess = await world.startLedger();
    farms = [await world.startFarm({ FARM_RESYNC_MS: "2000" }), await world.startFarm({ FARM_RESYNC_MS: "2000" })];
    await waitUntilReady(world);
    await until(
      "the ledger knows the nodes",
      async () => {
        const reply = await ledger.listPools({}).catch(() => undefined);
        return reply?.pools.find(({ name }) => name === "n")?.available === NODES;
      },
      PATIENT,
    );
  }, 240_000);

  afterAll(async () => {
    await world[Symbol.asyncDispose]();
  });

  afterEach(() => untilFree(NODES));

  it("run on granted machines, one reservation per replica, and release the machines that they leave", async () => {
    await apply("web", 2);
    const set = await waitForSettled(world, "web", 2);
    expect(await nodesHeld()).toEqual(listNodes(set));
    expect((await reserved()).map(({ id }) => id)).toEqual(["web--1", "web--2"]);
    const pods = await world.pods("web");
    expect(pods.map(({ metadata }) => metadata?.labels?.["muster.dev/exclusive"])).toEqual(["true", "true"]);
    await scale("web", 3);
    await waitForSettled(world, "web", 3);
    await scale("web", 1);
    const left = await waitForSettled(world, "web", 1);
    await untilFree(NODES - 1);
    expect(await nodesHeld()).toEqual(listNodes(left));
    expect(await world.pods("web")).toHaveLength(1);
    await remove("web");
    expect(await reserved()).toEqual([]);
  });

  it("leave a cordoned machine for another one, and release it", async () => {
    await apply("moves", 1);
    const [old = ""] = listNodes(await waitForSettled(world, "moves", 1));
    await cordon(old, true);
    await until(
      "it is on another machine alone",
      async () => {
        const [node, ...more] = listNodes(await waitForSettled(world, "moves", 1));
        return more.length === 0 && node !== old;
      },
      PATIENT,
    );
    await until("the old machine is released", async () => !(await nodesHeld()).includes(old), PATIENT);
    const { records } = await world.farms.listAudit({ name: "moves" });
    expect(records.filter(({ eventType }) => eventType === "NODE_TRANSFER_COMPLETION")).toHaveLength(1);
    await cordon(old, false);
    await remove("moves");
  });

  it("report that they wait for a machine, and take it when it is released, whichever farm owns them then", async () => {
    await reserveForJob("busy", NODES - 1);
    await apply("waits", 2);
    const waiting = await until(
      "the set reports that it waits",
      async () => {
        const { set } = await world.farms.getReplicaSet({ name: "waits" });
        return set?.record?.trouble?.code === "WAITING_FOR_MACHINE" && set.healthy === 1 && set;
      },
      PATIENT,
    );
    expect(waiting.record?.trouble?.message).toBe("it is waiting for a machine of pool n: POOL_AVAILABILITY");
    const owner = farms.find(({ pid }) => waiting.farm.includes(`-${pid}-`));
    expect(owner, "the owner is one of ours").toBeDefined();
    await owner?.kill();
    farms = [...farms.filter((farm) => farm !== owner), await world.startFarm({ FARM_RESYNC_MS: "2000" })];
    await releaseOfJob("busy");
    const set = await waitForSettled(world, "waits", 2);
    expect((await reserved()).map(({ id }) => id)).toEqual(["waits--1", "waits--2"]);
    expect(await nodesHeld()).toEqual(listNodes(set));
    await until("the trouble is over", async () => !(await record("waits"))?.trouble, PATIENT);
    await remove("waits");
  });

  it("stay unchanged while the ledger is away, report it, and continue when it is back", async () => {
    await apply("blind", 1);
    await waitForSettled(world, "blind", 1);
    await ledgerProcess.kill();
    await scale("blind", 2);
    await until(
      "it reports that the ledger is away",
      async () => (await record("blind"))?.trouble?.code === "LEDGER_AWAY",
      PATIENT,
    );
    expect((await world.farms.getReplicaSet({ name: "blind" })).set).toMatchObject({ healthy: 1 });
    ledgerProcess = await world.startLedger();
    await waitForSettled(world, "blind", 2);
    await remove("blind");
  });

  it("show the ledger's refusals, and refuse requests that the ledger cannot grant", async () => {
    await expect(apply("nowhere", 1, { pool: "none" })).rejects.toThrow(/there is no pool "none"/);
    // Creates the record of a set that was applied while the pool existed.
    const sets = makeRecords(await openRecords(world.bus.connection, buckets.replicaSets, setCodec));
    const spec = makeSpec({ podId: "nowhere", pool: "none", nodeSelector: "", replicasDesired: 1 });
    await sets.create("nowhere", makeSet({ name: "nowhere", spec, fence: 0 }));
    const shown = await until(
      "it states the reason",
      async () => {
        const found = await record("nowhere");
        return found?.trouble?.code === "MACHINE_REFUSED" && found;
      },
      PATIENT,
    );
    expect(shown.trouble?.message).toContain("none");
    await remove("nowhere");
    await expect(apply("each", 1, { daemon: true })).rejects.toThrow(/spec.daemon/);
    await expect(apply("chosen", 1, { nodeSelector: "disk=ssd" })).rejects.toThrow(/spec.node_selector/);
    await expect(apply("two--hyphens", 1)).rejects.toThrow(/two hyphens/);
    await apply("kept", 0);
    await expect(world.farms.deleteReplicaSet({ requestId: "k", name: "kept", keepPods: true })).rejects.toThrow(
      /cannot stay/,
    );
    await remove("kept");
  });

  it("are rolled on a full pool and never have less than the minimum healthy", async () => {
    await reserveForJob("neighbour", 1);
    await apply("old", 3, { podId: "rolled" });
    await waitForSettled(world, "old", 3);
    await world.farms.createRoll({
      requestId: "r",
      oldSet: "old",
      newSet: "new",
      templateJson: buildTemplate("2"),
      minimumReplicas: 2,
    });
    const healthy: number[] = [];
    await until(
      "the update has ended",
      async () => {
        const { rolls } = await world.farms.listRolls({});
        const roll = rolls.find(({ record: of }) => of?.id === "new");
        if (roll?.record?.phase === muster.farm.v1.RollPhase.ROLL_PHASE_RUNNING)
          healthy.push(roll.oldHealthy + roll.newHealthy);
        return roll === undefined;
      },
      { timeoutMs: 90_000, everyMs: 50 },
    );
    const set = await waitForSettled(world, "new", 3);
    await untilGone("old");
    expect(Math.min(...healthy)).toBeGreaterThanOrEqual(2);
    expect(await nodesHeld()).toEqual(listNodes(set));
    expect((await reserved()).every(({ id }) => id.startsWith("new--"))).toBe(true);
    await remove("new");
    await releaseOfJob("neighbour");
  });

  it("that do not exist lose their reservations, and no other reservation is taken for a set's", async () => {
    await apply("stays", 1);
    await waitForSettled(world, "stays", 1);
    const needs = [{ component: "replica", pool: "n" }];
    for (const id of ["ghost--7", "not-a-part"])
      await ledger.reserve({ requestId: id, owner: { kind: "replica-set", id }, needs });
    await until(
      "the ghost's machine is released",
      async () => !(await reserved()).some(({ id }) => id === "ghost--7"),
      PATIENT,
    );
    expect((await reserved()).map(({ id }) => id)).toEqual(["not-a-part", "stays--1"]);
    await remove("stays");
    const owner = { kind: "replica-set", id: "not-a-part" };
    const { reservation } = await ledger.getReservation({ owner });
    await ledger.unreserve({ requestId: "u", owner, reservationId: reservation?.id ?? "" });
  });

  it("request machines in the queue of the set, and move to another one while they wait", async () => {
    await untilFree(NODES);
    const queues = await openBucket(world.bus.connection, { name: buckets.queues, codec: makeProtoCodec(Queue) });
    const serving = { weightMilli: 1000, namespaces: {} };
    const label = (queue: string) => ({ labels: { "muster.dev/queue": queue } });
    const queued = async () =>
      (await ledger.listReservations({ ownerKind: "replica-set" })).reservations.map(({ queue }) => queue);
    const troubleOf = async (name: string) => (await record(name))?.trouble?.message ?? "";
    await queues.create("held", { ...serving, name: "held", stopPolicy: "Hold" });
    await queues.create("team", { ...serving, name: "team" });
    await until("the ledger follows them", async () => (await ledger.listQueues({})).queues.length === 2, PATIENT);
    await apply("queued", 1, label("other"));
    await until("its queue does not exist", async () => (await troubleOf("queued")).includes("QUEUE_UNKNOWN"), PATIENT);
    expect(await queued()).toEqual([]);
    await apply("queued", 1, label("held"));
    await until("it waits", async () => (await troubleOf("queued")).includes("QUEUE_HELD"), PATIENT);
    expect(await queued()).toEqual(["held"]);
    await apply("queued", 1, label("team"));
    await until("it has a machine", async () => (await record("queued"))?.placements.length === 1, PATIENT);
    expect(await queued()).toEqual(["team"]);
    const counted = await ledger.listQueues({});
    expect(counted.queues.map(({ queue, admitted }) => [queue?.name, admitted])).toEqual([
      ["held", 0],
      ["team", 1],
    ]);
    await remove("queued");
    for (const { key, revision } of await queues.list()) await queues.delete(key, revision);
  });
});
