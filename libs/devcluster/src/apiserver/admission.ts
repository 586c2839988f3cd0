import { type JsonObject, put, textAt } from "./json.ts";
import { defaultClassOf, storageClasses } from "./kinds/storage-class.ts";
import { CLAIM_FINALIZER, volumeClaims } from "./kinds/volume-claim.ts";
import { finalizersOf } from "./metadata.ts";
import { bucketOf, type Resource } from "./resource.ts";
import type { ObjectStore } from "./store.ts";

const LEGACY_CLASS = "volume.beta.kubernetes.io/storage-class";

/** A new object with what other objects say that it gets. */
export function admit(store: ObjectStore, resource: Resource, object: JsonObject): JsonObject {
  return resource === volumeClaims ? withClass(store, withProtection(object)) : object;
}

/** A claim is kept as long as a pod uses it. */
function withProtection(claim: JsonObject): JsonObject {
  const finalizers = finalizersOf(claim);
  if (finalizers.includes(CLAIM_FINALIZER)) return claim;
  return put(claim, ["metadata", "finalizers"], [...finalizers, CLAIM_FINALIZER]);
}

/** A claim that names no class gets the one that is for such claims; one that names "" wants none. */
function withClass(store: ObjectStore, claim: JsonObject): JsonObject {
  const isNamed = textAt(claim, "metadata", "annotations", LEGACY_CLASS) !== "" || hasClass(claim);
  if (isNamed) return claim;
  const name = defaultClassOf(store.entries(bucketOf(storageClasses)).map(([, one]) => one));
  return name === undefined ? claim : put(claim, ["spec", "storageClassName"], name);
}

function hasClass({ spec }: JsonObject): boolean {
  return typeof spec === "object" && spec !== null && "storageClassName" in spec;
}
