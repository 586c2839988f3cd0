import type { KubeObject } from "@muster/kube";

/** For caches: managed fields are most of an object, and nobody who schedules or runs pods reads them. Changes the object that is given. */
export function withoutManagedFields<Object extends KubeObject>(object: Object): Object {
  delete object.metadata?.managedFields;
  return object;
}
