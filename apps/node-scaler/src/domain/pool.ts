import type { Taint } from "@muster/resources";
import type { SpotPolicy } from "./demand.ts";

export type StandbyNodeSpec = { readonly instanceType: string; readonly count: number; readonly spot: boolean };

/** How one pool is scaled, as the operator wrote it. */
export type PoolPolicy = {
  /** The value of the pool's label on nodes. */
  readonly name: string;
  /** Name of one of the configured providers. */
  readonly provider: string;
  /** The most nodes that are made, whatever waits. */
  readonly max: number;
  /** In the order of preference. */
  readonly instanceTypes: readonly InstanceType[];
  readonly spot: SpotPolicy;
  readonly standby: readonly StandbyNodeSpec[];
  /** How long a node that nothing needs is kept; 0: not at all. */
  readonly idleMs: number;
  /** False: a node on which a pod has been ends when it is released. */
  readonly reuse: boolean;
  readonly bootTimeoutMs: number;
  readonly healthyTimeoutMs: number;
  readonly drainTimeoutMs: number;
  /** Undefined: any. */
  readonly zones: readonly string[] | undefined;
  readonly volumeGib: number | undefined;
  readonly privateIpOnly: boolean;
  /** The labels by which the provider finds its newest image. */
  readonly bootImage: Readonly<Record<string, string>>;
  /** On the Kubernetes node, beside the pool's label and `muster.dev/node`. */
  readonly labels: Readonly<Record<string, string>>;
  /** Taints that nodes of the pool get from its cloud or template. The scaler does not set them; they keep no node from being healthy. */
  readonly taints: readonly Taint[];
};

export type InstanceType = {
  readonly name: string;
  /** The amount of a node that pods can request. Undefined: unknown; every pod fits. */
  readonly cpuMilli: number | undefined;
  readonly memoryBytes: number | undefined;
  readonly gpus: number;
};
