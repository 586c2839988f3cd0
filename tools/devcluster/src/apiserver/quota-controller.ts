import { type JsonObject, setAt, isSameJson } from "./json.ts";
import { resourceQuotas } from "./kinds/resource-quota.ts";
import { getName } from "./metadata.ts";
import { passNamespaces } from "./pass-namespaces.ts";
import { buildQuotaStatus, type CountedObject, decideQuota } from "./quota.ts";
import type { Registry } from "./registry.ts";
import { buildBucketName, type Resource } from "./resource.ts";
import { FailureError } from "./status.ts";
import type { ObjectStore } from "./store.ts";
import { getKeyNamespace } from "./watch-events.ts";

export type QuotaDeps = {
  readonly store: ObjectStore;
  readonly registry: Registry;
  /** The kinds whose objects count. */
  readonly kinds: () => readonly Resource[];
  readonly onDefect: (error: unknown) => void;
};

const QUOTAS = buildBucketName(resourceQuotas);

/**
 * Returns why the quotas of a namespace refuse a new object; undefined: they do not. It counts the current objects, so that two concurrent requests cannot both
 * use the last place.
 */
export function refuseByQuota(
  { store, kinds }: Pick<QuotaDeps, "store" | "kinds">,
  namespace: string,
  added: CountedObject,
): string | undefined {
  const quotas = inside(store, resourceQuotas, namespace);
  if (quotas.length === 0) return undefined;
  const world = listCountedObjects(store, kinds(), namespace);
  return quotas.map((quota) => decideQuota(quota, added, world)).find((because) => because !== undefined);
}

/** Updates the status of every quota soon after a change of it or of any object in its namespace. */
export function startQuotaController(deps: QuotaDeps): Disposable {
  const { store } = deps;
  const passes = passNamespaces((namespace) => report(deps, namespace), deps.onDefect);
  for (const [key] of store.entries(QUOTAS)) passes.note(getKeyNamespace(key));
  const unsubscribe = store.subscribe((_bucket, { key }) => {
    if (inside(store, resourceQuotas, getKeyNamespace(key)).length > 0) passes.note(getKeyNamespace(key));
  });
  return {
    [Symbol.dispose]: () => {
      unsubscribe();
      passes[Symbol.dispose]();
    },
  };
}

function report({ store, registry, kinds }: QuotaDeps, namespace: string): void {
  const world = listCountedObjects(store, kinds(), namespace);
  for (const quota of inside(store, resourceQuotas, namespace)) {
    const status = buildQuotaStatus(quota, world);
    if (isSameJson(quota["status"], status)) continue;
    const target = { resource: resourceQuotas, namespace, name: getName(quota) };
    try {
      registry.update(target, { subresource: "status", change: () => setAt(quota, ["status"], status), dryRun: false });
    } catch (error) {
      // Another write came first, and has triggered the next pass.
      if (!(error instanceof FailureError)) throw error;
    }
  }
}

function listCountedObjects(store: ObjectStore, kinds: readonly Resource[], namespace: string): CountedObject[] {
  return kinds
    .filter((resource) => resource.namespaced)
    .flatMap((resource) => inside(store, resource, namespace).map((object) => ({ resource, object })));
}

function inside(store: ObjectStore, resource: Resource, namespace: string): JsonObject[] {
  const prefix = `${namespace}/`;
  return store.entries(buildBucketName(resource)).flatMap(([key, object]) => (key.startsWith(prefix) ? [object] : []));
}
