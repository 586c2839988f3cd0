import { type JsonObject, getObject, setAt } from "./json.ts";
import { limitRanges, withLimits } from "./kinds/limit-range.ts";
import { withSpec } from "./kinds/pod-defaults.ts";
import { pods } from "./kinds/pod.ts";
import { CLAIM_FINALIZER, volumeClaims } from "./kinds/volume-claim.ts";
import { listFinalizers, getNamespace } from "./metadata.ts";
import { buildBucketName, type Resource } from "./resource.ts";
import type { ObjectStore } from "./store.ts";

/** Adds the defaults that other objects define for a new object. */
export function admitObject(store: ObjectStore, resource: Resource, object: JsonObject): JsonObject {
  if (resource === volumeClaims) return withProtection(object);
  return resource === pods ? withRanges(store, object) : object;
}

function withRanges(store: ObjectStore, pod: JsonObject): JsonObject {
  const ranges = store.entries(buildBucketName(limitRanges)).map(([, one]) => one);
  const own = ranges.filter((range) => getNamespace(range) === getNamespace(pod));
  return own.length === 0 ? pod : withSpec(pod, withLimits(getObject(pod, "spec"), own));
}

/** Adds the finalizer that keeps a claim while a pod uses it. */
function withProtection(claim: JsonObject): JsonObject {
  const finalizers = listFinalizers(claim);
  if (finalizers.includes(CLAIM_FINALIZER)) return claim;
  return setAt(claim, ["metadata", "finalizers"], [...finalizers, CLAIM_FINALIZER]);
}
