import type { KubeConfig } from "@kubernetes/client-node";
import { type KubeCalls, makeKubeCalls, type KubeObject, type ListWatch, listWatch } from "@muster/kube";

/** The calls of scheduler, nodes and controllers to an API server: over HTTP, or within its process (`ApiServer.api`). */
export type ClusterApi = {
  calls(defaults: { readonly timeoutMs: number }): KubeCalls;
  /** Lists and watches a path such as `/api/v1/pods`. Its objects may be shared: a reader never changes them. */
  listWatch<Object extends KubeObject>(
    path: string,
    selectors?: { readonly labelSelector?: string; readonly fieldSelector?: string },
  ): ListWatch<Object>;
};

/** Calls any API server over HTTP. */
export function makeRemoteApi(kubeconfig: KubeConfig): ClusterApi {
  return {
    calls: (defaults) => makeKubeCalls(kubeconfig, defaults),
    listWatch: (path, selectors) => listWatch(kubeconfig, path, selectors),
  };
}
