import type { V1Pod } from "@kubernetes/client-node";
import type { PodName } from "../kubelet/pod-api.ts";
import type { PodWorkerDeps } from "../kubelet/pod-worker.ts";
import { type KubeCalls, unlessMissing } from "@muster/kube";
import { unlessGone } from "../unless-gone.ts";
import { withoutManagedFields } from "../without-managed-fields.ts";

/** What the worker of one pod asks of the API server; only the pod with this uid is ever touched. A status is merged into what is there, so that it never meets a conflict. */
export function simulatedPodApi(
  calls: KubeCalls,
  { name, namespace, uid }: PodName,
): Pick<PodWorkerDeps, "readPod" | "saveStatus" | "deletePod"> {
  const pods = { apiVersion: "v1", plural: "pods", namespace };
  return {
    readPod: async () => {
      const pod = await unlessMissing(calls.get<V1Pod>(pods, name));
      return pod?.metadata?.uid === uid ? withoutManagedFields(pod) : undefined;
    },
    saveStatus: async ({ status }) => {
      // Merged, an address that a machine gives after its restart would stand beside the one from before.
      const podIPs = [...(status?.podIPs ?? []), { $patch: "replace" }];
      const body = { metadata: { uid }, status: status?.podIP === undefined ? status : { ...status, podIPs } };
      const patch = { kind: "strategic", body } as const;
      return withoutManagedFields(await calls.patch<V1Pod>(pods, name, patch, { subresource: "status" }));
    },
    deletePod: async () => {
      await unlessGone(calls.delete(pods, name, { gracePeriodSeconds: 0, preconditions: { uid } }));
    },
  };
}
