import type { V1Pod } from "@kubernetes/client-node";
import type { PodName } from "../kubelet/pod-api.ts";
import type { PodWorkerDeps } from "../kubelet/pod-worker.ts";
import type { JsonApi } from "../json-api.ts";
import { unlessMissing } from "@muster/kube";
import { unlessGone } from "../unless-gone.ts";

/** What the worker of one pod asks of the API server; only the pod with this uid is ever touched. A status is merged into what is there, so that it never meets a conflict. */
export function simulatedPodApi(
  api: JsonApi,
  { name, namespace, uid }: PodName,
): Pick<PodWorkerDeps, "readPod" | "saveStatus" | "deletePod"> {
  const path = `/api/v1/namespaces/${namespace}/pods/${name}`;
  return {
    readPod: async () => {
      const pod = await unlessMissing(api.send("GET", path));
      const found = pod === undefined ? undefined : asPod(pod);
      return found?.metadata?.uid === uid ? found : undefined;
    },
    saveStatus: async ({ status }) => {
      // Merged, an address that a machine gives after its restart would stand beside the one from before.
      const podIPs = [...(status?.podIPs ?? []), { $patch: "replace" }];
      const body = { metadata: { uid }, status: status?.podIP === undefined ? status : { ...status, podIPs } };
      return asPod(await api.patch("strategic-merge", `${path}/status`, body));
    },
    deletePod: async () => {
      await unlessGone(api.send("DELETE", path, { gracePeriodSeconds: 0, preconditions: { uid } }));
    },
  };
}

/** The one place where JSON of the API server becomes a pod; nobody else keeps managed fields either. */
function asPod(json: unknown): V1Pod {
  const pod = json as V1Pod;
  delete pod.metadata?.managedFields;
  return pod;
}
