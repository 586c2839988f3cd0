import type { Owner } from "@muster/names";
import type { Amounts, Taint } from "@muster/resources";
import type { ScaledNode } from "./node.ts";

/** An instance as its provider lists it. */
export type ListedInstance = {
  /** Name of the provider that has it. */
  readonly provider: string;
  readonly instanceId: string;
  /** Empty when the provider has lost it. */
  readonly nodeName: string;
  readonly state: "pending" | "running" | "stopping";
  readonly zone: string | undefined;
  readonly addresses: readonly string[];
  readonly kubernetesNode: string | undefined;
  /** The provider takes it away then, by the scaler's own clock. */
  readonly lostAtMs: number | undefined;
  readonly failure: string | undefined;
};

/** The instances that the providers list. */
export type Instances = {
  readonly all: readonly ListedInstance[];
  /** Names of providers that have not answered lately: nothing is known of what they have. */
  readonly silent: ReadonlySet<string>;
  /** When each of the others was asked: what came after that may be missing. */
  readonly askedAtMs: ReadonlyMap<string, number>;
};

/** A Kubernetes node as the watcher reports it. */
export type KubeNode = {
  readonly name: string;
  /** Value of the label `muster.dev/node`. */
  readonly scaledNode: string | undefined;
  readonly uid: string;
  readonly ready: boolean;
  /** Cordoned by this scaler or another client. */
  readonly cordoned: boolean;
  readonly labels: Readonly<Record<string, string>>;
  /** It still has the taint that it was created with, so that no pod can use it. */
  readonly hasStartupTaint: boolean;
  /** The use of DaemonSet, mirror and system pods on it. */
  readonly overhead: Amounts;
};

export type KubeNodes = {
  readonly byName: ReadonlyMap<string, KubeNode>;
  /** These are all there are, and this is how they are. False: nothing may be concluded from what is missing or not ready. */
  readonly known: boolean;
};

/**
 * LOST: held, and the node is missing. SHARED: parts of it are held. FOREIGN_USE: free except for pods that the ledger does not know. Both can be granted in
 * parts, and not as a whole. UNKNOWN: a word of a newer ledger, from which nothing follows.
 */
export const STANDINGS = [
  "FREE",
  "HELD",
  "OCCUPIED",
  "NOT_READY",
  "CORDONED",
  "LOST",
  "SHARED",
  "FOREIGN_USE",
  "UNKNOWN",
] as const;
export type Standing = (typeof STANDINGS)[number];

/** An owner who holds a machine or a part of it. */
export type Holder = { readonly owner: Owner; readonly reservationId: string };

/** A machine as the ledger has it. */
export type Machine = {
  readonly node: string;
  readonly pool: string;
  readonly standing: Standing;
  /** As `standing`, for work that tolerates all of its taints. */
  readonly toleratedStanding: Standing;
  /** Those that keep pods without a toleration from it; none while it has its startup taint. */
  readonly taints: readonly Taint[];
  /** The ledger has observed that it is cordoned, so it grants the node to no further owner. */
  readonly cordoned: boolean;
  /** Who holds the whole machine. */
  readonly holder: Holder | undefined;
  /** Who holds parts of the machine, the earliest first. */
  readonly sharedHolders: readonly Holder[];
  /** Its allocatable amounts, less its overhead. Empty: unknown, so no part of it is granted. */
  readonly allocatable: Amounts;
  /** The part of it that can be granted in parts now, to work that tolerates its taints. */
  readonly free: Amounts;
};

/** The answer of the ledger; complete: a node that is missing from it is none of its machines. */
export type Machines = { readonly byNode: ReadonlyMap<string, Machine>; readonly complete: boolean };

/** A pod that still runs, or may, on a node. Those of DaemonSets and static ones, which live and die with their node, are left out. */
export type PodOnNode = {
  readonly namespace: string;
  readonly name: string;
  readonly uid: string;
  /** Undefined: no owner that Muster knows. */
  readonly owner: Owner | undefined;
  readonly deleting: boolean;
};

export type PodsByNode = ReadonlyMap<string, readonly PodOnNode[]>;

/** Distinguishes two instances: ids are unique only within a provider. */
export function instanceKey({ provider, instanceId }: Pick<ListedInstance, "provider" | "instanceId">): string {
  return `${provider} ${instanceId}`;
}

/** Everyone who holds the machine or a part of it, the earliest first. */
export function holdersOf({ holder, sharedHolders }: Machine): readonly Holder[] {
  return holder === undefined ? sharedHolders : [holder, ...sharedHolders];
}

/** Whether a machine or a part of it is held. */
export function isHeld(machine: Machine | undefined): boolean {
  return machine !== undefined && holdersOf(machine).length > 0;
}

/** Whether a machine can be granted in parts, and not as a whole. */
export function isInParts(machine: Machine | undefined): boolean {
  return machine?.standing === "SHARED" || machine?.standing === "FOREIGN_USE";
}

/**
 * Whether a machine can be granted as a whole now. What is free is decided in one place, by the ledger; the scaler repeats its answer and has no rule of its
 * own, or the two would wait for each other.
 */
export function isFree(machine: Machine | undefined): boolean {
  return machine?.standing === "FREE";
}

const MAX_NAMED_PODS = 3;

/** Names pods for people: `pods default/a, default/b and 3 more`. */
export function describePods(pods: readonly PodOnNode[]): string {
  const names = pods.map(({ namespace, name }) => `${namespace}/${name}`).toSorted();
  const more = names.length > MAX_NAMED_PODS ? ` and ${names.length - MAX_NAMED_PODS} more` : "";
  return `${names.length === 1 ? "pod" : "pods"} ${names.slice(0, MAX_NAMED_PODS).join(", ")}${more}`;
}

/** Whether another client has cordoned a node without a holder, so that it is not granted. The scaler cordons only nodes that it ends. */
export function isCordonedByOthers({ spec, status }: ScaledNode, machine: Machine | undefined): boolean {
  return machine?.cordoned === true && status.phase === "Available" && spec.terminate === undefined;
}

/** Instances by the name of the node that they were asked for as. */
export function instancesByNode(instances: Instances): ReadonlyMap<string, readonly ListedInstance[]> {
  return Map.groupBy(instances.all, ({ nodeName }) => nodeName);
}

/** Whether an instance of the node that is not listed is not there: its provider was asked after the node came to its phase. */
export function isAbsenceKnown(
  { silent, askedAtMs }: Pick<Instances, "silent" | "askedAtMs">,
  { spec, status }: Pick<ScaledNode, "spec" | "status">,
  nowMs: number,
): boolean {
  if (silent.has(spec.provider)) return false;
  // A clock that was ahead wrote it, that of an earlier leader: each list is later.
  const isOlder = status.phaseSinceMs > nowMs;
  return isOlder || (askedAtMs.get(spec.provider) ?? -Infinity) > status.phaseSinceMs;
}

/** Kubernetes nodes by the record that their label names. */
export function kubeNodesByRecord({ byName }: KubeNodes): ReadonlyMap<string, readonly KubeNode[]> {
  const labelled = [...byName.values()].filter(({ scaledNode }) => scaledNode !== undefined);
  return Map.groupBy(
    labelled.sort((one, other) => (one.name < other.name ? -1 : 1)),
    ({ scaledNode }) => scaledNode ?? "",
  );
}

/** The Kubernetes nodes of a record, under every name that it has joined with. */
export function joinedNodes(
  { name, status }: Pick<ScaledNode, "name" | "status">,
  byRecord: ReadonlyMap<string, readonly KubeNode[]>,
  { byName }: KubeNodes,
): readonly KubeNode[] {
  const known = status.kubernetesNode === undefined ? undefined : byName.get(status.kubernetesNode);
  const labelled = byRecord.get(name) ?? [];
  return known === undefined || labelled.includes(known) ? labelled : [known, ...labelled];
}
