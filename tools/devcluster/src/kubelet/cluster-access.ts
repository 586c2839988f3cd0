import { CoreV1Api, type KubeConfig } from "@kubernetes/client-node";
import { kubeClient, kubeFault } from "@muster/kube";
import type { KubeletAccess } from "./kubelet-server.ts";

const CALL_TIMEOUT_MS = 10_000;

/** What a cluster publishes for servers that want to know its clients. Nobody may ask where it publishes nothing. */
export async function clusterAccess(kubeconfig: KubeConfig): Promise<KubeletAccess> {
  const api = kubeClient(kubeconfig, CoreV1Api, { timeoutMs: CALL_TIMEOUT_MS });
  const name = "extension-apiserver-authentication";
  try {
    const published = await api.readNamespacedConfigMap({ name, namespace: "kube-system" });
    const clientCa = published.data?.["client-ca-file"];
    return clientCa === undefined ? {} : { clientCa };
  } catch (error) {
    if (kubeFault(error)?.code === "not_found") return {};
    throw error;
  }
}
