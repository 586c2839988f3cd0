import { type CollectPolicy, type CollectStep, type CollectableObject, planCollection } from "./collect.ts";
import { makeCollectionTriggers } from "./collection-triggers.ts";
import { getNamespace, getName, getUid } from "./metadata.ts";
import type { ObjectName, Registry } from "./registry.ts";
import { buildBucketName } from "./resource.ts";
import type { Catalogue } from "./resources.ts";
import { FailureError } from "./status.ts";
import type { ObjectStore } from "./store.ts";

export type CollectorDeps = {
  readonly store: ObjectStore;
  readonly registry: Registry;
  readonly catalogue: Catalogue;
  readonly nowMs: () => number;
  readonly policy: Omit<CollectPolicy, "isKept">;
  readonly onDefect: (error: unknown) => void;
};

const SWEEP_EVERY_MS = 60_000;

/** Acts as the garbage collector of a controller manager: soon after a change that may matter, and every minute. */
export function startCollector(deps: CollectorDeps): Disposable {
  let scheduled: NodeJS.Timeout | undefined;
  let pauseMs = 0;
  const triggers = makeCollectionTriggers();
  for (const { object } of world(deps)) triggers.add(object);
  const isKept = (apiVersion: string, kind: string): boolean => deps.catalogue.findKind(apiVersion, kind) !== undefined;
  const pass = (): void => {
    const startMs = performance.now();
    try {
      for (const step of planCollection(world(deps), { ...deps.policy, isKept }, deps.nowMs()))
        act(deps.registry, step);
    } catch (error) {
      deps.onDefect(error);
    }
    // Requests get at least as much time as passes.
    pauseMs = performance.now() - startMs;
  };
  const schedule = (): void => {
    scheduled ??= setTimeout(() => {
      scheduled = undefined;
      pass();
    }, pauseMs);
  };
  const unsubscribe = deps.store.subscribe((_bucket, change) => {
    if (triggers.note(change)) schedule();
  });
  // An earlier process may have ended between the removal of an owner and that of its dependents.
  schedule();
  const sweep = setInterval(pass, SWEEP_EVERY_MS);
  sweep.unref();
  return {
    [Symbol.dispose]: () => {
      unsubscribe();
      clearInterval(sweep);
      clearTimeout(scheduled);
    },
  };
}

function world({ store, catalogue }: CollectorDeps): CollectableObject[] {
  return catalogue
    .all()
    .flatMap((resource) => store.entries(buildBucketName(resource)).map(([, object]) => ({ resource, object })));
}

function act(registry: Registry, step: CollectStep): void {
  const { resource, object } = step.held;
  const target: ObjectName = { resource, namespace: getNamespace(object), name: getName(object) };
  try {
    switch (step.kind) {
      case "delete":
        registry.delete(target, { uid: getUid(object) }, false);
        return;
      case "write":
        registry.update(target, { change: () => object, dryRun: false });
        return;
      case "finalize":
        registry.update(target, { subresource: "finalize", change: () => object, dryRun: false });
        return;
    }
  } catch (error) {
    // An earlier step of this pass changed the object, and that change triggers another pass.
    if (!(error instanceof FailureError)) throw error;
  }
}
