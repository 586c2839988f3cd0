import type { V1Pod } from "@kubernetes/client-node";
import { annotations, buckets, labels, streams, subjects } from "@muster/proto";
import { readInstallationId, openBucket } from "@muster/store";
import { until } from "@muster/testkit";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { makePlacement } from "./a-set.ts";
import { EMBEDDED } from "./api-servers.ts";
import { openFarmStore, waitForPlaced, listUids, type FarmStore } from "./farm-store.ts";
import { waitForAlert, openFarmWorld, waitUntilReady, buildTemplate, type FarmWorld } from "./farm-world.ts";
import { startMeteredFarm, type MeteredFarm } from "./metered-farm.ts";

const PODS = { apiVersion: "v1", plural: "pods", namespace: "default" };
const PATIENT = { timeoutMs: 90_000, everyMs: 50 };

it("a farm of a new installation removes nothing and raises no alert", { timeout: 300_000 }, async () => {
  await using world = await openFarmWorld(await EMBEDDED.start(), 1);
  const farm = await startMeteredFarm(world, { FARM_SWEEP_MS: "100" });
  await waitUntilReady(world);
  await until("it has swept several times", async () => (await farm.waits("failsafe")) > 3, PATIENT);
  expect(await world.bus.readMessage(streams.events.name, subjects.farmAlerted("no-sets"), 1)).toBeUndefined();
});

describe("a farm that finds no desired replicas", { timeout: 300_000 }, () => {
  let world: FarmWorld;
  let store: FarmStore;
  let farm: MeteredFarm;

  beforeAll(async () => {
    world = await openFarmWorld(await EMBEDDED.start(), 3);
    store = await openFarmStore(world.bus);
    await Promise.all(["n-0", "n-1", "n-2"].map((node) => world.label(node, { zone: "a" })));
    await makePod("lost-1", "lost");
    // The pod of another installation is first in the list, so a farm that ignores installations would delete it first.
    await makePod("alien-1", "alien", {}, { [labels.installation]: "muster-0123456789abcdef" });
    await makePod("kept-1", "lost", { [annotations.kept]: "wanted for a look at its files" });
    await makePod("corrupt-1", "corrupt");
    farm = await startMeteredFarm(world, { FARM_SWEEP_MS: "100" });
    await waitUntilReady(world);
  }, 240_000);

  afterAll(() => world[Symbol.asyncDispose]());

  type Texts = Readonly<Record<string, string>>;
  const makePod = async (name: string, set: string, notes: Texts = {}, marks: Texts = {}): Promise<void> => {
    const own = { [labels.ownerKind]: "replica-set", [labels.owner]: set, [labels.ownerUid]: "u", ...marks };
    const { spec } = JSON.parse(buildTemplate()) as Required<Pick<V1Pod, "spec">>;
    const metadata = { name, labels: { ...own, replication_controller_id: set }, annotations: notes };
    await world.calls.create<V1Pod>(PODS, { apiVersion: "v1", kind: "Pod", metadata, spec });
  };
  const isThere = (pod: string): Promise<boolean> =>
    world.calls.get(PODS, pod).then(
      () => true,
      () => false,
    );
  const hasLookedOften = async (because: string, times = 10): Promise<void> => {
    const waited = (await farm.waits(because).catch(() => 0)) + times;
    await until("it has looked often", async () => (await farm.waits(because)) > waited, PATIENT);
  };

  it("removes nothing, and reports it", async () => {
    await waitForAlert(world, "no-sets");
    await hasLookedOften("failsafe");
    expect((await world.pods("lost")).map(({ metadata }) => metadata?.name).toSorted()).toEqual(["kept-1", "lost-1"]);
    // As if a number that was not understood had been read as none.
    await store.create("zeroed", { nodeSelector: "zone=a", replicasDesired: 0 });
    await store.change("zeroed", (set) => ({ ...set, placements: [makePlacement("n-0", 1)], nextOrdinal: 2 }));
    await waitForAlert(world, "no-replicas");
    await waitForPlaced(world, store, "zeroed", 1);
    await hasLookedOften("failsafe");
    expect((await store.set("zeroed")).placements).toHaveLength(1);
  });

  it("leaves an unreadable record and its pods unchanged, and continues with the others", async () => {
    const codec = { encode: (bytes: Uint8Array) => bytes, decode: (bytes: Uint8Array) => bytes };
    const raw = await openBucket(world.bus.connection, { name: buckets.replicaSets, codec });
    await raw.create("corrupt", new Uint8Array([255]));
    await waitForAlert(world, "unreadable_set_corrupt");
    await store.create("wanted", { nodeSelector: "zone=a", replicasDesired: 2 });
    await waitForPlaced(world, store, "wanted", 2);
    await until("what is not wanted is gone", async () => (await world.pods("zeroed")).length === 0, PATIENT);
    expect((await raw.get("corrupt"))?.value).toEqual(new Uint8Array([255]));
  });

  it("once some are desired, removes the pods of missing sets, except those marked to stay", async () => {
    await until("the pod without a set is gone", async () => !(await isThere("lost-1")), PATIENT);
    expect(await isThere("kept-1")).toBe(true);
    expect(await isThere("corrupt-1")).toBe(true);
  });

  it("keeps the pods of another installation, and counts them", async () => {
    expect(await isThere("alien-1")).toBe(true);
    expect(await farm.leftAlone()).toBe(1);
    const [ours] = await world.pods("wanted");
    expect(ours?.metadata?.labels?.[labels.installation]).toBe(await readInstallationId(world.bus.connection));
  });

  it("reports an unreadable record, which only a forced deletion removes, and its pods after it", async () => {
    const { farms } = world;
    const { unreadable } = await farms.listReplicaSets({});
    expect(unreadable).toMatchObject([{ name: "corrupt" }]);
    expect(unreadable[0]?.because).not.toBe("");
    const request = { requestId: "gone", name: "corrupt" };
    await expect(farms.deleteReplicaSet(request)).rejects.toThrow(/cannot be read/);
    await expect(farms.deleteReplicaSet({ ...request, force: true, keepPods: true })).rejects.toThrow(/be kept/);
    expect((await farms.deleteReplicaSet({ ...request, force: true })).set ?? undefined).toBeUndefined();
    await expect(farms.getReplicaSet({ name: "corrupt" })).rejects.toThrow(/does not exist/);
    const { records } = await farms.listAudit({ name: "corrupt" });
    expect(records.map(({ eventType }) => eventType)).toEqual(["DELETED"]);
    await until("its pod is gone", async () => !(await isThere("corrupt-1")), PATIENT);
  });

  it("gives the nodes of two concurrently created sets of one pod id to one of them", async () => {
    // As many as one of them wants: with a third one, the first to place could keep a node that the other does not need.
    await Promise.all(["n-0", "n-1"].map((node) => world.label(node, { twin: "yes" })));
    // No request has compared them, as when both were looked at before either was there.
    await store.create("twin-b", { podId: "twin", nodeSelector: "twin", replicasDesired: 2 });
    await store.create("twin-a", { podId: "twin", nodeSelector: "twin=yes", replicasDesired: 2 });
    await waitForAlert(world, "overlap_twin-b");
    await waitForPlaced(world, store, "twin-a", 2);
    await waitForPlaced(world, store, "twin-b", 0);
    const troubles = async () => Promise.all(["twin-a", "twin-b"].map(async (name) => (await store.set(name)).trouble));
    await until(
      "the one that leaves the nodes reports it, and the other one has no trouble",
      async () => (await troubles()).map((trouble) => trouble?.code).join() === ",OVERLAP",
      PATIENT,
    );
  });

  it("keeps the pods of a daemon set for which no node is eligible any more", async () => {
    await store.create("daemon", { nodeSelector: "zone=a", daemon: true });
    const uids = listUids(await waitForPlaced(world, store, "daemon", 3));
    await store.change("daemon", (set) => ({ ...set, spec: { ...set.spec, nodeSelector: "zone=b" } }));
    await waitForAlert(world, "no_eligible_nodes_daemon");
    await hasLookedOften("no-eligible-nodes");
    expect(listUids(await world.pods("daemon"))).toEqual(uids);
    await world.label("n-1", { zone: "b" });
    const left = listUids(await waitForPlaced(world, store, "daemon", 1));
    expect(uids).toEqual(expect.arrayContaining(left));
    await until("its trouble is over", async () => (await store.set("daemon")).trouble === undefined, PATIENT);
  });

  it("leaves every pod where it is when all records are lost, and reports it", async () => {
    // The leftovers of earlier tests go first: one of the nodes is in another zone now.
    await until(
      "no set has a place that it leaves",
      async () => {
        const { placements, transfer } = await store.set("wanted");
        return transfer === undefined && placements.every(({ node }) => node !== "n-1");
      },
      PATIENT,
    );
    await waitForPlaced(world, store, "wanted", 2);
    await until("no pod is on its way out", async () => {
      const pods = await world.calls.list<V1Pod>(PODS);
      return pods.items.every(({ metadata }) => metadata?.deletionTimestamp === undefined);
    });
    const names = async () => {
      const { items } = await world.calls.list<V1Pod>(PODS);
      return items.map(({ metadata }) => metadata?.name).toSorted();
    };
    const before = await names();
    process.kill(farm.pid, "SIGSTOP");
    for (const { key, revision } of await store.sets.list()) await store.sets.delete(key, revision);
    process.kill(farm.pid, "SIGCONT");
    await waitForAlert(world, "no-sets-for-pods");
    // Each look waits for the answer of a ledger that is not there.
    await hasLookedOften("no-sets-for-pods", 1);
    expect(await names()).toEqual(before);
    expect(before).toContain("kept-1");
    expect(before.length).toBeGreaterThan(1);
  });
});
