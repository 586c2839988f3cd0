import { at, type JsonObject, getList, setAt, getText } from "./json.ts";
import { pods } from "./kinds/pod.ts";
import { CLAIM_FINALIZER, volumeClaims } from "./kinds/volume-claim.ts";
import { listFinalizers, isDeleting, getName } from "./metadata.ts";
import type { Registry } from "./registry.ts";
import { buildBucketName } from "./resource.ts";
import { FailureError } from "./status.ts";
import type { ObjectStore } from "./store.ts";
import { getKeyNamespace } from "./watch-events.ts";

export type ClaimProtectionDeps = {
  readonly store: ObjectStore;
  readonly registry: Registry;
  readonly onDefect: (error: unknown) => void;
};

const PODS = buildBucketName(pods);
const CLAIMS = buildBucketName(volumeClaims);

/** Removes the finalizer of claims in deletion once no scheduled pod names them; ended pods still count. Leases of type kubernetes need this. */
export function startClaimProtection(deps: ClaimProtectionDeps): Disposable {
  const { store } = deps;
  let scheduled: NodeJS.Immediate | undefined;
  const pass = (): void => {
    scheduled = undefined;
    try {
      for (const [key, claim] of store.entries(CLAIMS))
        if (isHeld(claim) && !isUsed(store, getKeyNamespace(key), claim)) release(deps, getKeyNamespace(key), claim);
    } catch (error) {
      deps.onDefect(error);
    }
  };
  const schedule = (): void => {
    scheduled ??= setImmediate(pass);
  };
  const unsubscribe = store.subscribe((bucket, { after }) => {
    const isClaimMarked = bucket === CLAIMS && after !== undefined && isHeld(after);
    // A pod names its claims until it is removed.
    const isPodGone = bucket === PODS && after === undefined && store.entries(CLAIMS).length > 0;
    if (isClaimMarked || isPodGone) schedule();
  });
  schedule();
  return {
    [Symbol.dispose]: () => {
      unsubscribe();
      clearImmediate(scheduled);
    },
  };
}

function isHeld(claim: JsonObject): boolean {
  return isDeleting(claim) && listFinalizers(claim).includes(CLAIM_FINALIZER);
}

function isUsed(store: ObjectStore, namespace: string, claim: JsonObject): boolean {
  return store.entries(PODS).some(([key, pod]) => {
    if (getKeyNamespace(key) !== namespace || getText(pod, "spec", "nodeName") === "") return false;
    const volumes = getList(pod, "spec", "volumes");
    return volumes.some((volume) => at(volume, "persistentVolumeClaim", "claimName") === getName(claim));
  });
}

function release({ registry }: ClaimProtectionDeps, namespace: string, claim: JsonObject): void {
  const left = listFinalizers(claim).filter((finalizer) => finalizer !== CLAIM_FINALIZER);
  const released = setAt(claim, ["metadata", "finalizers"], left.length === 0 ? undefined : left);
  try {
    const target = { resource: volumeClaims, namespace, name: getName(claim) };
    registry.update(target, { change: () => released, dryRun: false });
  } catch (error) {
    // Another write came first, and has triggered the next pass.
    if (!(error instanceof FailureError)) throw error;
  }
}
