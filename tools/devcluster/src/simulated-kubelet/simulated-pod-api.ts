import type { V1Pod } from "@kubernetes/client-node";
import type { KubeCalls } from "@muster/kube";
import { makePodApi, type PodName } from "../kubelet/pod-api.ts";
import type { PodWorkerDeps } from "../kubelet/pod-worker.ts";
import { withoutManagedFields } from "../without-managed-fields.ts";

/** Makes the API calls of a simulated pod's worker. Statuses are patches without a resource version, so they never conflict. */
export function makeSimulatedPodApi(
  calls: KubeCalls,
  pod: PodName,
): Pick<PodWorkerDeps, "readPod" | "saveStatus" | "deletePod"> {
  const { readPod, deletePod } = makePodApi(calls, pod);
  const { name, namespace, uid } = pod;
  return {
    readPod,
    deletePod,
    saveStatus: async ({ status }) => {
      // A merge would keep the old address beside the new one after a restart of the machine.
      const podIPs = [...(status?.podIPs ?? []), { $patch: "replace" }];
      const body = { metadata: { uid }, status: status?.podIP === undefined ? status : { ...status, podIPs } };
      const pods = { apiVersion: "v1", plural: "pods", namespace };
      const patch = { kind: "strategic", body } as const;
      return withoutManagedFields(await calls.patch<V1Pod>(pods, name, patch, { subresource: "status" }));
    },
  };
}
