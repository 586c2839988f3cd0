import type { NodeSpec, NodeStatus, ScaledNode } from "../src/domain/node.ts";
import type { PoolPolicy } from "../src/domain/pool.ts";

type NodeParts = { readonly spec?: Partial<NodeSpec>; readonly status?: Partial<NodeStatus> };

/** Builds an Available node, by default of pool `a`. */
export function buildNode(name: string, { spec, status }: NodeParts = {}): ScaledNode {
  return {
    name,
    spec: {
      pool: "a",
      provider: "cloud",
      instanceType: "small",
      bootImage: "",
      spot: false,
      zone: undefined,
      gpus: 0,
      volumeGib: undefined,
      privateIpOnly: false,
      terminate: undefined,
      ...spec,
    },
    status: {
      phase: "Available",
      phaseSinceMs: 0,
      createdAtMs: 0,
      instanceId: `i-${name}`,
      kubernetesNode: `k-${name}`,
      addresses: [],
      boundTo: undefined,
      claim: undefined,
      served: false,
      unhealthySinceMs: undefined,
      idleSinceMs: undefined,
      drainingSinceMs: undefined,
      term: 1,
      trouble: undefined,
      ...status,
    },
  };
}

/** Builds a pool, by default `a` of a provider `cloud`. */
export function buildPolicy(parts: Partial<PoolPolicy> = {}): PoolPolicy {
  return {
    name: "a",
    provider: "cloud",
    max: 10,
    instanceTypes: [{ name: "small", cpuMilli: 4000, memoryBytes: 8 * 2 ** 30, gpus: 0 }],
    spot: "Never",
    standby: [],
    idleMs: 300_000,
    reuse: true,
    bootTimeoutMs: 300_000,
    healthyTimeoutMs: 90_000,
    drainTimeoutMs: 120_000,
    zones: undefined,
    volumeGib: undefined,
    privateIpOnly: false,
    bootImage: {},
    labels: {},
    taints: [],
    ...parts,
  };
}
