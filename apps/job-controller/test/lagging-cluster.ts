import type { V1Pod } from "@kubernetes/client-node";
import { KubeError, type KubeCalls, type KubeObject } from "@muster/kube";
import { findController } from "../src/domain/ownership.ts";
import { NAMESPACE } from "./member-world.ts";

/** The outcome of a write: done and answered, done without an answer, or refused. */
export type Luck = "answered" | "unheard" | "refused";

/** The pods of one namespace at the API server, and a cache that receives each change later, in order. */
export type LaggingCluster = {
  readonly calls: Pick<KubeCalls, "get" | "create" | "patch" | "delete">;
  readonly stored: () => readonly V1Pod[];
  readonly cached: () => readonly V1Pod[];
  /** Delivers this many changes to the cache. */
  hear(changes: number): void;
  /** Another client deletes or labels a pod; no effect if it is missing. */
  remove(name: string): void;
  label(name: string, labels: Record<string, string>): void;
  /** Ends the grace of every object that is being deleted. */
  endGrace(): void;
};

/** Builds the cluster. `luck` decides each write, and `duringCall` runs during each call. */
export function makeLaggingCluster(options: {
  readonly luck: () => Luck;
  readonly isGraceful: () => boolean;
  readonly duringCall: () => void;
  readonly onChange: (change: { readonly before: V1Pod | undefined; readonly after: V1Pod | undefined }) => void;
}): LaggingCluster {
  const store = new Map<string, V1Pod>();
  const cache = new Map<string, V1Pod>();
  const unheard: { readonly name: string; readonly after: V1Pod | undefined }[] = [];
  let version = 0;

  function put(name: string, pod: V1Pod): V1Pod {
    version += 1;
    const stored = { ...pod, metadata: { ...pod.metadata, resourceVersion: String(version) } };
    store.set(name, stored);
    unheard.push({ name, after: stored });
    return stored;
  }
  function end(name: string): void {
    if (store.delete(name)) unheard.push({ name, after: undefined });
  }
  function remove(name: string): void {
    const pod = store.get(name);
    if (pod === undefined || pod.metadata?.deletionTimestamp !== undefined) return;
    if (options.isGraceful()) put(name, { ...pod, metadata: { ...pod.metadata, deletionTimestamp: new Date(0) } });
    else end(name);
  }
  function known(name: string): V1Pod {
    const pod = store.get(name);
    if (pod === undefined) throw new KubeError(name, 404, { reason: "NotFound" });
    return pod;
  }
  /** Simulates one call. Other events happen before and after it is done or refused, and then the answer arrives or is lost. */
  async function call<Value>(luck: Luck, work: () => Value): Promise<Value> {
    await Promise.resolve();
    options.duringCall();
    if (luck === "refused") throw new KubeError("writing", 403, { message: "exceeded quota" });
    const value = work();
    options.duringCall();
    await Promise.resolve();
    if (luck === "unheard") throw new DOMException("no answer", "TimeoutError");
    return value;
  }

  return {
    calls: {
      get: (_resource, name) => call("answered", () => known(name) as never),
      create: (_resource, object) =>
        call(options.luck(), () => {
          const name = object.metadata?.name ?? "";
          if (store.has(name)) throw new KubeError("POST", 409, { reason: "AlreadyExists" });
          const metadata = { ...object.metadata, namespace: NAMESPACE, uid: `uid-${version + 1}` };
          return put(name, { ...object, metadata }) as never;
        }),
      patch: (_resource, name, { body }) =>
        call(options.luck(), () => {
          const pod = known(name);
          const { uid, ownerReferences = [] } = (body as KubeObject).metadata ?? {};
          if (pod.metadata?.uid !== uid) throw new KubeError("PATCH", 422, {});
          // Only two patches occur: one adds a reference, and one removes it.
          const adopts = ownerReferences.some((reference) => reference.controller === true);
          if (adopts && findController(pod) !== undefined) throw new KubeError("PATCH", 422, {});
          return put(name, {
            ...pod,
            metadata: { ...pod.metadata, ownerReferences: adopts ? ownerReferences : [] },
          }) as never;
        }),
      delete: (_resource, name, { preconditions } = {}) =>
        call(options.luck(), () => {
          if (known(name).metadata?.uid !== preconditions?.uid)
            throw new KubeError("DELETE", 409, { reason: "Conflict" });
          remove(name);
        }),
    },
    stored: () => [...store.values()],
    cached: () => [...cache.values()],
    hear: (changes) => {
      for (const { name, after } of unheard.splice(0, changes)) {
        const before = cache.get(name);
        if (after === undefined) cache.delete(name);
        else cache.set(name, after);
        options.onChange({ before, after });
      }
    },
    remove,
    label: (name, labels) => {
      const pod = store.get(name);
      if (pod !== undefined) put(name, { ...pod, metadata: { ...pod.metadata, labels } });
    },
    endGrace: () => {
      for (const [name, { metadata }] of store) if (metadata?.deletionTimestamp !== undefined) end(name);
    },
  };
}
