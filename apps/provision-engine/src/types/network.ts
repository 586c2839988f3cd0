import { NO_UNITS } from "../domain/claim.ts";
import { buildNetworkId, buildNetworkNamespaceName } from "./lease-names.ts";
import { KINDS, type ObjectKind } from "./object-kinds.ts";
import { requireData, makeWorkloadType } from "./workload-type.ts";
import type { LeaseCluster, Workload } from "./workload.ts";

export const NETWORK = makeWorkloadType({
  type: "network",
  counter: "network",
  rank: 1,
  claimOf: ({ name }) => ({ units: NO_UNITS, network: name, needs: { networks: [], volumes: [] } }),
  workload: ({ cluster }) => cluster && makeNetworkWorkload(cluster),
});

/** The namespace of a user's network. No pod in it can access its node, whatever its image requests. */
export function buildNetworkNamespace(name: string) {
  const level = "baseline";
  return {
    metadata: {
      name,
      labels: {
        "pod-security.kubernetes.io/enforce": level,
        "pod-security.kubernetes.io/enforce-version": "latest",
        "pod-security.kubernetes.io/warn": "restricted",
      },
    },
  };
}

/** Ingress of a network's pods: from each other on all ports, from elsewhere on the open ports. Egress is unrestricted. */
export function buildNetworkPolicy(namespace: string, openPorts: readonly number[]) {
  const ports = [...new Set(openPorts)].flatMap((port) => [
    { port, protocol: "TCP" },
    { port, protocol: "UDP" },
  ]);
  return {
    metadata: { name: "network", namespace },
    spec: {
      podSelector: {},
      policyTypes: ["Ingress"],
      // A rule without ports would allow all ports.
      ingress: [{ from: [{ podSelector: {} }] }, ...(ports.length === 0 ? [] : [{ ports }])],
    },
  };
}

/** Workloads and data, which keep the namespace from being removed. */
const KEEPERS = [KINDS.volumeClaim, KINDS.statefulSet, KINDS.deployment, KINDS.pod];
const NAMESPACE: ObjectKind = { ...KINDS.namespace, keptBy: KEEPERS };

/**
 * A user's network: a namespace with restricted ingress. The result names the namespace. The network is removed after all known leases in it have ended, and
 * kept while unknown objects are in it.
 */
export function makeNetworkWorkload({ objects }: Pick<LeaseCluster, "objects">): Workload {
  return {
    type: NETWORK.type,
    provision: async (lease, signal) => {
      const { name, open_ports } = requireData(NETWORK, lease);
      const namespace = buildNetworkNamespaceName(lease.order.user, name);
      await objects.ensure(lease, NAMESPACE, buildNetworkNamespace(namespace), signal);
      await objects.ensure(lease, KINDS.networkPolicy, buildNetworkPolicy(namespace, open_ports), signal);
      return JSON.stringify({ network_id: buildNetworkId(lease.order.user, name), namespace });
    },
    decommission: (lease, signal) => objects.remove(lease, { kinds: [NAMESPACE] }, signal),
  };
}
