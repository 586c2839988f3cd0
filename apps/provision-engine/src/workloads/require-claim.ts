import type { V1PersistentVolumeClaim } from "@kubernetes/client-node";
import { throwFault } from "@muster/faults";
import type { Cluster } from "../adapters/cluster.ts";
import { KINDS } from "../adapters/object-kinds.ts";
import { originOf, type LeaseRecord } from "../domain/lease.ts";
import { isOfUser } from "./lease-labels.ts";
import { leaseName } from "./lease-place.ts";

/** Rejects with not_found where the claim of a lease is not there any more, or goes: what was on its disk cannot be made again. */
export async function requireClaim(
  objects: Cluster["objects"],
  lease: LeaseRecord,
  namespace: string,
  signal: AbortSignal,
): Promise<void> {
  const { id } = originOf(lease);
  const name = leaseName(id);
  const claim = await objects.find<V1PersistentVolumeClaim>(KINDS.volumeClaim, { name, namespace }, signal);
  const isGone = claim === undefined || claim.metadata?.deletionTimestamp !== undefined;
  if (isGone || !isOfUser(claim.metadata?.labels, id, lease.order.user))
    throwFault({ code: "not_found", kind: "claim, with all that was on it", id: `${namespace}/${name}` });
}
