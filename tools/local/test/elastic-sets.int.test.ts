import { readFile } from "node:fs/promises";
import { makeClient, connectNats, type Client } from "@muster/bus";
import { type MachineControls, makeRemoteMachineControls } from "@muster/devcluster";
import { findFault } from "@muster/faults";
import { FarmService, muster } from "@muster/proto";
import { makePatientClient, until } from "@muster/testkit";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { ELASTIC, type Elastic } from "../src/elastic.ts";
import { startWorld, type World } from "./stack-world.ts";

const PATIENT = { timeoutMs: 150_000, everyMs: 100 };
/** Keeps no standby machine. */
const EMPTY = "elastic";
/** Keeps one standby machine. */
const KEPT = "kept";
const POOLS = ELASTIC.pools.map((pool) => ({ ...pool, idle: "2s" }));
const STANDBY = [{ instanceType: "small", count: 1 }];
const TWO_POOLS: Elastic = {
  ...ELASTIC,
  pools: [...POOLS, ...POOLS.map((pool) => ({ ...pool, name: KEPT, standby: STANDBY }))],
};

describe("a pinned replica set on an elastic pool", { timeout: 500_000 }, () => {
  let world: World;
  let cloud: MachineControls;
  let farms: Client<typeof FarmService>;
  const stack = new AsyncDisposableStack();

  beforeAll(async () => {
    world = stack.use(await startWorld({ elastic: TWO_POOLS, pools: { drivers: 1 } }));
    const { url = "", tokenFile = "" } = world.stack.cloud ?? {};
    cloud = makeRemoteMachineControls({ url, token: await readFile(tokenFile, "utf8") });
    farms = makePatientClient(
      makeClient(stack.use(await connectNats({ ...world.stack.nats, name: "test" })), FarmService),
    );
    await until("a farm answers", () => farms.listReplicaSets({}).then(() => true), PATIENT);
    await untilPool(KEPT, 1);
  }, 300_000);

  afterAll(() => stack.disposeAsync(), 60_000);

  const poolNow = async (name: string) => (await world.ledger.listPools({})).pools.find((pool) => pool.name === name);
  /** Waits until the pool has this number of machines, all free. */
  const untilPool = (name: string, machines: number) =>
    until(
      `pool ${name} has ${machines} machines, all free`,
      async () => {
        const { capacity, available, elasticMax } = (await poolNow(name)) ?? {};
        return elasticMax === 8 && capacity === machines && available === machines;
      },
      PATIENT,
    );
  const apply = (name: string, pool: string, replicasDesired: number) => {
    const containers = [{ name: "main", image: "scripted", command: ["sleep", "100000"] }];
    const spec = {
      podId: name,
      templateJson: JSON.stringify({ spec: { terminationGracePeriodSeconds: 1, containers } }),
      pool,
      replicasDesired,
      allocationStrategy: muster.farm.v1.AllocationStrategy.ALLOCATION_STRATEGY_DYNAMIC,
    };
    return farms.applyReplicaSet({ requestId: name, name, spec });
  };
  const scale = (name: string, replicasDesired: number) =>
    farms.scaleReplicaSet({ requestId: `${name}-${replicasDesired}`, name, replicasDesired });
  /** Waits until all replicas are healthy, each on its own reserved machine. */
  const untilHealthy = (name: string, replicas: number) =>
    until(
      `${name} has ${replicas} healthy replicas, each on its own machine`,
      async () => {
        const { set } = await farms.getReplicaSet({ name });
        const { reservations } = await world.ledger.listReservations({ ownerKind: "replica-set" });
        const own = reservations.filter(({ owner }) => owner?.id.startsWith(`${name}--`));
        const reserved = own.map(({ machines }) => machines[0]?.node ?? "").toSorted();
        const nodes = set?.record?.placements.map(({ node }) => node) ?? [];
        return set?.healthy === replicas && nodes.length === replicas && reserved.join() === nodes.join();
      },
      PATIENT,
    );
  const remove = async (name: string) => {
    await farms.deleteReplicaSet({ requestId: `${name}-end`, name, force: true });
    await until(
      `${name} is gone`,
      () =>
        farms.getReplicaSet({ name }).then(
          () => false,
          (error: unknown) => findFault(error)?.code === "not_found",
        ),
      PATIENT,
    );
  };

  it("boots a machine for each replica, and releases machines that it no longer uses, until the pool is empty", async () => {
    const { launched } = await cloud.counters();
    await apply("web", EMPTY, 3);
    await untilHealthy("web", 3);
    expect((await cloud.counters()).launched - launched).toBe(3);
    await scale("web", 1);
    await untilHealthy("web", 1);
    await until("the pool has one machine", async () => (await poolNow(EMPTY))?.capacity === 1, PATIENT);
    await remove("web");
    await untilPool(EMPTY, 0);
    expect((await cloud.counters()).launched - launched).toBe(3);
  });

  it("leaves its pool the standby machines when it is deleted", async () => {
    await apply("api", KEPT, 2);
    await untilHealthy("api", 2);
    await remove("api");
    await untilPool(KEPT, 1);
    await until(
      "the cloud has no other machine",
      async () => {
        const { launched, gone } = await cloud.counters();
        return launched - gone === 1;
      },
      PATIENT,
    );
  });
});
