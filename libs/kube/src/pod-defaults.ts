import type { KubeConfig, V1LimitRange, V1RuntimeClass } from "@kubernetes/client-node";
import { buildPodDefaults, type PodDefaults } from "@muster/resources";
import { openInformer } from "./informer.ts";
import { isForbidden, toKubeFault } from "./kube-fault.ts";
import { listWatch } from "./list-watch.ts";

/** The requests that admission adds to pods, as the API server has them. */
export type FollowedPodDefaults = AsyncDisposable & {
  /** The defaults for pods of this namespace, by default of the followed one; the same object until a change. Omits resources that the service may not list. */
  current(namespace?: string): PodDefaults;
  /** Resolves once every permitted list is complete; rejects with FaultError cancelled when disposed before that. */
  readonly synced: Promise<unknown>;
  /** Whether `synced` has resolved. */
  isSynced(): boolean;
};

type PodDefaultsOptions = {
  /** Default: every namespace. */
  readonly namespace?: string | undefined;
  readonly onError: (error: unknown, retryInMs: number) => void;
  /** Receives the path of a resource that the API server does not serve, once, instead of an error: many clusters have no RuntimeClasses. */
  readonly onUnserved: (path: string) => void;
};

const RUNTIME_CLASSES = "/apis/node.k8s.io/v1/runtimeclasses";

/** Follows the LimitRanges of the namespace, and all RuntimeClasses. */
export function openPodDefaults(
  kube: KubeConfig,
  { namespace: followed, onError, onUnserved }: PodDefaultsOptions,
): FollowedPodDefaults {
  const refused = [Promise.withResolvers<undefined>(), Promise.withResolvers<undefined>()] as const;
  const limitsPath = followed === undefined ? "/api/v1/limitranges" : `/api/v1/namespaces/${followed}/limitranges`;
  /** Reports a missing right, or an unserved resource, once: an installation may work without it. */
  const reporter = (right: PromiseWithResolvers<undefined>, path: string): typeof onError => {
    let isRefused = false;
    return (error, retryInMs) => {
      const before = isRefused;
      const isUnserved = toKubeFault(error)?.code === "not_found";
      isRefused = isUnserved || isForbidden(error);
      if (isRefused && before) return;
      if (isRefused) right.resolve(undefined);
      if (isUnserved) onUnserved(path);
      else onError(error, retryInMs);
    };
  };
  const limitRanges = openInformer({
    source: listWatch<V1LimitRange>(kube, limitsPath),
    project: ({ metadata, spec }) => ({
      namespace: metadata?.namespace ?? "",
      name: metadata?.name ?? "",
      limits: spec?.limits,
    }),
    onError: reporter(refused[0], limitsPath),
  });
  const runtimeClasses = openInformer({
    source: listWatch<V1RuntimeClass>(kube, RUNTIME_CLASSES),
    project: ({ metadata, overhead }) => ({ name: metadata?.name ?? "", overhead }),
    onError: reporter(refused[1], RUNTIME_CLASSES),
  });
  const known = new Map<string, PodDefaults>();
  let isSynced = false;
  for (const cache of [limitRanges, runtimeClasses]) cache.onChange(() => known.clear());
  const synced = Promise.all([
    Promise.race([limitRanges.synced, refused[0].promise]),
    Promise.race([runtimeClasses.synced, refused[1].promise]),
  ]).then(() => (isSynced = true));
  // A caller that never awaits `synced` must not crash because of its rejection.
  synced.catch(() => undefined);
  return {
    current: (namespace = followed ?? "") => {
      const before = known.get(namespace);
      if (before !== undefined) return before;
      const own = limitRanges.list().filter((each) => each.namespace === namespace);
      const defaults = buildPodDefaults(own, runtimeClasses.list());
      known.set(namespace, defaults);
      return defaults;
    },
    synced,
    isSynced: () => isSynced,
    [Symbol.asyncDispose]: async () => {
      await Promise.all([limitRanges[Symbol.asyncDispose](), runtimeClasses[Symbol.asyncDispose]()]);
    },
  };
}
