import { CoreV1Api, type V1Node, type V1Pod, type V1PodSpec } from "@kubernetes/client-node";
import { loadKube } from "@muster/kube";
import { until, type TestApiServer } from "@muster/testkit";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { type SimulatedNodes, startSimulatedNodes } from "../src/index.ts";
import { API_SERVERS, makeApi } from "./api-servers.ts";

const namespace = "default";

for (const { title, skip, start } of API_SERVERS) {
  describe.skipIf(skip)(`the life of nodes against ${title}`, () => {
    let server: TestApiServer;
    let api: CoreV1Api;
    let nodes: SimulatedNodes;
    // The clock runs, and a test may push it ahead.
    let aheadMs = 0;
    const errors: unknown[] = [];

    beforeAll(async () => {
      server = await start();
      api = loadKube(server.kubeconfig).makeApiClient(CoreV1Api);
      nodes = await startSimulatedNodes({
        kubeconfig: server.kubeconfig,
        pools: { a: 3 },
        ...server.nodeOptions,
        ...makeApi(server),
        nodeGraceMs: 5_000,
        leaseEveryMs: 300,
        now: () => Date.now() + aheadMs,
        onError: (error, doing) => errors.push(`${doing}: ${String(error)}`),
      });
    });

    afterAll(async () => {
      await nodes[Symbol.asyncDispose]();
      await server[Symbol.asyncDispose]();
      expect(errors).toEqual([]);
    });

    it("taints a node while it is cordoned", async () => {
      const cordon = (unschedulable: boolean): Promise<V1Node> =>
        api.patchNode({ name: "a-2", body: [{ op: "add", path: "/spec/unschedulable", value: unschedulable }] });
      const taints = async (): Promise<string[]> =>
        ((await api.readNode({ name: "a-2" })).spec?.taints ?? []).map(({ key, effect }) => `${key}:${effect}`);
      await cordon(true);
      const tainted = await until("the taint is there", async () => {
        const found = await taints();
        return found.length > 0 && found;
      });
      expect(tainted).toEqual(["node.kubernetes.io/unschedulable:NoSchedule"]);
      await cordon(false);
      await until("the taint is gone", async () => (await taints()).length === 0);
    });

    it("marks a switched-off machine NotReady, evicts its pods when their toleration ends, and accepts it again", async () => {
      await create("stays", { nodeName: "a-0", tolerations: [{ operator: "Exists" }] });
      await create("leaves", { nodeName: "a-0" });
      for (const name of ["stays", "leaves"]) await running(name);
      await nodes.kill("a-0");
      const silent = await until("the node is unknown", async () => {
        const node = await api.readNode({ name: "a-0" });
        return readiness(node)?.status === "Unknown" && (node.spec?.taints ?? []).length === 2 && node;
      });
      expect(readiness(silent)).toMatchObject({
        reason: "NodeStatusUnknown",
        message: "Kubelet stopped posting node status.",
      });
      const taints = silent.spec?.taints?.map(({ key, effect }) => `${key}:${effect}`);
      expect(taints?.sort()).toEqual([
        "node.kubernetes.io/unreachable:NoExecute",
        "node.kubernetes.io/unreachable:NoSchedule",
      ]);
      await until("its pods are not ready", async () => {
        const ready = (await read("stays")).status?.conditions?.find((each) => each.type === "Ready");
        return ready?.status === "False" && ready.reason === "NodeNotReady";
      });
      expect((await read("leaves")).metadata?.deletionTimestamp).toBeUndefined();
      aheadMs += 300_000;
      await until("the pod that tolerates 300 seconds has to leave", async () => {
        return (await read("leaves")).metadata?.deletionTimestamp !== undefined;
      });
      expect((await read("stays")).metadata?.deletionTimestamp).toBeUndefined();
      // The last heartbeat of the node is older than the advanced clock.
      await until("the node with a living machine is ready", async () => {
        return readiness(await api.readNode({ name: "a-1" }))?.status === "True";
      });

      await nodes.restart("a-0");
      await until("the node is ready and has no taint", async () => {
        const node = await api.readNode({ name: "a-0" });
        return readiness(node)?.status === "True" && (node.spec?.taints ?? []).length === 0;
      });
      await until("the pod that had to leave is gone", async () => !(await names()).includes("leaves"));
    });

    it("removes the pods of a node that no longer exists", async () => {
      await create("orphan", { nodeName: "a-1" });
      await running("orphan");
      await nodes.delete("a-1");
      await until("the pod is gone", async () => !(await names()).includes("orphan"));
    });

    it("evicts pods that do not tolerate a new taint", async () => {
      await create("moved", { nodeName: "a-2" });
      await running("moved");
      const taints = [{ key: "maintenance", effect: "NoExecute" }];
      await api.patchNode({ name: "a-2", body: [{ op: "add", path: "/spec/taints", value: taints }] });
      await until("the pod is gone", async () => !(await names()).includes("moved"));
      expect((await api.readNode({ name: "a-2" })).spec?.taints).toMatchObject(taints);
    });

    async function create(name: string, spec: Partial<V1PodSpec>): Promise<void> {
      const containers = [{ name: "main", image: "none", command: ["simulate"] }];
      await api.createNamespacedPod({ namespace, body: { metadata: { name }, spec: { ...spec, containers } } });
    }

    function read(name: string): Promise<V1Pod> {
      return api.readNamespacedPod({ name, namespace });
    }

    async function names(): Promise<(string | undefined)[]> {
      return (await api.listNamespacedPod({ namespace })).items.map((pod) => pod.metadata?.name);
    }

    function running(name: string): Promise<boolean> {
      return until(`pod ${name} runs`, async () => (await read(name)).status?.phase === "Running");
    }

    function readiness(node: V1Node): { status: string; reason?: string; message?: string } | undefined {
      return node.status?.conditions?.find((each) => each.type === "Ready");
    }
  });
}
