import type { V1Node } from "@kubernetes/client-node";
import { until } from "@muster/testkit";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { API_SERVERS } from "./api-servers.ts";
import { openFarmStore, waitForPlaced, type FarmStore } from "./farm-store.ts";
import { openFarmWorld, waitUntilReady, buildTemplate, type FarmWorld } from "./farm-world.ts";

const NODES = { apiVersion: "v1", plural: "nodes" };
const HARMS = ["gone", "off", "cordoned", "tainted"] as const;
type Harm = (typeof HARMS)[number];
/** A pod of it starts only on the second node of a pair, so that it waits for its place on the first. */
const TEMPLATE = JSON.stringify({
  spec: { ...(JSON.parse(buildTemplate()) as { spec: object }).spec, nodeSelector: { starts: "yes" } },
});
const PATIENT = { timeoutMs: 90_000, everyMs: 100 };

describe.each(API_SERVERS)("a node that is lost before the pod for it starts, under $title", ({ skip, start }) => {
  let world: FarmWorld;
  let store: FarmStore;

  beforeAll(async () => {
    if (skip) return;
    world = await openFarmWorld(await start(), 2 * HARMS.length);
    store = await openFarmStore(world.bus);
    await world.startFarm({ FARM_NODE_GRACE_MS: "100", FARM_RESYNC_MS: "300" });
    await waitUntilReady(world);
    for (const [index, harm] of HARMS.entries()) {
      await world.label(`n-${2 * index}`, { pair: harm });
      await world.label(`n-${2 * index + 1}`, { pair: harm, starts: "yes" });
    }
  }, 300_000);

  afterAll(async () => {
    if (!skip) await world[Symbol.asyncDispose]();
  });

  /** Waits until the set's pod may be scheduled to its node, which does not fit it. */
  const waitsForNode = async (name: string, node: string): Promise<void> => {
    await until(
      `the pod of ${name} waits for ${node}`,
      async () => {
        const [placement] = (await store.set(name)).placements;
        const [pod] = await world.pods(name);
        const isReleased = pod?.spec?.nodeName === undefined && (pod?.spec?.schedulingGates ?? []).length === 0;
        return pod !== undefined && placement?.node === node && isReleased;
      },
      PATIENT,
    );
  };

  const harmNode = async (index: number, how: Harm): Promise<void> => {
    const name = `n-${index}`;
    if (how === "gone") {
      await world.kubelets[index]?.die();
      await world.calls.delete(NODES, name);
    } else if (how === "off") {
      await world.kubelets[index]?.die();
      const lastTransitionTime = new Date().toISOString();
      const body = { status: { conditions: [{ type: "Ready", status: "Unknown", lastTransitionTime }] } };
      await world.calls.patch<V1Node>(NODES, name, { kind: "strategic", body }, { subresource: "status" });
    } else {
      const taints = [{ key: "example.com/away", effect: "NoSchedule" }];
      const spec = how === "cordoned" ? { unschedulable: true } : { taints };
      await world.calls.patch<V1Node>(NODES, name, { kind: "strategic", body: { spec } });
    }
  };

  it.skipIf(skip)(
    "is left by a dynamic set, reported by a static one, and no pod waits for a missing node",
    async () => {
      const sets = HARMS.map((harm, index) => ({
        harm,
        index: 2 * index,
        moves: `moves-${harm}`,
        stays: `stays-${harm}`,
      }));
      for (const { harm, index, moves, stays } of sets) {
        const spec = { nodeSelector: `pair=${harm}`, replicasDesired: 1, template: TEMPLATE };
        await store.create(moves, spec);
        await store.create(stays, { ...spec, allocationStrategy: "static" });
        await waitsForNode(moves, `n-${index}`);
        await waitsForNode(stays, `n-${index}`);
      }
      for (const { harm, index } of sets) await harmNode(index, harm);
      for (const { index, moves } of sets) {
        const [pod] = await waitForPlaced(world, store, moves, 1);
        expect(pod?.spec?.nodeName, moves).toBe(`n-${index + 1}`);
      }
      for (const { harm, index, stays } of sets) {
        await until(
          `${stays} reports its node`,
          async () => {
            const { set } = await world.farms.getReplicaSet({ name: stays });
            const [replica] = set?.replicas ?? [];
            return (
              replica?.node === `n-${index}` && !replica.eligible && (harm !== "gone" || replica.reason === "NODE_GONE")
            );
          },
          PATIENT,
        );
      }
      expect(await world.pods("stays-gone")).toEqual([]);
    },
    300_000,
  );
});
