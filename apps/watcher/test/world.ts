import { once } from "node:events";
import { connect, createServer, type Socket } from "node:net";
import {
  CoreV1Api,
  KubeConfig,
  PatchStrategy,
  setHeaderOptions,
  type V1ObjectMeta,
  type V1PodStatus,
} from "@kubernetes/client-node";
import { loadKube } from "@muster/kube";
import { makeKubeClient } from "@muster/testkit";
import { labels } from "@muster/proto";
import type { Logger } from "@muster/service";

const NAMESPACE = "default";

export const silent: Logger = {
  debug: () => undefined,
  info: () => undefined,
  warn: () => undefined,
  error: () => undefined,
  child: () => silent,
};

/** A TCP proxy whose connections can be cut, and which can refuse new ones. */
export type Proxy = AsyncDisposable & { readonly port: number; cut(): void; refuse(refusing: boolean): void };

export async function openProxy(port: number): Promise<Proxy> {
  const open = new Set<Socket>();
  let refusing = false;
  const server = createServer((near) => {
    if (refusing) {
      near.destroy();
      return;
    }
    const far = connect(port, "127.0.0.1");
    for (const [one, other] of [
      [near, far],
      [far, near],
    ] as const) {
      open.add(one);
      one.on("error", () => undefined);
      one.on("close", () => {
        open.delete(one);
        other.destroy();
      });
      one.pipe(other);
    }
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  const address = server.address();
  if (address === null || typeof address === "string") throw new Error("no port");
  const cut = (): void => {
    for (const socket of open) socket.resetAndDestroy();
  };
  return {
    port: address.port,
    cut,
    refuse: (wanted) => {
      refusing = wanted;
    },
    [Symbol.asyncDispose]: async () => {
      cut();
      server.close();
      await once(server, "close");
    },
  };
}

/** The same cluster and user behind another port. */
export function buildConfigBehind(kubeconfig: string, port: number): KubeConfig {
  const direct = loadKube(kubeconfig);
  const cluster = direct.getCurrentCluster();
  const user = direct.getCurrentUser();
  if (cluster === null || user === null) throw new Error("the kubeconfig names no cluster and user");
  const behind = new KubeConfig();
  const url = new URL(cluster.server);
  url.port = String(port);
  behind.loadFromClusterAndUser({ ...cluster, server: url.href }, user);
  return behind;
}

/** The owner of pods, the scheduler and the kubelet, as far as the watcher observes them. */
export function actors(kubeconfig: string) {
  const api = makeKubeClient(loadKube(kubeconfig), CoreV1Api, { timeoutMs: 60_000 });
  const merge = setHeaderOptions("Content-Type", PatchStrategy.MergePatch);
  const setStatus = (name: string, status: V1PodStatus) =>
    api.patchNamespacedPodStatus({ name, namespace: NAMESPACE, body: { status } }, merge);
  /** The pod's phase and the state of its only container. */
  const become = (name: string, phase: string, state: object, ready = false) => {
    const main = { name: "main", image: "i", imageID: "", restartCount: 0, ready, state };
    return setStatus(name, { phase, podIP: "10.0.0.9", containerStatuses: [main] });
  };
  return {
    /** A pod with one container that requests 100m of cpu. */
    createRequestingPod: (namespace: string, metadata: V1ObjectMeta, node: string) => {
      const main = { name: "main", image: "i", resources: { requests: { cpu: "100m" } } };
      const spec = { nodeName: node, restartPolicy: "Never", containers: [main] };
      return api.createNamespacedPod({ namespace, body: { metadata, spec } });
    },
    /** Without a kubelet the pod stays, and is being deleted, until it is deleted without a grace period. */
    deleteWithGrace: (name: string, namespace: string) =>
      api.deleteNamespacedPod({ name, namespace, gracePeriodSeconds: 30 }),
    removePod: (name: string, namespace: string) => api.deleteNamespacedPod({ name, namespace, gracePeriodSeconds: 0 }),
    setAllocatable: (name: string, allocatable: Readonly<Record<string, string>>) =>
      api.patchNodeStatus({ name, body: { status: { allocatable } } }, merge),
    createPod: (name: string, owner: string, node?: string) =>
      api.createNamespacedPod({
        namespace: NAMESPACE,
        body: {
          metadata: {
            name,
            labels: {
              [labels.ownerKind]: "session",
              [labels.owner]: owner,
              [labels.component]: "server",
              [labels.exclusive]: "true",
            },
          },
          spec: {
            restartPolicy: "Never",
            containers: [{ name: "main", image: "i" }],
            ...(node === undefined ? {} : { nodeName: node }),
          },
        },
      }),
    run: (name: string) => become(name, "Running", { running: {} }, true),
    end: (name: string, exitCode: number) =>
      become(name, exitCode === 0 ? "Succeeded" : "Failed", { terminated: { exitCode } }),
    waitInVain: (name: string, reason: string) => become(name, "Pending", { waiting: { reason } }),
    deletePod: (name: string) => api.deleteNamespacedPod({ name, namespace: NAMESPACE, gracePeriodSeconds: 0 }),
    createNode: (name: string) => api.createNode({ body: { metadata: { name, labels: { pool: "drivers" } } } }),
    nodeReady: (name: string, status: "True" | "False", heartbeat: string) =>
      api.patchNodeStatus(
        {
          name,
          body: { status: { conditions: [{ type: "Ready", status, lastHeartbeatTime: heartbeat }] } },
        },
        merge,
      ),
    /** Acts as the node controller once a node is ready. */
    untaint: (name: string) => api.patchNode({ name, body: { spec: { taints: null } } }, merge),
    cordon: (name: string) => api.patchNode({ name, body: { spec: { unschedulable: true } } }, merge),
    labelNode: (name: string, wanted: Readonly<Record<string, string>>) =>
      api.patchNode({ name, body: { metadata: { labels: wanted } } }, merge),
    deleteNode: (name: string) => api.deleteNode({ name }),
  };
}
