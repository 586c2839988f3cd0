import type { KubeConfig, V1Pod } from "@kubernetes/client-node";
import { openInformer, listWatch } from "@muster/kube";
import { labels } from "@muster/proto";
import { OWNER_KIND } from "../domain/build-pod.ts";

/** Running pods that carry a pod id and belong to no replica set, because of `delete --orphan` or because a user removed their labels. */
export type ForeignPods = AsyncDisposable & {
  /** False until the first list is complete. Before that, a node without an entry may have such a pod. */
  isKnown(): boolean;
  /** Pod names by node. */
  on(podId: string): ReadonlyMap<string, string>;
  onChange(listener: (podId: string) => void): () => void;
  /** Time since the last answer of the API server. */
  ageMs(): number;
};

type Foreign = { readonly pod: string; readonly podId: string; readonly node: string };

/** Follows the pods of the namespace that have a pod id. The watcher publishes only pods that have an owner. */
export function followForeignPods(
  kube: KubeConfig,
  namespace: string,
  onError: (error: unknown, retryInMs: number) => void,
): ForeignPods {
  const pods = openInformer<V1Pod, Foreign | undefined, "podId">({
    source: listWatch<V1Pod>(kube, `/api/v1/namespaces/${namespace}/pods`, { labelSelector: labels.podId }),
    project: readForeign,
    indexes: { podId: (pod) => (pod === undefined ? [] : [pod.podId]) },
    onError,
  });
  return {
    isKnown: () => pods.resourceVersion() !== undefined,
    on: (podId) => new Map(pods.byIndex("podId", podId).flatMap((found) => (found ? [[found.node, found.pod]] : []))),
    onChange: (listener) =>
      pods.onChange(({ before, after }) => {
        if (before?.node === after?.node && before?.podId === after?.podId) return;
        for (const podId of new Set([before, after].flatMap((pod) => pod?.podId ?? []))) listener(podId);
      }),
    ageMs: pods.ageMs,
    [Symbol.asyncDispose]: () => pods[Symbol.asyncDispose](),
  };
}

/** Returns undefined if the pod belongs to a set, is not scheduled, or has ended. */
function readForeign({ metadata, spec, status }: V1Pod): Foreign | undefined {
  const own = metadata?.labels ?? {};
  const hasOwner = own[labels.ownerKind] === OWNER_KIND && (own[labels.owner] ?? "") !== "";
  const node = spec?.nodeName ?? "";
  if (hasOwner || node === "" || status?.phase === "Failed" || status?.phase === "Succeeded") return undefined;
  return { pod: metadata?.name ?? "", podId: own[labels.podId] ?? "", node };
}
