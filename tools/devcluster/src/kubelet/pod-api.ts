import type { CoreV1Api, V1Pod } from "@kubernetes/client-node";
import { unlessMissing } from "@muster/kube";
import { unlessGone } from "../unless-gone.ts";
import type { Environment } from "./build-environment.ts";
import type { PodWorkerDeps } from "./pod-worker.ts";
import type { ConfigReader } from "./start-container.ts";

export type PodName = { readonly name: string; readonly namespace: string; readonly uid: string };

/** Everything that the worker of one pod asks of the API server; only the pod with this uid is ever touched. */
export function podApi(
  api: CoreV1Api,
  { name, namespace, uid }: PodName,
): Pick<PodWorkerDeps, "readPod" | "saveStatus" | "deletePod"> & { readonly config: ConfigReader } {
  return {
    readPod: async () => {
      const pod = await unlessMissing(api.readNamespacedPod({ name, namespace }));
      return pod?.metadata?.uid === uid ? pod : undefined;
    },
    saveStatus: (pod: V1Pod) =>
      api.replaceNamespacedPodStatus({ name, namespace, body: { ...pod, apiVersion: "v1", kind: "Pod" } }),
    deletePod: async () => {
      const body = { gracePeriodSeconds: 0, preconditions: { uid } };
      await unlessGone(api.deleteNamespacedPod({ name, namespace, body }));
    },
    config: {
      configMap: async (wanted) => {
        const found = await unlessMissing(api.readNamespacedConfigMap({ name: wanted, namespace }));
        return found === undefined ? undefined : (found.data ?? {});
      },
      secret: async (wanted) => {
        const found = await unlessMissing(api.readNamespacedSecret({ name: wanted, namespace }));
        return found === undefined ? undefined : decode(found.data ?? {});
      },
    },
  };
}

function decode(data: Environment): Environment {
  return Object.fromEntries(
    Object.entries(data).map(([key, value]) => [key, Buffer.from(value, "base64").toString("utf8")]),
  );
}
