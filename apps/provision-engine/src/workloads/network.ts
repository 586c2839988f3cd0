import type { Cluster } from "../adapters/cluster.ts";
import type { ObjectKind } from "../adapters/lease-objects.ts";
import { KINDS } from "../adapters/object-kinds.ts";
import { buildNetworkNamespace, buildNetworkPolicy } from "../domain/build-network.ts";
import { NETWORK } from "../domain/type-network.ts";
import { networkNamespace } from "./lease-place.ts";
import { networkId } from "./network-id.ts";
import { requireData } from "./require-data.ts";
import type { Workload } from "./workload.ts";

/** What runs in a namespace, and data. */
const SPARED = [KINDS.volumeClaim, KINDS.statefulSet, KINDS.deployment, KINDS.pod];
const NAMESPACE: ObjectKind = { ...KINDS.namespace, spares: SPARED };

/** A user's network: a namespace that others reach only where it is open. The result names it. No lease that is known lives in it any more when it is taken down, and what is of none keeps it. */
export function networkWorkload({ objects }: Pick<Cluster, "objects">): Workload {
  return {
    type: NETWORK.type,
    provision: async (lease, signal) => {
      const { name, open_ports } = requireData(NETWORK, lease);
      const namespace = networkNamespace(lease.order.user, name);
      await objects.make(lease, NAMESPACE, buildNetworkNamespace(namespace), signal);
      await objects.make(lease, KINDS.networkPolicy, buildNetworkPolicy(namespace, open_ports), signal);
      return JSON.stringify({ network_id: networkId(lease.order.user, name), namespace });
    },
    decommission: (lease, signal) => objects.takeDown(lease, { kinds: [NAMESPACE] }, signal),
  };
}
