import type { KubeObject } from "@muster/kube";

/** For caches: managed fields are the largest part of an object, and neither scheduler nor kubelet reads them. Changes an object that has them. */
export function withoutManagedFields<Object extends KubeObject>(object: Object): Object {
  // The objects of the embedded API server have none, and are shared.
  if (object.metadata?.managedFields !== undefined) delete object.metadata.managedFields;
  return object;
}
