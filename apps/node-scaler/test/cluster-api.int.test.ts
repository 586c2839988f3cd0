import { buildMachineDeployment, type ClusterApi, playClusterApi } from "@muster/devcluster/machine-controllers";
import { until } from "@muster/testkit";
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from "vitest";
import type { MachineDeployment } from "../src/providers/cluster-api/held-nodes.ts";
import { openClusterApi } from "../src/providers/cluster-api/open-cluster-api.ts";
import type { Machine } from "../src/providers/cluster-api/plan-deployment-machines.ts";
import { clusterApiSettings } from "../src/providers/cluster-api/settings.ts";
import type { BootRequest, Instance, NodeProvider } from "../src/providers/provider.ts";
import { buildBoot } from "./build-boot.ts";
import { buildPolicy } from "./build-node.ts";
import { CONTROL_PLANES, type ControlPlane } from "./control-plane.ts";

const DEPLOYMENTS = { apiVersion: "cluster.x-k8s.io/v1beta2", plural: "machinedeployments", namespace: "default" };
const MACHINES = { ...DEPLOYMENTS, plural: "machines" };
const type = (name: string) => ({ name, cpuMilli: undefined, memoryBytes: undefined, gpus: 0 });
const never = new AbortController().signal;
describe.each(CONTROL_PLANES)("cluster-api on $title", ({ skip, start }) => {
  describe.skipIf(skip)("", () => {
    let world: ControlPlane;
    let play: ClusterApi;
    let provider: NodeProvider;
    let large = "";
    let names = 0;

    const open = (deployments: readonly object[], controller = "test", calls = world.calls): NodeProvider =>
      openClusterApi({
        name: "machines",
        settings: clusterApiSettings.parse({ kind: "cluster-api", controller, namespace: "default", deployments }),
        calls,
        timeoutMs: 60_000,
      });
    const makeDeployment = async (more: object = {}): Promise<string> => {
      const name = `large-${++names}`;
      await world.calls.create(DEPLOYMENTS, buildMachineDeployment(name, more));
      return name;
    };
    const replicas = async (name: string) =>
      (await world.calls.get<MachineDeployment>(DEPLOYMENTS, name)).spec?.replicas;
    const machines = async (name: string) => {
      const query = { labelSelector: `cluster.x-k8s.io/deployment-name=${name}` };
      return (await world.calls.list<Machine>(MACHINES, { query })).items;
    };
    const listed = async (nodeName: string): Promise<Instance | undefined> =>
      (await provider.list(never)).find((instance) => instance.nodeName === nodeName);
    const idOf = async (order: BootRequest): Promise<string> => {
      const started = await provider.start(order, never);
      return started.kind === "started" ? started.instanceId : expect.fail(started.message);
    };
    const joined = (order: BootRequest): Promise<Instance> =>
      until(`${order.nodeName} has joined`, async () => {
        const instance = await listed(order.nodeName);
        return instance?.kubernetesNode !== undefined && instance;
      });

    beforeAll(async () => {
      world = await start([
        "cluster-api/cluster.x-k8s.io_machinedeployments.yaml",
        "cluster-api/cluster.x-k8s.io_machines.yaml",
      ]);
    });
    beforeEach(async () => {
      play = playClusterApi(world.calls);
      large = await makeDeployment();
      provider = open([{ name: large, pool: "elastic", instanceType: "large", zone: "zone-a" }]);
    });
    afterEach(() => play[Symbol.asyncDispose]());
    afterAll(() => world[Symbol.asyncDispose]());

    it("has one separate machine for each node", async () => {
      const orders = [buildBoot(), buildBoot(), buildBoot()];
      for (const order of orders) await provider.start(order, never);
      const instances = await Promise.all(orders.map(joined));
      expect(await replicas(large)).toBe(3);
      expect(new Set(instances.map(({ kubernetesNode }) => kubernetesNode)).size).toBe(3);
      expect(instances[0]).toMatchObject({ state: "running", zone: "zone-a", lostAtMs: undefined, failure: undefined });
      const again = await Promise.all(orders.map(({ nodeName }) => listed(nodeName)));
      expect(again).toEqual(instances);
    });

    it("lists the instances although a controller writes the MachineDeployment at that moment", async () => {
      const order = buildBoot();
      await provider.start(order, never);
      await until("the node has a machine", async () => (await machines(large)).length === 1);
      let meanwhile = 2;
      const patch: ControlPlane["calls"]["patch"] = async (...args) => {
        const annotations = { "other/client": `${meanwhile}` };
        if (meanwhile-- > 0)
          await world.calls.patch(DEPLOYMENTS, large, { kind: "merge", body: { metadata: { annotations } } });
        return await world.calls.patch(...args);
      };
      const raced = open([{ name: large, pool: "elastic", instanceType: "large" }], "test", { ...world.calls, patch });
      expect(await raced.list(never)).toMatchObject([{ nodeName: order.nodeName }]);
      expect(meanwhile).toBeLessThan(0);
    });

    it("requests one machine for a node that is started twice", async () => {
      const order = buildBoot();
      expect(await idOf(order)).toBe(await idOf(order));
      await joined(order);
      expect(await replicas(large)).toBe(1);
      expect(await provider.list(never)).toHaveLength(1);
    });

    it("loses no order when many nodes are started concurrently", async () => {
      const orders = Array.from({ length: 4 }, () => buildBoot());
      const outcomes = await Promise.allSettled(orders.map((order) => provider.start(order, never)));
      for (const [index, { status }] of outcomes.entries()) {
        // The caller retries a start that met five conflicts.
        const order = orders[index];
        if (status === "rejected" && order !== undefined) await provider.start(order, never);
      }
      expect(await replicas(large)).toBe(4);
    });

    it("ends the machine of the stopped node, and no other", async () => {
      const [first, second, third] = [buildBoot(), buildBoot(), buildBoot()];
      for (const order of [first, second, third]) await provider.start(order, never);
      const kept = await Promise.all([first, third].map(joined));
      const instance = await joined(second);
      await provider.stop(instance, never);
      await provider.stop(instance, never);
      await until("two machines are left", async () => (await machines(large)).length === 2);
      expect(await Promise.all([first, third].map(({ nodeName }) => listed(nodeName)))).toEqual(kept);
      expect(await listed(second.nodeName)).toBeUndefined();
      expect(await replicas(large)).toBe(2);
    });

    it("does not consider a machine ended because its MachineDeployment was removed from its block", async () => {
      const order = buildBoot();
      const instanceId = await idOf(order);
      const without = open([{ name: await makeDeployment(), pool: "elastic", instanceType: "large" }]);
      await expect(without.stop({ instanceId, nodeName: order.nodeName }, never)).rejects.toMatchObject({
        fault: { code: "not_found", id: instanceId },
      });
      expect(await replicas(large)).toBe(1);
    });

    it("ends a node that has no machine yet", async () => {
      const kept = buildBoot();
      await provider.start(kept, never);
      const instance = await joined(kept);
      play.quota = 1;
      const order = buildBoot();
      const instanceId = await idOf(order);
      expect(await listed(order.nodeName)).toMatchObject({ state: "pending", kubernetesNode: undefined });
      await provider.stop({ instanceId, nodeName: order.nodeName }, never);
      expect(await listed(order.nodeName)).toBeUndefined();
      expect(await replicas(large)).toBe(1);
      expect(await listed(kept.nodeName)).toEqual(instance);
    });

    it("does not assign a node the replacement that Cluster API creates for its machine", async () => {
      const order = buildBoot();
      await provider.start(order, never);
      await joined(order);
      const [own] = await machines(large);
      await world.calls.delete(MACHINES, own?.metadata?.name ?? "");
      const replacement = await until("another machine exists", async () => {
        const instances = await provider.list(never);
        return instances.length === 1 && instances[0]?.nodeName === "" && instances[0];
      });
      // The replacement is not assigned, and the node's own machine is not listed: both end.
      await provider.stop({ instanceId: `${large}/${order.nodeName}`, nodeName: order.nodeName }, never);
      await provider.stop(replacement, never);
      await until("no machine is left", async () => (await provider.list(never)).length === 0);
      expect(await machines(large)).toEqual([]);
    });

    it("reports before the first boot which parts of a pool are missing", async () => {
      const pool = buildPolicy({
        name: "elastic",
        instanceTypes: [type("large"), type("huge")],
        zones: ["zone-a", "z"],
      });
      expect(await provider.checkPool(pool, never)).toEqual([
        "no MachineDeployment makes large in z for pool elastic",
        "no MachineDeployment makes huge for pool elastic",
      ]);
      const mixed = open([
        { name: large, pool: "elastic", instanceType: "large", zone: "zone-a" },
        { name: await makeDeployment(), pool: "elastic", instanceType: "small", zone: "z" },
      ]);
      const standby = [{ instanceType: "small", count: 1, spot: true }];
      const types = { instanceTypes: [type("large"), type("small")], standby };
      expect(await mixed.checkPool(buildPolicy({ name: "elastic", zones: ["zone-a", "z"], ...types }), never)).toEqual([
        "no MachineDeployment makes large in z for pool elastic",
        "no MachineDeployment makes small in zone-a for pool elastic",
        "no MachineDeployment makes spot small for pool elastic",
      ]);
      const foreign = await makeDeployment({ replicas: 2 });
      const other = open(["none", foreign].map((name) => ({ name, pool: "elastic", instanceType: "large" })));
      expect(await other.checkPool(buildPolicy({ name: "elastic", instanceTypes: [type("large")] }), never)).toEqual([
        "there is no MachineDeployment none",
        expect.stringContaining("has 2 replicas that the scaler did not request"),
      ]);
    });

    it("reports settings that it cannot create", async () => {
      expect(await provider.start(buildBoot({ instanceType: "huge" }), never)).toEqual({
        kind: "unsupported",
        message: "no MachineDeployment makes huge for pool elastic",
      });
      expect(await provider.start(buildBoot({ spot: true, zone: "zone-a" }), never)).toMatchObject({
        message: "no MachineDeployment makes spot large in zone-a for pool elastic",
      });
      expect(await provider.start(buildBoot({ zone: "zone-b" }), never)).toMatchObject({ kind: "unsupported" });
    });

    it.each([
      ["has replicas that another client set", { replicas: 2 }, "has 2 replicas that the scaler did not request"],
      ["ends any machine first", { deletion: { order: "Random" } }, "Newest is needed"],
    ])("does not change a MachineDeployment that %s", async (_, more, message) => {
      const name = await makeDeployment(more);
      const other = open([{ name, pool: "elastic", instanceType: "large" }]);
      await expect(other.start(buildBoot(), never)).rejects.toThrow(message);
      await expect(other.list(never)).rejects.toThrow(message);
    });

    it("does not change a MachineDeployment that another controller scales, and reports a missing one", async () => {
      await provider.start(buildBoot(), never);
      const other = open([{ name: large, pool: "elastic", instanceType: "large" }], "other");
      await expect(other.start(buildBoot(), never)).rejects.toThrow('is scaled by "test"');
      const none = open([{ name: "none", pool: "elastic", instanceType: "large" }]);
      await expect(none.list(never)).rejects.toMatchObject({ fault: { code: "not_found" } });
    });
  });
});
