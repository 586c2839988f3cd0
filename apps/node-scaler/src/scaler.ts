import { describeFault, findFault } from "@muster/faults";
import type { NodeRecords } from "./adapters/records.ts";
import type { ScalingLimits, ScalingPlan } from "./domain/compute.ts";
import type { ProviderSilence } from "./domain/build-pool-troubles.ts";
import type { BootBackoff } from "./domain/decide-boot-outcome.ts";
import type { Demand, Unavailability } from "./domain/demand.ts";
import type { SizeMismatch } from "./domain/observe-mismatches.ts";
import type { SeenSizes } from "./domain/node-sizes.ts";
import type { HeartbeatStep } from "./domain/plan-heartbeat.ts";
import type { ClaimStep } from "./domain/plan-node-claims.ts";
import type { ReapStep, StopsTried } from "./domain/plan-reap.ts";
import type { StartupTaintStep } from "./domain/plan-startup-taints.ts";
import type { ScanStep } from "./domain/plan-scan.ts";
import type { PoolPolicy } from "./domain/pool.ts";
import type { BootFailure } from "./domain/transition-boot-failures.ts";
import type { KubeNodes, Machines, PodOnNode, PodsByNode, ListedInstance } from "./domain/sightings.ts";
import type { NodeProvider } from "./providers/provider.ts";

/** The last list of a provider. */
export type ProviderList = { readonly askedAtMs: number; readonly instances: readonly ListedInstance[] };

/** The observed cluster, and the actions on its nodes. Each call rejects with FaultError, and is idempotent. */
export type Cluster = {
  nodes(): KubeNodes;
  pods(): PodsByNode;
  /** Removes the taint with which nodes are created. */
  removeStartupTaint(kubeNode: string): Promise<void>;
  cordon(kubeNode: string, because: string): Promise<void>;
  /** Removes a cordon of this scaler, and of no other client. */
  uncordon(kubeNode: string): Promise<void>;
  /** Returns why the eviction does not succeed now, such as a disruption budget; undefined: the pod terminates or is gone. */
  evict(pod: { readonly namespace: string; readonly name: string; readonly uid: string }): Promise<string | undefined>;
  /** The pods on the node by a fresh read from the API server. */
  podsOn(kubeNode: string): Promise<readonly PodOnNode[]>;
  /** Deletes the node of this uid, and no other node of the name. */
  deleteNode(kubeNode: { readonly name: string; readonly uid: string }): Promise<void>;
};

/** The dependencies of the loops. */
export type ScalerDeps = {
  /** The value of the label on this scaler's nodes; nodes with another name belong to another scaler. */
  readonly name: string;
  /** Milliseconds since 1970 that never jump while the process runs. */
  readonly now: () => number;
  /** Milliseconds since 1970 by the wall clock. */
  readonly wallNow: () => number;
  /** The fencing token of this leadership. */
  readonly term: number;
  /** Whether this process leads now; called before each effect that no revision fences. */
  readonly isHeld: () => boolean;
  readonly signal: AbortSignal;
  /** Aborts the order of an instance and its reversal; both may finish when this process stops. */
  readonly orderSignal: AbortSignal;
  /** Returns a different text each time. */
  readonly seed: () => string;
  readonly records: NodeRecords;
  readonly policies: ReadonlyMap<string, PoolPolicy>;
  readonly poolLabel: string;
  readonly providers: ReadonlyMap<string, NodeProvider>;
  readonly cluster: Cluster;
  readonly machines: () => Promise<Machines>;
  readonly demands: () => Promise<readonly Demand[]>;
  readonly bootImage: (pool: PoolPolicy) => Promise<string>;
  /** Announces the scaled pools before the first plan. */
  readonly announcePools: () => Promise<void>;
  readonly publishPools: (pools: ScalingPlan["poolScaling"]) => Promise<void>;
  readonly limits: ScalingLimits;
  readonly unavailableMs: number;
  /** The time for which a round waits for a provider. A longer call continues in parallel with the rounds. */
  readonly patienceMs: number;
  /** The maximum age of a provider's list, from its request on. */
  readonly listFreshMs: number;
  readonly report: ScalerReporter;
};

export const LOOPS = ["pool", "heartbeat", "reaper", "scan"] as const;
export type LoopName = (typeof LOOPS)[number];

export type ScalerReporter = {
  /** Called before a step is taken. */
  readonly planned: (loop: LoopName, step: TakenStep) => void;
  /** Called when one action failed; the round continues without it, and the next round retries it. */
  readonly failed: (loop: LoopName, doing: string, error: unknown) => void;
  /** Called with the outcome of an order of an instance. */
  readonly booted: (outcome: "started" | "short" | "failed", tookMs: number) => void;
  /** Called when the provider of a pool could not create its nodes. */
  readonly poolIsWrong: (pool: string, problems: readonly string[]) => void;
};

export type TakenStep =
  | HeartbeatStep
  | ClaimStep
  | ReapStep
  | ScanStep
  | StartupTaintStep
  /** `message` is the text of the provider. */
  | { readonly kind: "start" | "mark"; readonly node: string; readonly because: string; readonly message?: string };

/** The memory of a leader. All of it may be lost: the next leader observes the facts again, or waits a little longer. */
type Memory = {
  readonly leadingSinceMs: number;
  unavailable: readonly Unavailability[];
  /** The sizes of ready nodes, by pool, which predict the sizes of further nodes. */
  sizes: ReadonlyMap<string, SeenSizes>;
  /** Nodes that were created for demands that do not accept them. */
  mismatches: readonly SizeMismatch[];
  /** The backoffs by the requested kind. */
  readonly backoffs: Map<string, BootBackoff>;
  bootFailures: readonly BootFailure[];
  /** Providers that did not list their instances at the latest request. */
  readonly silences: Map<string, ProviderSilence>;
  /** Pools whose providers cannot create their nodes. */
  readonly invalidPools: Map<string, ProviderSilence>;
  readonly stops: Map<string, StopsTried>;
  /** Stops of orphans, by instance. */
  readonly orphanStops: Map<string, StopsTried>;
  suspects: ReadonlySet<string>;
  /** Lists by provider, as this leader has received them. */
  readonly lists: Map<string, ProviderList>;
  /** Lists in flight, by provider. They never reject. */
  readonly asking: Map<string, Promise<void>>;
  /** The times at which the lists of the latest scan were requested. */
  scannedAtMs: ReadonlyMap<string, number>;
  /** True once all records were compared with the nodes and the ledger. No node is created before. */
  hasObserved: boolean;
  /** Boots in flight, by the name of the node. */
  readonly booting: Map<string, Promise<void>>;
  /** Ending steps in flight, by the name of the node. They never reject. */
  readonly ending: Map<string, Promise<void>>;
  /** Steps of scans in flight, by their kind and object. They never reject. */
  readonly scanning: Map<string, Promise<void>>;
  plan: Pick<ScalingPlan, "bindings" | "waits" | "poolScaling"> | undefined;
};

/** The dependencies and the memory of one leadership. */
export type Scaler = ScalerDeps & { readonly memory: Memory };

export function makeScaler(deps: ScalerDeps): Scaler {
  const memory: Memory = {
    leadingSinceMs: deps.now(),
    unavailable: [],
    sizes: new Map(),
    mismatches: [],
    backoffs: new Map(),
    bootFailures: [],
    silences: new Map(),
    invalidPools: new Map(),
    stops: new Map(),
    orphanStops: new Map(),
    suspects: new Set(),
    lists: new Map(),
    asking: new Map(),
    scannedAtMs: new Map(),
    hasObserved: false,
    booting: new Map(),
    ending: new Map(),
    scanning: new Map(),
    plan: undefined,
  };
  return { ...deps, memory };
}

/**
 * Resolves once all work that rounds have left in flight has ended. A leader that stops earlier would abort calls to providers, and no record would have their
 * outcome.
 */
export async function finishRunningWork({ booting, ending, asking, scanning }: Memory): Promise<void> {
  await Promise.allSettled([...booting.values(), ...ending.values(), ...asking.values(), ...scanning.values()]);
}

/** Returns undefined if the ledger does not answer. */
export async function askMachines({ machines, report }: Scaler, loop: LoopName): Promise<Machines | undefined> {
  try {
    return await machines();
  } catch (error) {
    report.failed(loop, "listing the machines of the ledger", error);
    return undefined;
  }
}

/** Describes a failure in one line, and the pause that the called service requests. */
export function describeFailure(error: unknown): { readonly message: string; readonly retryAfterMs: number } {
  const fault = findFault(error);
  if (fault === undefined) return { message: error instanceof Error ? error.message : String(error), retryAfterMs: 0 };
  return { message: describeFault(fault), retryAfterMs: "retryAfterMs" in fault ? fault.retryAfterMs : 0 };
}
