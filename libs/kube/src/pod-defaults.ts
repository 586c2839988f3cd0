import type { KubeConfig, V1LimitRange, V1RuntimeClass } from "@kubernetes/client-node";
import { buildPodDefaults, type PodDefaults } from "@muster/resources";
import { informer } from "./informer.ts";
import { isForbidden, kubeFault } from "./kube-fault.ts";
import { listWatch } from "./list-watch.ts";

/** What admission adds to the requests of the pods of one namespace, as the API server has it. */
export type FollowedPodDefaults = AsyncDisposable & {
  /** The same object until something changes. What the service has no right to list adds nothing. */
  current(): PodDefaults;
  /** Resolves once everything is listed that may be; rejects with FaultError cancelled when disposed before that. */
  readonly synced: Promise<unknown>;
  /** Whether `synced` has resolved. */
  isSynced(): boolean;
};

/** Follows the LimitRanges of the namespace, and all RuntimeClasses. */
export function openPodDefaults(
  kube: KubeConfig,
  { namespace, onError }: { readonly namespace: string; readonly onError: (error: unknown, retryInMs: number) => void },
): FollowedPodDefaults {
  const refused = [Promise.withResolvers<undefined>(), Promise.withResolvers<undefined>()] as const;
  /** A missing right, or a resource that is not served, is reported once: an installation may do without. */
  const reporter = (right: PromiseWithResolvers<undefined>): typeof onError => {
    let isRefused = false;
    return (error, retryInMs) => {
      const before = isRefused;
      isRefused = isForbidden(error) || kubeFault(error)?.code === "not_found";
      if (isRefused && before) return;
      if (isRefused) right.resolve(undefined);
      onError(error, retryInMs);
    };
  };
  const limitRanges = informer({
    source: listWatch<V1LimitRange>(kube, `/api/v1/namespaces/${namespace}/limitranges`),
    project: ({ metadata, spec }) => ({ name: metadata?.name ?? "", limits: spec?.limits }),
    onError: reporter(refused[0]),
  });
  const runtimeClasses = informer({
    source: listWatch<V1RuntimeClass>(kube, "/apis/node.k8s.io/v1/runtimeclasses"),
    project: ({ metadata, overhead }) => ({ name: metadata?.name ?? "", overhead }),
    onError: reporter(refused[1]),
  });
  let known: PodDefaults | undefined;
  let isSynced = false;
  for (const cache of [limitRanges, runtimeClasses]) cache.onChange(() => (known = undefined));
  const synced = Promise.all([
    Promise.race([limitRanges.synced, refused[0].promise]),
    Promise.race([runtimeClasses.synced, refused[1].promise]),
  ]).then(() => (isSynced = true));
  // A caller that never awaits it must not crash by its rejection.
  synced.catch(() => undefined);
  return {
    current: () => (known ??= buildPodDefaults(limitRanges.list(), runtimeClasses.list())),
    synced,
    isSynced: () => isSynced,
    [Symbol.asyncDispose]: async () => {
      await Promise.all([limitRanges[Symbol.asyncDispose](), runtimeClasses[Symbol.asyncDispose]()]);
    },
  };
}
