import { describeFault, faultOf } from "@muster/faults";
import type { Records } from "./adapters/records.ts";
import type { ScalingLimits, ScalingPlan } from "./domain/compute.ts";
import type { Silence } from "./domain/build-pool-troubles.ts";
import type { BootBackoff } from "./domain/decide-boot-outcome.ts";
import type { Demand, Unavailability } from "./domain/demand.ts";
import type { Mismatch } from "./domain/observe-mismatches.ts";
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
  /** Removes the taint that nodes are created with. */
  removeStartupTaint(kubeNode: string): Promise<void>;
  cordon(kubeNode: string, because: string): Promise<void>;
  /** Removes a cordon of this scaler, and of no other client. */
  uncordon(kubeNode: string): Promise<void>;
  /** Why the pod stays for now, such as the disruption budget that forbids the eviction; undefined: it goes, or is gone. */
  evict(pod: { readonly namespace: string; readonly name: string; readonly uid: string }): Promise<string | undefined>;
  /** The pods on the node by a fresh read from the API server. */
  podsOn(kubeNode: string): Promise<readonly PodOnNode[]>;
  /** Leaves a node alone that has the name and is another. */
  deleteNode(kubeNode: { readonly name: string; readonly uid: string }): Promise<void>;
};

/** The dependencies of the loops. */
export type ScalerDeps = {
  /** Its nodes are labelled with it; nodes with another name belong to another scaler. */
  readonly name: string;
  /** Milliseconds since 1970 that never jump while the process lives. */
  readonly now: () => number;
  /** Milliseconds since 1970 as others count them. */
  readonly wallNow: () => number;
  /** Fencing token of this leadership. */
  readonly term: number;
  /** Whether this process leads at this moment: asked before each effect that no revision fences. */
  readonly isHeld: () => boolean;
  readonly signal: AbortSignal;
  /** For the order of an instance and what undoes it: they are finished when this process stops. */
  readonly orderSignal: AbortSignal;
  /** Different each time. */
  readonly seed: () => string;
  readonly records: Records;
  readonly policies: ReadonlyMap<string, PoolPolicy>;
  readonly poolLabel: string;
  readonly providers: ReadonlyMap<string, NodeProvider>;
  readonly cluster: Cluster;
  readonly machines: () => Promise<Machines>;
  readonly demands: () => Promise<readonly Demand[]>;
  readonly bootImage: (pool: PoolPolicy) => Promise<string>;
  /** Announces which pools are scaled, before anything is decided. */
  readonly announcePools: () => Promise<void>;
  readonly publishPools: (pools: ScalingPlan["poolScaling"]) => Promise<void>;
  readonly limits: ScalingLimits;
  readonly unavailableMs: number;
  /** How long a round waits for a provider; a longer call continues beside the rounds. */
  readonly patienceMs: number;
  /** How long what a provider listed is believed, from when it was asked. */
  readonly listFreshMs: number;
  readonly report: Reporter;
};

export const LOOPS = ["pool", "heartbeat", "reaper", "scan"] as const;
export type LoopName = (typeof LOOPS)[number];

export type Reporter = {
  /** A step is about to be taken. */
  readonly planned: (loop: LoopName, step: TakenStep) => void;
  /** One action failed; the round continues without it, and the next one retries. */
  readonly failed: (loop: LoopName, doing: string, error: unknown) => void;
  /** An instance was asked for; how it ended. */
  readonly booted: (outcome: "started" | "short" | "failed", tookMs: number) => void;
  /** The provider of a pool could not make its nodes. */
  readonly poolIsWrong: (pool: string, problems: readonly string[]) => void;
};

export type TakenStep =
  | HeartbeatStep
  | ClaimStep
  | ReapStep
  | ScanStep
  | StartupTaintStep
  /** `message`: the text of the provider. */
  | { readonly kind: "start" | "mark"; readonly node: string; readonly because: string; readonly message?: string };

/** The memory of a leader. All of it may be lost: the next leader observes it again, or waits a little longer. */
type Memory = {
  readonly leadingSinceMs: number;
  unavailable: readonly Unavailability[];
  /** The sizes of ready nodes, by pool, which predict those of further ones. */
  sizes: ReadonlyMap<string, SeenSizes>;
  /** Nodes that were created for demands that do not accept them. */
  mismatches: readonly Mismatch[];
  /** By what was asked for. */
  readonly backoffs: Map<string, BootBackoff>;
  bootFailures: readonly BootFailure[];
  /** Providers that have not said what instances they have when they were last asked. */
  readonly silences: Map<string, Silence>;
  /** Pools that their providers cannot make nodes of. */
  readonly invalidPools: Map<string, Silence>;
  readonly stops: Map<string, StopsTried>;
  /** Stops of orphans, by instance. */
  readonly orphanStops: Map<string, StopsTried>;
  suspects: ReadonlySet<string>;
  /** By provider, as this leader has seen it. */
  readonly lists: Map<string, ProviderList>;
  /** Lists under way, by provider. They never reject. */
  readonly asking: Map<string, Promise<void>>;
  /** When the lists were asked for that the latest scan looked at. */
  scannedAtMs: ReadonlyMap<string, number>;
  /** All records have once been held against the nodes and the ledger. Before that nothing is made. */
  hasObserved: boolean;
  /** Boots under way, by the name of the node. */
  readonly booting: Map<string, Promise<void>>;
  /** Steps under way that end a node, by its name. They never reject. */
  readonly ending: Map<string, Promise<void>>;
  /** Steps of scans under way, by their kind and object. They never reject. */
  readonly scanning: Map<string, Promise<void>>;
  plan: Pick<ScalingPlan, "bindings" | "waits" | "poolScaling"> | undefined;
};

/** One leadership: what it may touch and what it remembers. */
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
 * Resolves once all that rounds have left under way has ended: a leader that stops earlier would cut off calls to providers, and no record would have their
 * outcome.
 */
export async function finishWork({ booting, ending, asking, scanning }: Memory): Promise<void> {
  await Promise.allSettled([...booting.values(), ...ending.values(), ...asking.values(), ...scanning.values()]);
}

/** Undefined when the ledger does not answer. */
export async function askMachines({ machines, report }: Scaler, loop: LoopName): Promise<Machines | undefined> {
  try {
    return await machines();
  } catch (error) {
    report.failed(loop, "asking the ledger for its machines", error);
    return undefined;
  }
}

/** One line about what went wrong, and how long the other side asks to be left alone. */
export function describeFailure(error: unknown): { readonly message: string; readonly retryAfterMs: number } {
  const fault = faultOf(error);
  if (fault === undefined) return { message: error instanceof Error ? error.message : String(error), retryAfterMs: 0 };
  return { message: describeFault(fault), retryAfterMs: "retryAfterMs" in fault ? fault.retryAfterMs : 0 };
}
