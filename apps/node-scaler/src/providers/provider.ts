import type { PoolPolicy } from "../domain/pool.ts";

/** The request to a provider to boot an instance. */
export type Boot = {
  /** Name of the node's record: unique for ever. Starting one name twice gives one instance. */
  readonly nodeName: string;
  readonly pool: string;
  readonly instanceType: string;
  readonly image: string;
  readonly spot: boolean;
  /** Undefined: wherever there is room. */
  readonly zone: string | undefined;
  readonly gpus: number;
  readonly volumeGib: number | undefined;
  readonly privateIpOnly: boolean;
  /** For the Kubernetes node; the pool's label and `muster.dev/node` are among them. */
  readonly labels: Readonly<Record<string, string>>;
  /** That the Kubernetes node registers with; the scaler takes them off once the node is wanted. */
  readonly taints: readonly StartupTaint[];
};

type StartupTaint = { readonly key: string; readonly effect: "NoSchedule" };

/** The outcome. Any other failure is thrown as a fault: the request may have taken effect. */
export type Started =
  | { readonly kind: "started"; readonly instanceId: string; readonly zone: string | undefined }
  /** This type is unavailable now, in the zone or subnet that is named, or anywhere. */
  | {
      readonly kind: "no-capacity";
      readonly zone: string | undefined;
      readonly subnet: string | undefined;
      readonly message: string;
      /** The provider has no such zone. */
      readonly isUnknownZone?: true;
    }
  /** The provider does not have the type as spot, or at all. */
  | { readonly kind: "unsupported"; readonly message: string };

export type InstanceState = "pending" | "running" | "stopping";

/** An instance that the provider has for this scaler. One that is gone is not listed. */
export type Instance = {
  readonly instanceId: string;
  /** As it was asked for; empty when the provider has lost it. */
  readonly nodeName: string;
  readonly state: InstanceState;
  readonly zone: string | undefined;
  readonly addresses: readonly string[];
  /** Undefined: not joined, or unknown to the provider; the node's label `muster.dev/node` identifies it too. */
  readonly kubernetesNode: string | undefined;
  /** When the provider reclaims the instance, in Unix milliseconds. */
  readonly lostAtMs: number | undefined;
  /** It can never become a node, in the provider's words. Undefined: it may. */
  readonly failure: string | undefined;
};

/** A place where instances are made and ended. Every call respects its signal and has a time limit of its own. */
export type NodeProvider = AsyncDisposable & {
  /** As configured: the key of its block in the file of pools. */
  readonly name: string;
  /** Fixed: a node's volume has to have the size that a pod asks for. */
  readonly fixedSizeVolumes: boolean;
  start(boot: Boot, signal: AbortSignal): Promise<Started>;
  /** Resolves when the order is taken; the instance is gone when it is listed no more. An unknown instance is no error. */
  stop(instance: Pick<Instance, "instanceId" | "nodeName">, signal: AbortSignal): Promise<void>;
  /** Every instance of this scaler, and no other's; `stopping` ones too. */
  list(signal: AbortSignal): Promise<readonly Instance[]>;
  /** The newest image that has these properties; empty where the provider chooses by itself. `not_found` when none has. */
  findImage(properties: Readonly<Record<string, string>>, signal: AbortSignal): Promise<string>;
  /** Why it could make no nodes of the pool, or not all kinds, as far as that can be known before one is asked for; empty: nothing stands in the way. */
  checkPool(pool: PoolPolicy, signal: AbortSignal): Promise<readonly string[]>;
};
