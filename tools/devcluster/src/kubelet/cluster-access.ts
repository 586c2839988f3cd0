import type { KubeConfig, V1ConfigMap } from "@kubernetes/client-node";
import { makeKubeCalls, unlessMissing } from "@muster/kube";
import type { KubeletAccess } from "./kubelet-server.ts";

const CALL_TIMEOUT_MS = 10_000;
const PUBLISHED = { apiVersion: "v1", plural: "configmaps", namespace: "kube-system" };

/** The authority of clients that a cluster publishes for its servers. Without one, a kubelet refuses every request. */
export async function buildClusterAccess(kubeconfig: KubeConfig): Promise<KubeletAccess> {
  await using calls = makeKubeCalls(kubeconfig, { timeoutMs: CALL_TIMEOUT_MS });
  const published = await unlessMissing(calls.get<V1ConfigMap>(PUBLISHED, "extension-apiserver-authentication"));
  const clientCa = published?.data?.["client-ca-file"];
  return clientCa === undefined ? {} : { clientCa };
}
