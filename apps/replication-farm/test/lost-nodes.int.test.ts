import type { V1Node } from "@kubernetes/client-node";
import { labels } from "@muster/proto";
import { until } from "@muster/testkit";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { API_SERVERS } from "./api-servers.ts";
import { openFarmStore, waitForPlaced, type FarmStore } from "./farm-store.ts";
import { openFarmWorld, buildTemplate, type FarmWorld } from "./farm-world.ts";

const NODES = { apiVersion: "v1", plural: "nodes" };
const PODS = { apiVersion: "v1", plural: "pods", namespace: "default" };
const LOST = { FARM_NODE_GRACE_MS: "100", FARM_NODE_LOST_MS: "100", FARM_RESYNC_MS: "300" };

describe.each(API_SERVERS)("a node that dies, under $title", ({ skip, start }) => {
  let world: FarmWorld;
  let store: FarmStore;

  beforeAll(async () => {
    if (skip) return;
    world = await openFarmWorld(await start(), 4);
    store = await openFarmStore(world.bus);
    await world.startFarm(LOST);
  }, 300_000);

  afterAll(async () => {
    if (!skip) await world[Symbol.asyncDispose]();
  });

  /** As the node life cycle does after a while; until then it is unknown. */
  const die = async (index: number): Promise<void> => {
    await world.kubelets[index]?.die();
    const lastTransitionTime = new Date().toISOString();
    const body = { status: { conditions: [{ type: "Ready", status: "Unknown", lastTransitionTime }] } };
    const patch = { kind: "strategic", body } as const;
    await world.calls.patch<V1Node>(NODES, `n-${index}`, patch, { subresource: "status" });
  };

  it.skipIf(skip)("loses its sets, and their pods on it are removed without its confirmation", async () => {
    await Promise.all(["n-0", "n-1"].map((node) => world.label(node, { moves: "yes" })));
    await store.create("moves", { nodeSelector: "moves=yes", replicasDesired: 1 });
    await waitForPlaced(world, store, "moves", 1);
    await die(0);
    await until("it is on the other node", async () => {
      const { placements, transfer } = await store.set("moves");
      return transfer === undefined && placements.map(({ node }) => node).join() === "n-1";
    });
    await waitForPlaced(world, store, "moves", 1);
  });

  it.skipIf(skip)("blocks neither the end of a deleted set nor the sweep", async () => {
    await world.label("n-2", { goes: "yes" });
    await store.create("goes", { nodeSelector: "goes=yes", replicasDesired: 1 });
    await waitForPlaced(world, store, "goes", 1);
    const own = { [labels.ownerKind]: "replica-set", [labels.owner]: "missing", [labels.ownerUid]: "u" };
    const { spec } = JSON.parse(buildTemplate()) as { spec: object };
    const metadata = { name: "orphan", labels: own };
    await world.calls.create(PODS, {
      apiVersion: "v1",
      kind: "Pod",
      metadata,
      spec: { ...spec, nodeName: "n-2" },
    });
    await die(2);
    await store.change("goes", (set) => ({ ...set, deletion: { keepPods: false, atMs: 1 } }));
    await until("its record is gone", async () => (await store.sets.get("goes")) === undefined, { timeoutMs: 90_000 });
    expect(await world.pods("goes")).toEqual([]);
    await until(
      "the orphan is gone",
      () =>
        world.calls.get(PODS, "orphan").then(
          () => false,
          () => true,
        ),
      { timeoutMs: 90_000 },
    );
  });
});
