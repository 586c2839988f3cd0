import type { V1PersistentVolumeClaim } from "@kubernetes/client-node";
import { throwFault } from "@muster/faults";
import type { LeaseData } from "@muster/leases/data";
import { getOrigin, type LeaseRecord } from "../domain/lease.ts";
import { computeDiskUnits, GIB } from "../domain/claim.ts";
import { isOfUser, type ObjectPlace } from "./lease-names.ts";
import { KINDS } from "./object-kinds.ts";
import { getLeasePlace, requireData, makeWorkloadType } from "./workload-type.ts";
import type { LeaseCluster, LeaseObjects, Workload } from "./workload.ts";

export const VOLUME = makeWorkloadType({
  type: "volume",
  counter: "volume",
  rank: 4,
  claimOf: ({ size, type, network }) => ({
    units: computeDiskUnits(type, BigInt(size) * GIB),
    network: undefined,
    needs: { networks: network === undefined ? [] : [network], volumes: [] },
  }),
  workload: ({ cluster }) => cluster && volumeWorkload(cluster),
});

/** Builds the claim of a volume; without a storage class, the cluster's default is used. */
export function buildVolumeClaim(
  place: ObjectPlace,
  { size }: Pick<LeaseData<"volume">, "size">,
  storageClass: string | undefined,
) {
  return {
    metadata: place,
    spec: {
      accessModes: ["ReadWriteOnce"],
      resources: { requests: { storage: `${size}Gi` } },
      ...(storageClass !== undefined && { storageClassName: storageClass }),
    },
  };
}

/** Disk space: a claim, which may be bound only when it is first mounted. The claim is removed after the leases that mount it have ended. */
function volumeWorkload({ objects, namespace: own, storageClasses }: LeaseCluster): Workload {
  return {
    type: VOLUME.type,
    provision: async (lease, signal) => {
      const data = requireData(VOLUME, lease);
      const { id } = lease.order;
      const place = getLeasePlace(VOLUME, lease, own);
      await objects.ensure(lease, KINDS.volumeClaim, buildVolumeClaim(place, data, storageClasses[data.type]), signal);
      return JSON.stringify({ volume_id: id, namespace: place.namespace, claim: place.name });
    },
    // A recreated claim would be empty, but look healthy.
    check: async (lease, signal) => {
      await requireClaim(objects, lease, getLeasePlace(VOLUME, lease, own), signal);
      return undefined;
    },
    decommission: (lease, signal) =>
      objects.remove(
        lease,
        { kinds: [KINDS.volumeClaim], namespace: getLeasePlace(VOLUME, lease, own).namespace },
        signal,
      ),
  };
}

/** Rejects with not_found if the claim of a lease is missing or terminating: the data on its disk cannot be recreated. */
export async function requireClaim(
  objects: LeaseObjects,
  lease: LeaseRecord,
  { name, namespace }: ObjectPlace,
  signal: AbortSignal,
): Promise<void> {
  const { id } = getOrigin(lease);
  const claim = await objects.find<V1PersistentVolumeClaim>(KINDS.volumeClaim, { name, namespace }, signal);
  const isGone = claim === undefined || claim.metadata?.deletionTimestamp !== undefined;
  if (isGone || !isOfUser(claim.metadata?.labels, id, lease.order.user))
    throwFault({ code: "not_found", kind: "claim with its data", id: `${namespace}/${name}` });
}
