import type { KubeConfig, V1Pod } from "@kubernetes/client-node";
import { openInformer, listWatch } from "@muster/kube";
import { labels } from "@muster/proto";
import { readExits, type PodExits } from "../domain/count-exits.ts";
import { getOrigin } from "../domain/lease.ts";
import { isSliceNamespace } from "../types/kubernetes.ts";
import { getNamespace } from "../types/lease-names.ts";
import { readClaim } from "../types/workload-types.ts";
import type { CrashWatch } from "../lead/wake-leases.ts";

/** The watch of an engine without a cluster. */
export const NO_PODS: CrashWatch = {
  exitsOf: () => [],
  onExit: () => () => undefined,
  onGone: () => () => undefined,
};

type Seen = PodExits & { readonly lease: string; readonly run: string; readonly namespace: string };

/**
 * Watches the pods of all leases, and accepts each only in the namespace where it must be. In a slice of the cluster, users choose the labels of their pods.
 * `own` is the engine's namespace. Starts as soon as the API server answers.
 */
export function openCrashWatch(
  config: KubeConfig,
  own: string,
  onProblem: (error: unknown, retryInMs: number) => void,
): CrashWatch & AsyncDisposable {
  const pods = openInformer<V1Pod, Seen, "lease">({
    source: listWatch(config, "/api/v1/pods", { labelSelector: `${labels.managedBy}=muster,${labels.lease}` }),
    project: (pod) => {
      const { [labels.lease]: lease = "", [labels.leaseRun]: run = "" } = pod.metadata?.labels ?? {};
      return { ...readExits(pod), lease, run, namespace: pod.metadata?.namespace ?? "" };
    },
    indexes: { lease: ({ lease }) => [lease] },
    onError: onProblem,
  });
  return {
    exitsOf: (lease) => {
      const namespace = getNamespace(lease.order, readClaim(lease.order), own);
      const { id, run } = getOrigin(lease);
      return pods.byIndex("lease", id).filter((each) => each.run === String(run) && each.namespace === namespace);
    },
    onExit: (listener) =>
      pods.onChange(({ before, after }) => {
        if (after !== undefined && isTrusted(after) && after.exits > (before?.exits ?? 0)) listener(after.lease);
      }),
    onGone: (listener) =>
      pods.onChange(({ before, after }) => {
        if (before !== undefined && isTrusted(before) && after === undefined) listener(before.lease);
      }),
    [Symbol.asyncDispose]: () => pods[Symbol.asyncDispose](),
  };
}

/** Lease pods are never in slices. Otherwise a user could trigger checks of other users' leases from a slice. */
function isTrusted({ namespace }: Seen): boolean {
  return !isSliceNamespace(namespace);
}
