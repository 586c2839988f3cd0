import type { V1ConfigMap, V1Pod, V1Secret } from "@kubernetes/client-node";
import { type KubeCalls, unlessMissing } from "@muster/kube";
import { unlessGone } from "../unless-gone.ts";
import type { Environment } from "./build-environment.ts";
import type { PodWorkerDeps } from "./pod-worker.ts";
import type { ConfigReader } from "./start-container.ts";

export type PodName = { readonly name: string; readonly namespace: string; readonly uid: string };

/** The calls of the worker of one pod; they affect only the pod with this uid. */
export function makePodApi(
  calls: KubeCalls,
  { name, namespace, uid }: PodName,
): Pick<PodWorkerDeps, "readPod" | "saveStatus" | "deletePod"> & { readonly config: ConfigReader } {
  const of = (plural: string) => ({ apiVersion: "v1", plural, namespace });
  return {
    readPod: async () => {
      const pod = await unlessMissing(calls.get<V1Pod>(of("pods"), name));
      return pod?.metadata?.uid === uid ? pod : undefined;
    },
    saveStatus: (pod) =>
      calls.replace(of("pods"), { ...pod, apiVersion: "v1", kind: "Pod" }, { subresource: "status" }),
    deletePod: async () => {
      await unlessGone(calls.delete(of("pods"), name, { gracePeriodSeconds: 0, preconditions: { uid } }));
    },
    config: {
      configMap: async (wanted) => {
        const found = await unlessMissing(calls.get<V1ConfigMap>(of("configmaps"), wanted));
        return found === undefined ? undefined : (found.data ?? {});
      },
      secret: async (wanted) => {
        const found = await unlessMissing(calls.get<V1Secret>(of("secrets"), wanted));
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
