import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { startFaultyApi, type FaultyApi } from "@muster/devcluster";
import { bucketKeys, buckets, muster } from "@muster/proto";
import { openBucket, makeProtoCodec } from "@muster/store";
import { until } from "@muster/testkit";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { EMBEDDED } from "./api-servers.ts";
import { openFarmStore, waitForPlaced, listUids, type FarmStore } from "./farm-store.ts";
import { openFarmWorld, type FarmWorld } from "./farm-world.ts";
import { startMeteredFarm, type MeteredFarm } from "./metered-farm.ts";

const PODS = { apiVersion: "v1", plural: "pods", namespace: "default" };

describe("a farm", () => {
  let world: FarmWorld;
  let store: FarmStore;
  let api: FaultyApi;
  let directory: string;
  let farm: MeteredFarm;

  beforeAll(async () => {
    const server = await EMBEDDED.start();
    world = await openFarmWorld(server, 3);
    directory = await mkdtemp(join(tmpdir(), "muster-farm-outages-"));
    api = await startFaultyApi({ kubeconfig: server.kubeconfig, directory, seed: 1 });
    store = await openFarmStore(world.bus);
    await Promise.all(["n-0", "n-1", "n-2"].map((node) => world.label(node, { zone: "a" })));
    farm = await startMeteredFarm(world, { MUSTER_KUBECONFIG: api.kubeconfig });
    await store.create("web", { nodeSelector: "zone=a", replicasDesired: 2 });
  }, 300_000);

  afterAll(async () => {
    await api[Symbol.asyncDispose]();
    await world[Symbol.asyncDispose]();
    await rm(directory, { recursive: true, force: true });
  });

  const removed = async (): Promise<number> =>
    (await api.counters()).rules.find(({ id }) => id === "deletes")?.matched ?? 0;
  const countDeletes = () =>
    api.inject({ id: "deletes", match: { verbs: ["delete"], resources: ["pods"] }, fault: { do: "delay", ms: 1 } });

  it("without NATS keeps all pods, and continues when it is back", async () => {
    const before = listUids(await waitForPlaced(world, store, "web", 2));
    await countDeletes();
    const [{ metadata } = {}] = await world.pods("web");
    await world.nats.kill();
    await until("it has given up what it owned", async () => (await farm.owned()) === 0);
    await world.calls.delete(PODS, metadata?.name ?? "", { preconditions: { uid: metadata?.uid ?? "" } });
    await until("one pod is gone", async () => (await world.pods("web")).length === 1);
    const left = listUids(await world.pods("web"));
    await world.nats.start();
    const after = listUids(await waitForPlaced(world, store, "web", 2));
    expect(after.filter((uid) => before.includes(uid))).toEqual(left);
    expect(await removed()).toBe(0);
    await api.remove();
  }, 300_000);

  it("concludes nothing about nodes and pods while the watcher is silent", async () => {
    const pods = await waitForPlaced(world, store, "web", 2);
    const { placements } = await store.set("web");
    await world.watcher.kill();
    const { NodesComplete, NodeState } = muster.watch.v1;
    const nodes = await openBucket(world.bus.connection, { name: buckets.nodes, codec: makeProtoCodec(NodeState) });
    const marks = await openBucket(world.bus.connection, { name: buckets.nodes, codec: makeProtoCodec(NodesComplete) });
    const mark = await marks.get(bucketKeys.nodesComplete);
    await marks.update(bucketKeys.nodesComplete, { atMs: 1 }, mark?.revision ?? 0);
    // As if it had begun to report its nodes, and had not come to these.
    for (const { key, revision } of await nodes.list())
      if (key !== bucketKeys.nodesComplete) await nodes.delete(key, revision);
    await store.change("web", (set) => ({ ...set, spec: { ...set.spec, replicasDesired: 1 } }));
    await countDeletes();
    const waited = await farm.waits("nodes-unknown");
    await until("it has looked often", async () => (await farm.waits("nodes-unknown")) > waited + 10, {
      timeoutMs: 90_000,
    });
    expect((await store.set("web")).placements).toEqual(placements);
    expect(listUids(await world.pods("web"))).toEqual(listUids(pods));
    expect(await removed()).toBe(0);
    await world.startWatcher();
    const after = listUids(await waitForPlaced(world, store, "web", 1));
    expect(listUids(pods)).toEqual(expect.arrayContaining(after));
  }, 300_000);
});
