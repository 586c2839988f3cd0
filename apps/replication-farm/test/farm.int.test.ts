import type { V1Pod } from "@kubernetes/client-node";
import { buckets } from "@muster/proto";
import { openBucket } from "@muster/store";
import { until } from "@muster/testkit";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { API_SERVERS } from "./api-servers.ts";
import {
  listAudits,
  openFarmWorld,
  isMissing,
  listNodes,
  waitUntilReady,
  waitForSettled,
  buildSpec,
  buildTemplate,
  type FarmProcess,
  type FarmWorld,
  PODS,
} from "./farm-world.ts";

/** Longer than a busy machine pauses: a set that changes its owner is written. */
const STEADY = { FARM_SESSION_TTL_MS: "15000" };

describe.each(API_SERVERS)("replica sets on $title", { timeout: 300_000 }, ({ skip, start }) => {
  let world: FarmWorld;
  let farms: FarmProcess[];
  const labelled = (label: string, ...nodes: string[]) =>
    Promise.all(nodes.map((node) => world.label(node, { [label]: "yes" })));
  const apply = (name: string, spec: ReturnType<typeof buildSpec>) =>
    world.farms.applyReplicaSet({ requestId: name, name, spec });
  const audits = (name: string) => listAudits(world, name);

  beforeAll(async () => {
    if (skip) return;
    world = await openFarmWorld(await start(), 5);
    // Before the farms start, so that whichever of them is asked knows it.
    await labelled("fought", "n-3");
    farms = [await world.startFarm(STEADY), await world.startFarm(STEADY)];
    await waitUntilReady(world);
  }, 300_000);

  afterAll(async () => {
    if (!skip) await world[Symbol.asyncDispose]();
  });

  it.skipIf(skip)("run on the selected nodes, one pod per node, and follow their number", async () => {
    await labelled("up", "n-0", "n-1", "n-2");
    await apply("up", buildSpec("up=yes", 2));
    const set = await waitForSettled(world, "up", 2);
    expect(listNodes(set)).toEqual(["n-0", "n-1"]);
    const pods = await world.pods("up");
    expect(pods.map(({ spec }) => spec?.nodeName).sort()).toEqual(["n-0", "n-1"]);
    expect(pods[0]?.metadata?.labels).toMatchObject({ pod_id: "up", "muster.dev/owner-kind": "replica-set" });

    await world.farms.scaleReplicaSet({ requestId: "s1", name: "up", replicasDesired: 3 });
    await waitForSettled(world, "up", 3);
    await world.farms.scaleReplicaSet({ requestId: "s2", name: "up", replicasDesired: 1 });
    await waitForSettled(world, "up", 1);
    await until("surplus pods are gone", async () => (await world.pods("up")).length === 1);
    await world.farms.scaleReplicaSet({ requestId: "s3", name: "up", replicasDesired: 0 });
    await waitForSettled(world, "up", 0);
    await until("no pod is left", async () => (await world.pods("up")).length === 0);
    expect(await audits("up")).toEqual([
      "CREATED",
      "REPLICATION_CONTROLLER_RETARGET",
      "SCALED",
      "REPLICATION_CONTROLLER_RETARGET",
      "SCALED",
      "REPLICATION_CONTROLLER_RETARGET",
      "SCALED",
      "REPLICATION_CONTROLLER_RETARGET",
    ]);
  });

  it.skipIf(skip)("leave a node whose labels no longer match, once the new pod is ready", async () => {
    await labelled("moves", "n-0", "n-1");
    await apply("moves", buildSpec("moves=yes", 1));
    expect(listNodes(await waitForSettled(world, "moves", 1))).toEqual(["n-0"]);
    await world.label("n-0", { moves: null });
    await until("it is on the other node", async () => {
      const set = await waitForSettled(world, "moves", 1);
      return listNodes(set).join() === "n-1";
    });
    const seen = await audits("moves");
    expect(seen.filter((event) => event === "NODE_TRANSFER_START")).toHaveLength(1);
    expect(seen.filter((event) => event === "NODE_TRANSFER_COMPLETION")).toHaveLength(1);
  });

  it.skipIf(skip)("cause no work while nothing changes", async () => {
    await labelled("quiet", "n-3");
    await apply("quiet", buildSpec("quiet=yes", 1));
    await waitForSettled(world, "quiet", 1);
    const values = ["1", "2", "3"];
    for (const value of values) await apply(`witness-${value}`, buildSpec(`nothing=${value}`, 0, { daemon: true }));
    const codec = { encode: (bytes: Uint8Array) => bytes, decode: (bytes: Uint8Array) => bytes };
    const stored = await Promise.all(
      [buckets.replicaSets, buckets.rolls].map((name) => openBucket(world.bus.connection, { name, codec })),
    );
    const sequences = async () => ({
      revisions: await Promise.all(
        stored.map(async (bucket) =>
          (await bucket.list()).flatMap(({ key, revision }) => (key.startsWith("witness-") ? [] : [[key, revision]])),
        ),
      ),
      audits: await audits("quiet"),
    });
    await until("the outbox is empty", async () => {
      const { set } = await world.farms.getReplicaSet({ name: "quiet" });
      return set?.record?.outbox.length === 0;
    });
    const before = await sequences();
    // Each of these wakes every set, which looks at its nodes again.
    for (const value of values) {
      await world.label("n-4", { nothing: value });
      await waitForSettled(world, `witness-${value}`, 1);
    }
    expect(await sequences()).toEqual(before);
    for (const value of values)
      await world.farms.deleteReplicaSet({ requestId: "w", name: `witness-${value}`, force: true });
  });

  it.skipIf(skip)("are taken over from a killed farm without duplicate pods", async () => {
    await labelled("kept", "n-0", "n-1", "n-2");
    await apply("kept", buildSpec("kept=yes", 2));
    const { farm } = await waitForSettled(world, "kept", 2);
    const before = (await world.pods("kept")).map(({ metadata }) => metadata?.uid).sort();
    const owner = farms.find(({ pid }) => farm?.includes(`-${pid}-`));
    expect(owner, `the farm ${farm ?? ""} is one of ours`).toBeDefined();
    await owner?.kill();
    await world.farms.scaleReplicaSet({ requestId: "more", name: "kept", replicasDesired: 3 });
    const after = await waitForSettled(world, "kept", 3);
    expect(after.farm).not.toBe(farm);
    const uids = (await world.pods("kept")).map(({ metadata }) => metadata?.uid);
    expect(uids).toHaveLength(3);
    expect(uids).toEqual(expect.arrayContaining(before));
    const records = (await world.farms.listAudit({ name: "kept" })).records;
    expect(new Set(records.map(({ id }) => id)).size).toBe(records.length);
    farms = [...farms.filter((each) => each !== owner), await world.startFarm(STEADY)];
  });

  it.skipIf(skip)("are handed over immediately by a farm that stops", async () => {
    const patient = await world.startFarm({ FARM_SESSION_TTL_MS: "600000" });
    const owns = async (farm: FarmProcess) =>
      (await world.farms.listReplicaSets({})).sets.filter((each) => each.farm.includes(`-${farm.pid}-`)).length > 0;
    // A hash of both names decides which farm a set prefers.
    let made = 0;
    await until(
      "the new farm owns a set",
      async () => {
        made += 1;
        await apply(`handed-${made}`, buildSpec(`handed=${made}`, 0));
        return owns(patient);
      },
      { timeoutMs: 30_000, everyMs: 500 },
    );
    await patient.stop();
    await until("others own them all", async () =>
      (await world.farms.listReplicaSets({})).sets.every(
        ({ farm }) => farm !== "" && !farm.includes(`-${patient.pid}-`),
      ),
    );
  });

  it.skipIf(skip)("are rolled to a new one and never have less than the minimum healthy", async () => {
    await labelled("rolled", "n-0", "n-1", "n-2");
    await apply("old", buildSpec("rolled=yes", 3, { podId: "rolled" }));
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
        const query = { labelSelector: "pod_id=rolled" };
        healthy.push((await world.calls.list<V1Pod>(PODS, { query })).items.filter(isReady).length);
        return isMissing(world.farms.getRoll({ id: "new" }));
      },
      { timeoutMs: 90_000 },
    );
    const set = await waitForSettled(world, "new", 3);
    expect(set.record?.spec?.replicasDesired).toBe(3);
    expect(Math.min(...healthy)).toBeGreaterThanOrEqual(2);
    await expect(
      until("the old set is gone", () => isMissing(world.farms.getReplicaSet({ name: "old" }))),
    ).resolves.toBe(true);
    expect(await audits("new")).toEqual(
      expect.arrayContaining(["ROLLING_UPDATE_CREATION", "ROLLING_UPDATE_COMPLETION"]),
    );
  });

  it.skipIf(skip)("are deleted with their pods, or leave them without an owner", async () => {
    await labelled("gone", "n-0");
    for (const [name, keepPods] of [
      ["gone", false],
      ["left", true],
    ] as const) {
      await apply(name, buildSpec("gone=yes", 1, { podId: name }));
      await waitForSettled(world, name, 1);
      await expect(world.farms.deleteReplicaSet({ requestId: "d", name })).rejects.toThrow(/use force/);
      await world.farms.deleteReplicaSet({ requestId: "d", name, keepPods, force: true });
      await until(`${name} is gone`, () => isMissing(world.farms.getReplicaSet({ name })));
      expect(await world.pods(name)).toEqual([]);
    }
    await expect(world.calls.get(PODS, "gone-1")).rejects.toThrow();
    expect(await world.calls.get(PODS, "left-1")).toMatchObject({ spec: { nodeName: "n-0" } });
    const again = { requestId: "again", name: "left", spec: buildSpec("gone=yes", 1), dryRun: true };
    await expect(world.farms.applyReplicaSet(again)).resolves.toMatchObject({ outcome: "CREATED" });
  });

  it.skipIf(skip)("are refused if an older one would compete with them for nodes", async () => {
    await apply("older", buildSpec("fought=yes", 1, { podId: "same" }));
    await expect(apply("newer", buildSpec("fought in (yes,no)", 1, { podId: "same" }))).rejects.toThrow(
      /replica set older/,
    );
    await expect(apply("newer", buildSpec("fought=yes", 1, { pool: "gpu" }))).rejects.toThrow(
      /node_selector.*with a pool/,
    );
    await expect(apply("newer", buildSpec("fought=yes", 1, { templateJson: "{}" }))).rejects.toThrow(/containers/);
  });
});

function isReady({ metadata, status }: V1Pod): boolean {
  const isReadyNow = status?.conditions?.some(({ type, status: value }) => type === "Ready" && value === "True");
  return isReadyNow === true && metadata?.deletionTimestamp === undefined;
}
