import { CoreV1Api, type KubeConfig, Log, type V1Container, type V1Pod, type V1PodSpec } from "@kubernetes/client-node";
import { listWatch, loadKube } from "@muster/kube";
import { makeKubeClient, until, type TestApiServer } from "@muster/testkit";
import { PassThrough } from "node:stream";
import { afterAll, beforeAll, beforeEach, describe, expect, it } from "vitest";
import { type SimulatedNodes, startSimulatedNodes } from "../src/index.ts";
import { API_SERVERS, makeApi } from "./api-servers.ts";

for (const { title, skip, start } of API_SERVERS) {
  describe.skipIf(skip)(`simulated nodes against ${title}`, () => {
    let server: TestApiServer;
    let config: KubeConfig;
    let api: CoreV1Api;
    let nodes: SimulatedNodes;
    let namespace: string;
    let count = 0;
    // The clock runs, and a test may push it ahead.
    let aheadMs = 0;
    const errors: unknown[] = [];

    beforeAll(async () => {
      server = await start();
      config = loadKube(server.kubeconfig);
      api = makeKubeClient(config, CoreV1Api, { timeoutMs: 50_000 });
      nodes = await startSimulatedNodes({
        kubeconfig: server.kubeconfig,
        pools: { drivers: 2, workers: { nodes: 3, labels: { zone: "z1" }, capacity: { cpu: "64", pods: "200" } } },
        ...server.nodeOptions,
        ...makeApi(server),
        now: () => Date.now() + aheadMs,
        onError: (error, doing) => errors.push(`${doing}: ${String(error)}`),
      });
    });

    afterAll(async () => {
      await nodes[Symbol.asyncDispose]();
      const left = await api.listNode();
      await server[Symbol.asyncDispose]();
      const ready = left.items.map((node) => node.status?.conditions?.find((each) => each.type === "Ready")?.status);
      expect(new Set(ready)).toEqual(new Set(["False"]));
      expect(errors).toEqual([]);
    });

    beforeEach(async () => {
      namespace = `case-${++count}`;
      await api.createNamespace({ body: { metadata: { name: namespace } } });
    });

    it("registers ready nodes with labels and capacity, without the taint of a new node", async () => {
      expect(nodes.names).toEqual(["drivers-0", "drivers-1", "workers-0", "workers-1", "workers-2"]);
      const node = await api.readNode({ name: "workers-2" });
      expect(node.metadata?.labels).toMatchObject({
        pool: "workers",
        zone: "z1",
        "kubernetes.io/hostname": "workers-2",
      });
      expect(node.spec?.taints).toBeUndefined();
      expect(node.status?.allocatable).toMatchObject({
        cpu: "64",
        memory: "8Gi",
        "ephemeral-storage": "100Gi",
        pods: "200",
      });
      expect(node.status?.conditions?.find((each) => each.type === "Ready")?.status).toBe("True");
    });

    it.each<[string, string[], string, number, string]>([
      ["ends well", ["--run-ms=10"], "Succeeded", 0, "Completed"],
      ["ends with 3", ["--run-ms=10", "--exit=3"], "Failed", 3, "Error"],
      ["is no simulation", ["--what"], "Failed", 128, "StartError"],
    ])("simulates the life of a pod that %s", async (_title, flags, phase, exitCode, reason) => {
      await create("pod", container(["--start-ms=30", "--ready-ms=30", ...flags]));
      const pod = await inPhase("pod", phase);
      expect(pod.status?.containerStatuses).toMatchObject([
        { ready: false, restartCount: 0, state: { terminated: { exitCode, reason } } },
      ]);
      expect(pod.status?.podIP).toMatch(/^10\.0\.[0-4]\.\d+$/);
      expect(pod.status?.startTime).toBeDefined();
    });

    it("shows each stage: creating, running, ready", async () => {
      await create("pod", container(["--start-ms=3600000", "--ready-ms=7200000"]));
      await until("the container is created", async () => {
        const waiting = (await read("pod")).status?.containerStatuses?.[0]?.state?.waiting;
        return waiting?.reason === "ContainerCreating" && (await read("pod")).status?.podIP !== undefined;
      });
      aheadMs += 3_600_000;
      const running = await inPhase("pod", "Running");
      expect(running.status?.containerStatuses).toMatchObject([{ ready: false, started: true }]);
      aheadMs += 7_200_000;
      await until("it is ready", async () => isReady(await read("pod")));
      await api.deleteNamespacedPod({ name: "pod", namespace, gracePeriodSeconds: 0 });
    });

    it("never starts a pod whose image is missing, with the reason", async () => {
      await create("pod", container(["--image-missing"]));
      await until("the pull has failed", async () => {
        const waiting = (await read("pod")).status?.containerStatuses?.[0]?.state?.waiting;
        return waiting?.reason === "ImagePullBackOff";
      });
      await api.deleteNamespacedPod({ name: "pod", namespace });
      await until("it is gone", async () => (await api.listNamespacedPod({ namespace })).items.length === 0);
    });

    it("cannot pull an image below missing.example, and reports that", async () => {
      await create("pod", { ...container([]), image: "missing.example/tool:1" });
      await until("it holds back", async () => {
        const waiting = (await read("pod")).status?.containerStatuses?.[0]?.state?.waiting;
        return waiting?.reason === "ImagePullBackOff";
      });
      await until("a warning is there", async () => {
        const events = await api.listNamespacedEvent({ namespace });
        return events.items.some((event) => event.message?.startsWith("Failed to pull image") === true);
      });
      await api.deleteNamespacedPod({ name: "pod", namespace, gracePeriodSeconds: 0 });
    });

    it("serves logs: whole, in part, and followed to the end", async () => {
      const env = [{ name: "NAME", valueFrom: { fieldRef: { fieldPath: "metadata.name" } } }];
      const flags = ["--run-ms=3600000", '--print={"result":1}', "--print=of $(NAME)", "--print-at-end=bye"];
      await create("pod", { ...container(flags), env });
      await inPhase("pod", "Running");
      expect(await logs("pod")).toBe('{"result":1}\nof pod\n');
      expect(await api.readNamespacedPodLog({ name: "pod", namespace, tailLines: 1 })).toBe("of pod\n");
      const followed = follow("pod");
      aheadMs += 3_600_000;
      expect(await followed).toBe('{"result":1}\nof pod\nbye\n');
      await inPhase("pod", "Succeeded");
      expect(await logs("pod")).toBe('{"result":1}\nof pod\nbye\n');
    });

    it("waits for the grace period and reports the last exit code", async () => {
      await create("polite", container(["--term-ms=5000", "--term-exit=7"]));
      await create("deaf", container(["--ignore-term"]), { terminationGracePeriodSeconds: 60 });
      for (const name of ["polite", "deaf"]) await inPhase(name, "Running");
      const last = { polite: lastExitCode("polite"), deaf: lastExitCode("deaf") };
      for (const name of ["polite", "deaf"]) await api.deleteNamespacedPod({ name, namespace });
      await until("the end has begun", async () => (await read("deaf")).metadata?.deletionTimestamp !== undefined);
      aheadMs += 5_000;
      expect(await last.polite).toBe(7);
      aheadMs += 60_000;
      expect(await last.deaf).toBe(137);
      await until("both are gone", async () => (await api.listNamespacedPod({ namespace })).items.length === 0);
    });

    it("restarts by its policy, after its back-off", async () => {
      await create("pod", container(["--run-ms=10", "--exit=1"]), { restartPolicy: "OnFailure" });
      await until("it waits for its second restart", async () => {
        const status = (await read("pod")).status?.containerStatuses?.[0];
        return (status?.restartCount ?? 0) >= 1 && status?.state?.waiting?.reason === "CrashLoopBackOff";
      });
      await api.deleteNamespacedPod({ name: "pod", namespace, gracePeriodSeconds: 0 });
    });

    it("ends the containers of a pod on demand, and refuses that for a pod without running ones", async () => {
      const key = `${namespace}/pod`;
      expect(() => nodes.finish(key)).toThrow(/pod/);
      await create("pod", container(["--print-at-end=bye"]), { restartPolicy: "Never" });
      await inPhase("pod", "Running");
      nodes.finish(key, 9);
      const { status } = await inPhase("pod", "Failed");
      expect(status?.containerStatuses).toMatchObject([{ state: { terminated: { exitCode: 9, reason: "Error" } } }]);
      expect(await logs("pod")).toBe("bye\n");
      expect(() => nodes.finish(key)).toThrow(/pod/);
    });

    it("starts the containers that a switched-off machine had not started yet", async () => {
      // So that the addresses of the second life are not those of the first.
      await create("before", container([]), { nodeName: "drivers-1" });
      await create("pod", container(["--start-ms=3600000"]), { nodeName: "drivers-1" });
      await until("it has an address", async () => (await read("pod")).status?.podIP !== undefined);
      await nodes.kill("drivers-1");
      await api.deleteNamespacedPod({ name: "before", namespace, gracePeriodSeconds: 0 });
      await nodes.restart("drivers-1");
      // Known to be looked at again once its address is the new one, as the only pod of the machine.
      await until("it has a new address", async () => (await read("pod")).status?.podIP?.endsWith(".2") === true);
      aheadMs += 3_600_000;
      const { status } = await inPhase("pod", "Running");
      expect(status?.podIPs).toEqual([{ ip: status?.podIP }]);
      await api.deleteNamespacedPod({ name: "pod", namespace, gracePeriodSeconds: 0 });
    });

    it("keeps the pods of a switched-off machine unchanged, and counts them as lost when it starts again", async () => {
      await create("pod", container([]), { nodeName: "drivers-0", restartPolicy: "Always" });
      await inPhase("pod", "Running");
      const last = lastExitCode("pod");
      await nodes.kill("drivers-0");
      await api.deleteNamespacedPod({ name: "pod", namespace });
      await expect(api.readNamespacedPodLog({ name: "pod", namespace })).rejects.toThrow();
      aheadMs += 3_600_000;
      expect((await read("pod")).status?.phase).toBe("Running");
      await nodes.restart("drivers-0");
      expect(await last).toBe(137);
    });

    it("continues with its pods after a restart of its kubelet, and after a hang", async () => {
      await create("pod", container(["--run-ms=3600000"]), { nodeName: "drivers-1" });
      await inPhase("pod", "Running");
      await nodes.restart("drivers-1");
      nodes.freeze("drivers-1");
      aheadMs += 3_600_000;
      await create("other", container(["--run-ms=1"]), { nodeName: "drivers-0" });
      await inPhase("other", "Succeeded");
      expect((await read("pod")).status?.phase).toBe("Running");
      await nodes.thaw("drivers-1");
      const pod = await inPhase("pod", "Succeeded");
      expect(pod.status?.containerStatuses?.[0]?.restartCount).toBe(0);
    });

    it("deletes a node with its object, and registers it again", async () => {
      await nodes.delete("workers-0");
      await expect(api.readNode({ name: "workers-0" })).rejects.toMatchObject({ code: 404 });
      await nodes.restart("workers-0");
      await create("pod", container(["--run-ms=1"]), { nodeName: "workers-0" });
      await inPhase("pod", "Succeeded");
    });

    it("runs 150 pods, each with its own address while it runs", async () => {
      const names = Array.from({ length: 150 }, (_, index) => `pod-${index}`);
      let pods: readonly V1Pod[] = [];
      // On a slow machine, concurrent connections for all of them would exceed the timeout of a client.
      for (let at = 0; at < names.length; at += 10) {
        const some = names.slice(at, at + 10);
        await Promise.all(
          some.map((name) => create(name, container(["--start-ms=5"]), { nodeSelector: { pool: "workers" } })),
        );
        pods = await until(
          "all are ready",
          async () => {
            const { items } = await api.listNamespacedPod({ namespace });
            return items.every(isReady) && items;
          },
          { timeoutMs: 120_000, everyMs: 50 },
        );
      }
      expect(new Set(pods.map((pod) => pod.status?.podIP)).size).toBe(150);
      await api.deleteCollectionNamespacedPod({ namespace });
      await until("all are gone", async () => (await api.listNamespacedPod({ namespace })).items.length === 0, {
        timeoutMs: 120_000,
        everyMs: 250,
      });
      await until("the nodes have released them", () => nodes.podCount() < 150);
    });

    function container(flags: readonly string[]): V1Container {
      return { name: "main", image: "none", command: ["simulate"], args: [...flags] };
    }

    async function create(name: string, main: V1Container, spec: Partial<V1PodSpec> = {}): Promise<void> {
      const body = { metadata: { name }, spec: { restartPolicy: "Never", ...spec, containers: [main] } };
      await api.createNamespacedPod({ namespace, body });
    }

    function read(name: string): Promise<V1Pod> {
      return api.readNamespacedPod({ name, namespace });
    }

    function inPhase(name: string, phase: string): Promise<V1Pod> {
      return until(`pod ${name} is ${phase}`, async () => {
        const pod = await read(name);
        return pod.status?.phase === phase && pod;
      });
    }

    function isReady(pod: V1Pod): boolean {
      return pod.status?.conditions?.some((each) => each.type === "Ready" && each.status === "True") ?? false;
    }

    function logs(name: string): Promise<string> {
      return api.readNamespacedPodLog({ name, namespace });
    }

    async function follow(name: string): Promise<string> {
      const stream = new PassThrough();
      await new Log(config).log(namespace, name, "main", stream, { follow: true });
      const parts: string[] = [];
      for await (const part of stream.setEncoding("utf8")) parts.push(String(part));
      return parts.join("");
    }

    /** The last reported exit code before the pod was deleted. */
    async function lastExitCode(name: string): Promise<number | undefined> {
      const source = listWatch<V1Pod>(config, `/api/v1/namespaces/${namespace}/pods`);
      const { signal } = new AbortController();
      const { resourceVersion } = await source.list({ limit: 0, signal });
      for await (const event of source.watch({ resourceVersion, timeoutSeconds: 60, signal })) {
        if (event.type !== "DELETED" || event.object.metadata?.name !== name) continue;
        return event.object.status?.containerStatuses?.[0]?.state?.terminated?.exitCode;
      }
      return undefined;
    }
  });
}
