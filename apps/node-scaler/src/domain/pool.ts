import type { Taint } from "@muster/resources";
import type { SpotPolicy } from "./demand.ts";

export type StandbyNodeSpec = { readonly instanceType: string; readonly count: number; readonly spot: boolean };

/** The scaling of one pool, as the operator wrote it. */
export type PoolPolicy = {
  /** The value of the pool's label on nodes. */
  readonly name: string;
  /** The name of a configured provider. */
  readonly provider: string;
  /** The maximum number of nodes, whatever demand waits. */
  readonly max: number;
  /** The types in order of preference. */
  readonly instanceTypes: readonly InstanceType[];
  readonly spot: SpotPolicy;
  readonly standby: readonly StandbyNodeSpec[];
  /** The time for which an unneeded node is kept; 0 ends it immediately. */
  readonly idleMs: number;
  /** False if a used node ends after its release. */
  readonly reuse: boolean;
  readonly bootTimeoutMs: number;
  readonly healthyTimeoutMs: number;
  readonly drainTimeoutMs: number;
  /** Undefined for any zone. */
  readonly zones: readonly string[] | undefined;
  readonly volumeGib: number | undefined;
  readonly privateIpOnly: boolean;
  /** The labels by which the provider finds its newest image. */
  readonly bootImage: Readonly<Record<string, string>>;
  /** Labels of the Kubernetes node, in addition to the pool's label and `muster.dev/node`. */
  readonly labels: Readonly<Record<string, string>>;
  /** Taints that nodes of the pool get from its cloud or template. The scaler does not set them, and they do not make a node unhealthy. */
  readonly taints: readonly Taint[];
};

export type InstanceType = {
  readonly name: string;
  /** The amount of a node that pods can request. Undefined: unknown; every pod fits. */
  readonly cpuMilli: number | undefined;
  readonly memoryBytes: number | undefined;
  readonly gpus: number;
  /** Price of an hour on demand, in millionths of the currency of the file; absent: unknown. No decision depends on it. */
  readonly pricePerHourMicros?: number;
  /** As `pricePerHourMicros`, for a spot node. */
  readonly spotPricePerHourMicros?: number;
};

/** Returns the price of an hour of a node, in millionths of the currency of the file; undefined: the file has no price for it. */
export function findPricePerHourMicros(
  policy: PoolPolicy | undefined,
  { instanceType, spot }: { readonly instanceType: string; readonly spot: boolean },
): number | undefined {
  const type = policy?.instanceTypes.find(({ name }) => name === instanceType);
  return spot ? type?.spotPricePerHourMicros : type?.pricePerHourMicros;
}
