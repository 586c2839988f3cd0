import type { PoolPolicy } from "../domain/pool.ts";

/** The request to a provider to boot an instance. */
export type BootRequest = {
  /** The name of the node's record, which is never reused. Starting one name twice gives one instance. */
  readonly nodeName: string;
  readonly pool: string;
  readonly instanceType: string;
  readonly image: string;
  readonly spot: boolean;
  /** Undefined for any zone with capacity. */
  readonly zone: string | undefined;
  readonly gpus: number;
  readonly volumeGib: number | undefined;
  readonly privateIpOnly: boolean;
  /** Labels of the Kubernetes node, including the pool's label and `muster.dev/node`. */
  readonly labels: Readonly<Record<string, string>>;
  /** Taints with which the Kubernetes node registers; the scaler removes them once the node may be used. */
  readonly taints: readonly StartupTaint[];
};

type StartupTaint = { readonly key: string; readonly effect: "NoSchedule" };

/** The outcome. Any other failure is thrown as a fault: the request may have taken effect. */
export type BootOutcome =
  | { readonly kind: "started"; readonly instanceId: string; readonly zone: string | undefined }
  /** The type is unavailable now, in the named zone or subnet, or in all. */
  | {
      readonly kind: "no-capacity";
      readonly zone: string | undefined;
      readonly subnet: string | undefined;
      readonly message: string;
      /** The provider does not have the zone. */
      readonly isUnknownZone?: true;
    }
  /** The provider does not have the type as spot, or at all. */
  | { readonly kind: "unsupported"; readonly message: string };

export type InstanceState = "pending" | "running" | "stopping";

/** An instance of this scaler at the provider, which does not list instances that are gone. */
export type Instance = {
  readonly instanceId: string;
  /** The name in its order; empty if the provider has lost it. */
  readonly nodeName: string;
  readonly state: InstanceState;
  readonly zone: string | undefined;
  readonly addresses: readonly string[];
  /** Undefined if the node has not joined, or the provider does not know its name; the node's label `muster.dev/node` identifies the instance too. */
  readonly kubernetesNode: string | undefined;
  /** The time at which the provider reclaims the instance, in Unix milliseconds. */
  readonly lostAtMs: number | undefined;
  /** Why the instance can never become a node, as the provider states it. Undefined if it may become one. */
  readonly failure: string | undefined;
};

/** Creates and ends instances. Every call respects its signal and has its own timeout. */
export type NodeProvider = AsyncDisposable & {
  /** The key of the provider's block in the file of pools. */
  readonly name: string;
  /** True if a node's volume must have the size that a pod requests. */
  readonly fixedSizeVolumes: boolean;
  start(boot: BootRequest, signal: AbortSignal): Promise<BootOutcome>;
  /** Resolves when the order is accepted; the instance is gone once it is no longer listed. An unknown instance is no error. */
  stop(instance: Pick<Instance, "instanceId" | "nodeName">, signal: AbortSignal): Promise<void>;
  /** Lists every instance of this scaler, including `stopping` ones, and of no other. */
  list(signal: AbortSignal): Promise<readonly Instance[]>;
  /** Finds the newest image with these properties; empty if the provider chooses the image itself. Rejects with `not_found` if none matches. */
  findImage(properties: Readonly<Record<string, string>>, signal: AbortSignal): Promise<string>;
  /** Returns why the provider could not create nodes of the pool, or not all kinds, as far as it knows before an order; empty without a problem. */
  checkPool(pool: PoolPolicy, signal: AbortSignal): Promise<readonly string[]>;
};
