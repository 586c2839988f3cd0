import type { KubeConfig } from "@kubernetes/client-node";
import { type KubeCalls, kubeCalls, type KubeObject, type ListWatch, listWatch } from "@muster/kube";

/** How scheduler, nodes and controllers use an API server: over HTTP, or within the process that serves it (`ApiServer.api`). */
export type ClusterApi = {
  calls(defaults: { readonly timeoutMs: number }): KubeCalls;
  /** Lists and watches a path such as `/api/v1/pods`. Its objects may be shared: a reader never changes them. */
  listWatch<Object extends KubeObject>(
    path: string,
    selectors?: { readonly labelSelector?: string; readonly fieldSelector?: string },
  ): ListWatch<Object>;
};

/** Any API server, over HTTP. */
export function remoteApi(kubeconfig: KubeConfig): ClusterApi {
  return {
    calls: (defaults) => kubeCalls(kubeconfig, defaults),
    listWatch: (path, selectors) => listWatch(kubeconfig, path, selectors),
  };
}
