import { CoreV1Api, type KubeConfig, type V1Node, type V1PodSpec } from "@kubernetes/client-node";
import { loadKube } from "@muster/kube";
import { until, type TestApiServer } from "@muster/testkit";
import { afterAll, beforeAll, beforeEach, describe, expect, it } from "vitest";
import { startScheduler } from "../src/index.ts";
import { API_SERVERS, makeApi } from "./api-servers.ts";

for (const { title, skip, start } of API_SERVERS) {
  describe.skipIf(skip)(`the scheduler against ${title}`, () => {
    let server: TestApiServer;
    let config: KubeConfig;
    let api: CoreV1Api;
    let scheduler: AsyncDisposable;
    let namespace: string;
    let count = 0;
    const errors: unknown[] = [];

    beforeAll(async () => {
      server = await start();
      config = loadKube(server.kubeconfig);
      api = config.makeApiClient(CoreV1Api);
      for (const name of ["a-0", "a-1"]) await addNode(name);
      scheduler = await startScheduler({
        kubeconfig: config,
        ...makeApi(server),
        onError: (error) => errors.push(error),
      });
    });

    afterAll(async () => {
      await scheduler[Symbol.asyncDispose]();
      await server[Symbol.asyncDispose]();
    });

    beforeEach(async () => {
      namespace = `case-${++count}`;
      await api.createNamespace({ body: { metadata: { name: namespace } } });
    });

    it("spreads pods over the nodes and records the node of each", async () => {
      for (const name of ["one", "two"]) await addPod(name, {});
      const nodes = [await boundTo("one"), await boundTo("two")];
      expect(nodes.sort()).toEqual(["a-0", "a-1"]);
      await until("both events are there", async () => {
        const events = await api.listNamespacedEvent({ namespace });
        return events.items.filter((event) => event.reason === "Scheduled").length === 2;
      });
      expect(errors).toEqual([]);
    });

    it("places a gated pod once the gate is removed", async () => {
      await addPod("gated", { schedulingGates: [{ name: "a.example/wait" }] });
      // Made later, and placed meanwhile.
      await addPod("free", {});
      await boundTo("free");
      const waiting = await api.readNamespacedPod({ name: "gated", namespace });
      expect(waiting.spec?.nodeName).toBeUndefined();
      expect(waiting.status?.conditions).toMatchObject([
        { type: "PodScheduled", status: "False", reason: "SchedulingGated" },
      ]);
      delete waiting.spec?.schedulingGates;
      await api.replaceNamespacedPod({ name: "gated", namespace, body: waiting });
      await boundTo("gated");
      const bound = await api.readNamespacedPod({ name: "gated", namespace });
      expect(bound.status?.conditions).toMatchObject([{ type: "PodScheduled", status: "True" }]);
      expect(errors).toEqual([]);
    });

    it("keeps pods with anti-affinity apart and explains the surplus one until a node is added", async () => {
      const apart: Partial<V1PodSpec> = {
        affinity: {
          podAntiAffinity: {
            requiredDuringSchedulingIgnoredDuringExecution: [
              { topologyKey: "kubernetes.io/hostname", labelSelector: { matchLabels: { app: "apart" } } },
            ],
          },
        },
      };
      for (const name of ["p0", "p1", "p2"]) await addPod(name, apart);
      const waiting = await until("one pod is unschedulable", async () => {
        const pods = await api.listNamespacedPod({ namespace });
        const bound = pods.items.filter((pod) => pod.spec?.nodeName !== undefined);
        const left = pods.items.find((pod) => pod.status?.conditions?.some((each) => each.status === "False"));
        return bound.length === 2 && left;
      });
      expect(waiting.status?.conditions).toMatchObject([
        {
          type: "PodScheduled",
          status: "False",
          reason: "Unschedulable",
          message: "0/2 nodes are available: 2 node(s) didn't match pod anti-affinity rules.",
        },
      ]);
      await until("the event is there", async () => {
        const events = await api.listNamespacedEvent({ namespace });
        return events.items.some((event) => event.reason === "FailedScheduling" && event.type === "Warning");
      });
      await addNode("a-2");
      expect(await boundTo(waiting.metadata?.name ?? "")).toBe("a-2");
      await api.deleteNode({ name: "a-2" });
    });

    it("explains cordons, taints and requests in one line, and binds when one of them is removed", async () => {
      for (const name of ["c-0", "c-1", "c-2"]) await addNode(name, "c");
      const change = async (name: string, spec: V1Node["spec"]): Promise<void> => {
        const node = await api.readNode({ name });
        await api.replaceNode({ name, body: { ...node, spec: { ...node.spec, ...spec } } });
      };
      await change("c-0", { unschedulable: true });
      await change("c-1", { taints: [{ key: "gpu", value: "yes", effect: "NoSchedule" }] });
      const resources = { requests: { cpu: "5" } };
      await addPod("big", { nodeSelector: { pool: "c" }, containers: [{ name: "main", image: "none", resources }] });
      const others = "node(s) didn't match Pod's node affinity/selector";
      await until("the reasons are reported", async () => {
        const pod = await api.readNamespacedPod({ name: "big", namespace });
        const message = pod.status?.conditions?.find((each) => each.reason === "Unschedulable")?.message ?? "";
        return (
          message.includes(
            "1 Insufficient cpu, 1 node(s) had untolerated taint {gpu: yes}, 1 node(s) were unschedulable",
          ) && message.includes(others)
        );
      });
      const near: Partial<V1PodSpec> = {
        tolerations: [{ key: "gpu", operator: "Exists" }],
        affinity: {
          nodeAffinity: {
            requiredDuringSchedulingIgnoredDuringExecution: {
              nodeSelectorTerms: [{ matchFields: [{ key: "metadata.name", operator: "In", values: ["c-1"] }] }],
            },
          },
        },
      };
      await addPod("tolerant", near);
      expect(await boundTo("tolerant")).toBe("c-1");
      await addPod("cordoned", { nodeSelector: { "kubernetes.io/hostname": "c-0" } });
      await change("c-0", { unschedulable: false });
      expect(await boundTo("cordoned")).toBe("c-0");
      for (const name of ["c-0", "c-1", "c-2"]) await api.deleteNode({ name });
    });

    it("ignores pods of another scheduler and places pods whose node becomes schedulable", async () => {
      await addPod("theirs", { schedulerName: "another-scheduler" });
      await addPod("mine", { nodeSelector: { pool: "later" } });
      await until("the reason is reported", async () => {
        const pod = await api.readNamespacedPod({ name: "mine", namespace });
        return pod.status?.conditions?.some((each) => each.reason === "Unschedulable");
      });
      await addNode("b-0", "later");
      expect(await boundTo("mine")).toBe("b-0");
      expect((await api.readNamespacedPod({ name: "theirs", namespace })).spec?.nodeName).toBeUndefined();
    });

    async function addNode(name: string, pool = "a"): Promise<void> {
      const labels = { pool, "kubernetes.io/hostname": name };
      const node: V1Node = await api.createNode({ body: { metadata: { name, labels } } });
      await api.replaceNode({ name, body: { ...node, spec: {} } });
      const fresh = await api.readNode({ name });
      await api.replaceNodeStatus({
        name,
        body: {
          ...fresh,
          status: {
            allocatable: { cpu: "4", memory: "8Gi", pods: "110" },
            capacity: { cpu: "4", memory: "8Gi", pods: "110" },
            conditions: [{ type: "Ready", status: "True", reason: "KubeletReady" }],
          },
        },
      });
    }

    async function addPod(name: string, spec: Partial<V1PodSpec>): Promise<void> {
      const container = { name: "main", image: "none" };
      await api.createNamespacedPod({
        namespace,
        body: { metadata: { name, labels: { app: "apart" } }, spec: { containers: [container], ...spec } },
      });
    }

    function boundTo(name: string): Promise<string> {
      return until(`pod ${name} is bound`, async () => {
        return (await api.readNamespacedPod({ name, namespace })).spec?.nodeName;
      });
    }
  });
}
