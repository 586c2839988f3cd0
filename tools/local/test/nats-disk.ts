import type { V1Pod } from "@kubernetes/client-node";
import { makeKubeCalls, type KubeCalls, type KubeObject, loadKube } from "@muster/kube";
import { until } from "@muster/testkit";
import { type LocalDisk, openLocalDisk } from "./local-disk.ts";

const NAMESPACES = { apiVersion: "v1", plural: "namespaces" };
const PODS = { apiVersion: "v1", plural: "pods" };
const IMAGE = "node:24-bookworm-slim";
const PATIENCE = { timeoutMs: 120_000, everyMs: 300 };
/** The user id of the chart's NATS. */
const OWNER = 1000;
/** The chart's default request. */
const STORAGE = "10Gi";

/** A disk for the chart's NATS on the pool's first node. It belongs to the server's user, because Kubernetes does not apply `fsGroup` to node directories. */
export async function openNatsDisk(kubeconfig: string, pool: string): Promise<LocalDisk> {
  await using starting = new AsyncDisposableStack();
  const calls = starting.use(makeKubeCalls(loadKube(kubeconfig)));
  const disk = starting.use(await openLocalDisk(calls, { name: "muster-e2e-nats", pool, storage: STORAGE }));
  await giveAway(calls, disk);
  const all = starting.move();
  return { ...disk, [Symbol.asyncDispose]: () => all.disposeAsync() };
}

/** Runs a privileged pod in its own namespace, because the namespace of the services forbids such pods. */
async function giveAway(calls: KubeCalls, { node, directory }: LocalDisk): Promise<void> {
  const namespace = `muster-e2e-disks-${Date.now()}`;
  const labels = { "pod-security.kubernetes.io/enforce": "privileged" };
  await calls.create(NAMESPACES, { metadata: { name: namespace, labels } });
  try {
    const pods = { ...PODS, namespace };
    const pod = rootPod(node, directory);
    // The namespace must have a service account first.
    await until("the pod is accepted", () => calls.create(pods, pod).then(() => true), PATIENCE);
    const done = async (): Promise<boolean> => {
      const { status } = await calls.get<V1Pod & KubeObject>(pods, "give-away");
      return status?.phase === "Succeeded";
    };
    await until(`${directory} of ${node} belongs to ${OWNER}`, done, PATIENCE);
  } finally {
    await calls.delete(NAMESPACES, namespace);
  }
}

function rootPod(node: string, directory: string): KubeObject {
  const container = {
    name: "main",
    image: IMAGE,
    command: ["chown", `${OWNER}:${OWNER}`, "/disk"],
    volumeMounts: [{ name: "disk", mountPath: "/disk" }],
  };
  const spec = {
    nodeName: node,
    restartPolicy: "OnFailure",
    automountServiceAccountToken: false,
    containers: [container],
    volumes: [{ name: "disk", hostPath: { path: directory, type: "DirectoryOrCreate" } }],
  };
  return { metadata: { name: "give-away" }, spec } as KubeObject;
}
