import type { Cluster } from "../adapters/cluster.ts";
import { KINDS } from "../adapters/object-kinds.ts";
import { buildVolumeClaim } from "../domain/build-volume.ts";
import { VOLUME } from "../domain/type-volume.ts";
import { originOf } from "../domain/lease.ts";
import { requireClaim } from "./require-claim.ts";
import { leaseName, namespaceOf } from "./lease-place.ts";
import { requireData } from "./require-data.ts";
import type { Workload } from "./workload.ts";

/** Space on disks: a claim, which a class of storage may serve only once it is mounted. Nothing of its user's mounts it any more when it is taken down. */
export function volumeWorkload({ objects, namespace: own, storageClasses }: Cluster): Workload {
  return {
    type: VOLUME.type,
    provision: async (lease, signal) => {
      const data = requireData(VOLUME, lease);
      const { id } = lease.order;
      const place = { name: leaseName(originOf(lease).id), namespace: namespaceOf(lease.order, own) };
      await objects.make(lease, KINDS.volumeClaim, buildVolumeClaim(place, data, storageClasses[data.type]), signal);
      return JSON.stringify({ volume_id: id, namespace: place.namespace, claim: place.name });
    },
    // One that is made anew would be empty, and look as if all were well.
    check: async (lease, signal) => {
      await requireClaim(objects, lease, namespaceOf(lease.order, own), signal);
      return undefined;
    },
    decommission: (lease, signal) =>
      objects.takeDown(lease, { kinds: [KINDS.volumeClaim], namespace: namespaceOf(lease.order, own) }, signal),
  };
}
