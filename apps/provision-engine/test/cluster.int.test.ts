import { afterAll, beforeAll, describe, expect, it } from "vitest";
import type { V1Namespace, V1NetworkPolicy, V1ResourceQuota, V1Secret, V1Service } from "@kubernetes/client-node";
import { unlessFault, type KubeObject } from "@muster/kube";
import { until } from "@muster/testkit";
import { KINDS } from "../src/types/object-kinds.ts";
import { makeLeaseRecord } from "./a-lease.ts";
import { buildLeaseLabels, buildLeaseName, buildNetworkNamespaceName } from "../src/types/lease-names.ts";
import { CLUSTERS, openClusterWorld, type ClusterWorld, NO_ROOM } from "./cluster-world.ts";
import {
  listAnswers,
  makeUser,
  listHistory,
  LONG,
  sendOrder,
  readPhase,
  waitForPhase,
  signEnd,
  signOrder,
  type EngineProcess,
} from "./engine-world.ts";

/** For several long waits. */
const TEST_MS = 300_000;
const capacity = { cpu: 1, memory: 1024 };

describe.each(CLUSTERS)("on $title, an engine", (server) => {
  describe.skipIf(server.skip)("with workloads in a cluster", { timeout: TEST_MS }, () => {
    const user = makeUser();
    let world: ClusterWorld;
    let engine: EngineProcess;

    beforeAll(async () => {
      world = await openClusterWorld(server);
      engine = await world.startEngine();
    }, TEST_MS);

    afterAll(() => world[Symbol.asyncDispose]());

    const leaseOf = async (id: string) => (await world.engines.leases.getLease({ id })).lease;
    const resultOf = async (id: string): Promise<unknown> => {
      const { dataJson } = (await leaseOf(id))?.record?.result ?? {};
      return JSON.parse(new TextDecoder().decode(dataJson ?? undefined));
    };
    const send = (id: string, type: string, data: object, whose = user) =>
      sendOrder(world.engines, signOrder(whose, { id, type, data: JSON.stringify(data) }));
    const active = async (id: string, type: string, data: object): Promise<void> => {
      await send(id, type, data);
      await waitForPhase(world.engines, id, "ACTIVE");
    };
    const end = (id: string, whose = user) =>
      world.engines.leases.endLease({ requestId: `e-${id}`, end: signEnd(whose, id) });
    /** Only a slow machine makes this late. */
    const lifeOf = async (id: string) => (await listHistory(world.engines, id)).filter((type) => type !== "DELAYED");
    const failure = async (id: string): Promise<string> => {
      await waitForPhase(world.engines, id, "FAILED");
      return (await leaseOf(id))?.record?.result?.message ?? "";
    };
    const waitsFor = (id: string, what: string) =>
      until(`${id} waits`, async () => (await leaseOf(id))?.waitingBecause.includes(what), LONG);
    const gone = (id: string) =>
      until(`nothing of ${id} is there`, async () => (await world.left(id)).length === 0, LONG);

    it("creates a network, a volume in it and a container with both, and removes none that another lease needs", async () => {
      const { calls, engines } = world;
      const namespace = buildNetworkNamespaceName(user.userId, "net");
      await active("1-1", "network", { name: "net", open_ports: [443] });
      expect(await resultOf("1-1")).toMatchObject({ namespace });
      const { metadata } = await calls.get<V1Namespace>(KINDS.namespace, namespace);
      expect(metadata?.labels).toMatchObject({ "pod-security.kubernetes.io/enforce": "baseline" });
      const policies = await calls.list<V1NetworkPolicy>({ ...KINDS.networkPolicy, namespace });
      expect(policies.items).toHaveLength(1);
      await active("1-2", "volume", { size: 1, type: "ssd", network: "net" });
      expect(await resultOf("1-2")).toEqual({ volume_id: "1-2", namespace, claim: buildLeaseName("1-2") });
      await active("1-3", "container", {
        image: "web:1",
        network: "net",
        env: { A: "1" },
        secret_env: { B: "hush" },
        ports: [80],
        mounts: [{ volume_id: "1-2", mountpoint: "/data" }],
        capacity,
      });
      const place = { ...KINDS.service, namespace };
      const { spec } = await calls.get<V1Service>(place, buildLeaseName("1-3"));
      const host = `${buildLeaseName("1-3")}.${namespace}.svc`;
      expect(await resultOf("1-3")).toEqual({ namespace, host, addresses: [spec?.clusterIP], ports: [80] });
      const secret = await calls.get<V1Secret>({ ...KINDS.secret, namespace }, buildLeaseName("1-3"));
      expect(secret.data).toEqual({ B: Buffer.from("hush").toString("base64") });

      await end("1-1");
      await waitsFor("1-1", "in use by 1-2, 1-3");
      await end("1-2");
      await waitsFor("1-2", "in use by 1-3");
      expect(await readPhase(engines, "1-1")).toBe("DECOMMISSIONING");
      expect(await world.left("1-2")).not.toEqual([]);
      await end("1-3");
      for (const id of ["1-3", "1-2", "1-1"]) await waitForPhase(engines, id, "ENDED");
      for (const id of ["1-3", "1-2", "1-1"]) expect(await world.left(id)).toEqual([]);
    });

    it("reports immediately that no node has room for a container, and also when the lease is over", async () => {
      await send("9-1", "container", { image: "web:1", capacity: { cpu: 999, memory: 1024 } });
      await waitsFor("9-1", NO_ROOM);
      // Still the first call, which waits for longer.
      expect(await leaseOf("9-1")).toMatchObject({ record: { attempts: 0 }, stuck: false });
      await end("9-1");
      await waitForPhase(world.engines, "9-1", "ENDED");
      const message = `it was not ACTIVE yet: the start of the container (${NO_ROOM})`;
      expect((await leaseOf("9-1"))?.record?.ending).toMatchObject({ cause: "REQUESTED", message });
    });

    it("keeps a network with a claim of an unknown lease, and names the claim", async () => {
      const { calls, engines } = world;
      await active("8-1", "network", { name: "kept" });
      const claims = { ...KINDS.volumeClaim, namespace: buildNetworkNamespaceName(user.userId, "kept") };
      await calls.create<KubeObject>(claims, {
        metadata: {
          name: "lease-8-2",
          labels: buildLeaseLabels(makeLeaseRecord({ order: { id: "8-2", user: user.userId } })),
        },
        spec: { accessModes: ["ReadWriteOnce"], resources: { requests: { storage: "1Gi" } } },
      } as KubeObject);
      await end("8-1");
      await waitsFor("8-1", "it holds PersistentVolumeClaim lease-8-2");
      expect(await readPhase(engines, "8-1")).toBe("DECOMMISSIONING");
      expect((await calls.get<KubeObject>(claims, "lease-8-2")).metadata?.deletionTimestamp).toBeUndefined();
      await calls.delete(claims, "lease-8-2");
      await waitForPhase(engines, "8-1", "ENDED");
      expect(await world.left("8-1")).toEqual([]);
    });

    it("counts the units of a volume until its claim is gone, however long something holds the claim", async () => {
      const { calls, engines } = world;
      const used = async () => (await engines.leases.getCounters({ engine: "main" })).used?.sruBytes ?? 0;
      const before = await used();
      await active("9-2", "volume", { size: 3, type: "ssd" });
      const claims = { ...KINDS.volumeClaim, namespace: "default" };
      const hold = (finalizers: readonly string[]) =>
        calls.patch(claims, buildLeaseName("9-2"), { kind: "merge", body: { metadata: { finalizers } } });
      await hold(["muster.dev/test"]);
      await end("9-2");
      await waitForPhase(engines, "9-2", "DECOMMISSIONING");
      expect((await used()) - before).toBe(3 * 2 ** 30);
      await hold([]);
      await waitForPhase(engines, "9-2", "ENDED");
      expect(await used()).toBe(before);
    });

    it("gives no user the objects of another, and leaves those unchanged", async () => {
      const { calls } = world;
      const other = makeUser();
      await active("2-1", "volume", { size: 1, type: "hdd" });
      const mounts = [{ volume_id: "2-1", mountpoint: "/data" }];
      await send("2-2", "container", { image: "i", mounts, capacity }, other);
      expect(await failure("2-2")).toContain("this user has no active volume 2-1");
      const namespace = buildNetworkNamespaceName(user.userId, "taken");
      await calls.create(KINDS.namespace, { metadata: { name: namespace } });
      await send("2-3", "network", { name: "taken" });
      expect(await failure("2-3")).toContain(`${namespace} exists already`);
      expect((await calls.get<V1Namespace>(KINDS.namespace, namespace)).metadata?.deletionTimestamp).toBeUndefined();
      // The claim under the name of a volume belongs to another user.
      const claims = { ...KINDS.volumeClaim, namespace: "default" };
      const labels = { "muster.dev/lease-user": "another" };
      await calls.patch(claims, buildLeaseName("2-1"), { kind: "merge", body: { metadata: { labels } } });
      await send("2-4", "container", { image: "i", mounts, capacity });
      expect(await failure("2-4")).toContain("volume of this user 2-1 does not exist");
      await end("2-1");
      await waitForPhase(world.engines, "2-1", "ENDED");
      expect(await world.left("2-1")).toEqual([`PersistentVolumeClaim ${buildLeaseName("2-1")}`]);
    });

    it("hands a volume and its container over to other leases, without recreating or removing either", async () => {
      const { calls, engines, left } = world;
      const inDefault = (kind: (typeof KINDS)[keyof typeof KINDS]) => ({ ...kind, namespace: "default" });
      const claim = () => calls.get<KubeObject>(inDefault(KINDS.volumeClaim), buildLeaseName("20-1"));
      const deployment = () => calls.get<KubeObject>(inDefault(KINDS.deployment), buildLeaseName("20-2"));
      const volume = { size: 1, type: "ssd" };
      const container = {
        image: "web:1",
        secret_env: { B: "hush" },
        mounts: [{ volume_id: "20-1", mountpoint: "/data" }],
        capacity,
      };
      await active("20-1", "volume", volume);
      await active("20-2", "container", container);
      const before = [await claim(), await deployment()].map(({ metadata }) => metadata?.uid);
      const takeOver = async (id: string, reference: string, type: string, data: object): Promise<void> => {
        await sendOrder(engines, signOrder(user, { id, type, data: JSON.stringify(data), reference }));
        await until(`${id} is there`, async () => (await readPhase(engines, id)) === "ACTIVE", LONG);
      };
      await takeOver("21-1", "20-1", "volume", volume);
      expect(await resultOf("21-1")).toEqual({
        volume_id: "21-1",
        namespace: "default",
        claim: buildLeaseName("20-1"),
      });
      await world.killAfterCall("21-2");
      const sent = signOrder(user, {
        ...{ id: "21-2", type: "container", reference: "20-2" },
        data: JSON.stringify(container),
      });
      await sendOrder(engines, sent);
      await until("it has died", () => engine.hasEnded(), LONG);
      engine = await world.startEngine();
      await waitForPhase(engines, "21-2", "ACTIVE");
      expect([await lifeOf("20-2"), await lifeOf("21-2")]).toEqual([
        ["ORDERED", "PROVISIONED", "MIGRATED"],
        ["ORDERED", "MIGRATED", "PROVISIONED"],
      ]);
      expect((await leaseOf("20-1"))?.record?.ending?.cause).toBe("MIGRATED");

      // A container may mount it by its new id, and it stays while mounted by either id.
      await active("21-3", "container", { ...container, mounts: [{ volume_id: "21-1", mountpoint: "/data" }] });
      for (const id of ["20-1", "20-2"]) await end(id);
      await end("21-1");
      await waitsFor("21-1", "in use by 21-3, 21-2");
      expect([await claim(), await deployment()].map(({ metadata }) => metadata?.uid)).toEqual(before);
      expect([await left("21-1"), await left("21-2")]).toEqual([[], []]);
      for (const id of ["21-2", "21-3"]) await end(id);
      for (const id of ["21-1", "21-2", "21-3"]) await waitForPhase(engines, id, "ENDED");
      for (const id of ["20-1", "20-2", "21-3"]) await gone(id);
    });

    it("fails permanently with the message of the server or the engine that refuses it", async () => {
      await send("3-1", "container", { image: "i", capacity, env: { "A-B": "is no name" } });
      expect(await failure("3-1")).toContain("A-B");
      await active("3-2", "network", { name: "full" });
      const namespace = buildNetworkNamespaceName(user.userId, "full");
      const quotas = { apiVersion: "v1", plural: "resourcequotas", namespace };
      await world.calls.create<V1ResourceQuota>(quotas, {
        metadata: { name: "none" },
        spec: { hard: { persistentvolumeclaims: "0" } },
      });
      const isKnown = async () => (await world.calls.get<V1ResourceQuota>(quotas, "none")).status?.hard !== undefined;
      await until("the quota is in force", isKnown, LONG);
      await send("3-3", "volume", { size: 1, type: "ssd", network: "full" });
      expect(await failure("3-3")).toContain("quota");
      expect(await world.left("3-3")).toEqual([]);
    });

    it("ends a container that keeps crashing, even after a change of leader, and keeps its error", async () => {
      const { engines } = world;
      await active("4-1", "container", { image: "i", capacity });
      const counted = (exits: number) =>
        until(`${exits} are counted`, async () => (await leaseOf("4-1"))?.record?.crashes?.exits === exits, LONG);
      await world.exits("4-1", 1);
      await counted(1);
      await engine.kill();
      await world.exits("4-1", 2);
      engine = await world.startEngine();
      await counted(2);
      await world.exits("4-1", 3);
      await counted(3);
      expect(await readPhase(engines, "4-1")).toBe("ACTIVE");
      await world.exits("4-1", 4);
      await waitForPhase(engines, "4-1", "ENDED");
      expect(await world.left("4-1")).toEqual([]);
      const message = "exited 4 times, last with exit code 3 (Error)";
      expect((await leaseOf("4-1"))?.record).toMatchObject({ ending: { cause: "CRASHED" }, result: { message } });
      await until(
        "its end is reported",
        async () => (await listAnswers(engines, "4-1")).at(-1)?.deleted === true,
        LONG,
      );
      expect((await listAnswers(engines, "4-1")).at(-1)?.result?.message).toBe(message);
      expect(await lifeOf("4-1")).toEqual(["ORDERED", "PROVISIONED", "ENDING", "DECOMMISSIONED"]);
    });

    it("recreates manually deleted objects, and reports those that it cannot recreate", async () => {
      const { calls } = world;
      const namespace = "default";
      await engine.stop();
      engine = await world.startEngine({ PROVISION_RECHECK_MS: "500" });
      await active("7-1", "container", { image: "i", capacity });
      await active("7-2", "volume", { size: 1, type: "ssd" });
      const deployments = { ...KINDS.deployment, namespace };
      const uidOf = async (): Promise<string | undefined> =>
        (await unlessFault(calls.get<KubeObject>(deployments, buildLeaseName("7-1")), "not_found"))?.metadata?.uid;
      const before = await uidOf();
      await calls.delete(deployments, buildLeaseName("7-1"));
      const isMade = async (): Promise<boolean> => ![undefined, before].includes(await uidOf());
      await until("it is made again", isMade, LONG);
      await until("that is reported", async () => (await listHistory(world.engines, "7-1")).includes("RESTORED"), LONG);
      await calls.delete({ ...KINDS.volumeClaim, namespace }, buildLeaseName("7-2"));
      await waitsFor("7-2", "does not exist");
      expect(await readPhase(world.engines, "7-2")).toBe("ACTIVE");
      expect(await listHistory(world.engines, "7-2")).toContain("TROUBLED");
      for (const id of ["7-1", "7-2"]) await end(id);
      for (const id of ["7-1", "7-2"]) await waitForPhase(world.engines, id, "ENDED");
      await engine.stop();
      engine = await world.startEngine();
    });

    it("waits for an unavailable API server, to create and to remove", async () => {
      const { engines, faults } = world;
      await active("5-1", "volume", { size: 1, type: "ssd" });
      await faults.goAway(600_000);
      await end("5-1");
      await send("5-2", "volume", { size: 1, type: "ssd" });
      await waitsFor("5-1", "kubernetes is not available");
      await waitsFor("5-2", "kubernetes is not available");
      expect([await readPhase(engines, "5-1"), await readPhase(engines, "5-2")]).toEqual([
        "DECOMMISSIONING",
        "PROVISIONING",
      ]);
      expect((await leaseOf("5-2"))?.record?.attempts).toBe(0);
      await faults.comeBack();
      await waitForPhase(engines, "5-1", "ENDED");
      await waitForPhase(engines, "5-2", "ACTIVE");
      expect(await world.left("5-1")).toEqual([]);
      expect(await world.left("5-2")).toHaveLength(1);
    });

    it("creates nothing twice and leaves nothing behind if it dies between a call and its record", async () => {
      const { engines } = world;
      const data = { image: "i", capacity, secret_env: { A: "1" }, ports: [80] };
      await world.killAfterCall("6-1");
      await send("6-1", "container", data);
      await until("it has died", () => engine.hasEnded(), LONG);
      const made = await world.left("6-1");
      engine = await world.startEngine();
      await waitForPhase(engines, "6-1", "ACTIVE");
      expect(await world.left("6-1")).toEqual(made);
      await world.killAfterCall("6-1");
      await end("6-1");
      await until("it has died again", () => engine.hasEnded(), LONG);
      engine = await world.startEngine();
      await waitForPhase(engines, "6-1", "ENDED");
      await gone("6-1");
      // Existing objects remain.
      expect(await world.left("5-2")).toEqual([`PersistentVolumeClaim ${buildLeaseName("5-2")}`]);
      expect(await lifeOf("6-1")).toEqual(["ORDERED", "PROVISIONED", "ENDING", "DECOMMISSIONED"]);
    });
  });
});
