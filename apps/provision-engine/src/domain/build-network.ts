/** The namespace of a user's network: no pod in it may reach for its node, whatever its image asks for. */
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

/** Who reaches the pods of a network: each other on all ports, everybody else on those that are open. What they reach themselves is left to them. */
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
      // A rule without ports would be one for all of them.
      ingress: [{ from: [{ podSelector: {} }] }, ...(ports.length === 0 ? [] : [{ ports }])],
    },
  };
}
