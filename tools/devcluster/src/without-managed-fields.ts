import type { KubeObject } from "@muster/kube";

/** For caches: managed fields are the largest part of an object, and neither scheduler nor kubelet reads them. Changes the object that is given. */
export function withoutManagedFields<Object extends KubeObject>(object: Object): Object {
  delete object.metadata?.managedFields;
  return object;
}
