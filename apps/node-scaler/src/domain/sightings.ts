import type { Owner } from "@muster/names";
import type { Amounts, Taint } from "@muster/resources";
import type { ScaledNode } from "./node.ts";

/** An instance as its provider lists it. */
export type ListedInstance = {
  /** The name of its provider. */
  readonly provider: string;
  readonly instanceId: string;
  /** Empty if the provider has lost the name. */
  readonly nodeName: string;
  readonly state: "pending" | "running" | "stopping";
  readonly zone: string | undefined;
  readonly addresses: readonly string[];
  readonly kubernetesNode: string | undefined;
  /** The time at which the provider reclaims the instance, by the scaler's own clock. */
  readonly lostAtMs: number | undefined;
  readonly failure: string | undefined;
};

/** The instances that the providers list. */
export type Instances = {
  readonly all: readonly ListedInstance[];
  /** Names of providers without a recent answer, whose instances are unknown. */
  readonly silent: ReadonlySet<string>;
  /** The time at which each other provider was listed: later instances may be missing. */
  readonly askedAtMs: ReadonlyMap<string, number>;
};

/** A Kubernetes node as the watcher reports it. */
export type KubeNode = {
  readonly name: string;
  /** The value of the label `muster.dev/node`. */
  readonly scaledNode: string | undefined;
  readonly uid: string;
  readonly ready: boolean;
  /** True if this scaler or another client cordoned it. */
  readonly cordoned: boolean;
  readonly labels: Readonly<Record<string, string>>;
  /** True if the node still has its startup taint, so that no pod can use it. */
  readonly hasStartupTaint: boolean;
  /** The use of DaemonSet, mirror and system pods on the node. */
  readonly overhead: Amounts;
};

export type KubeNodes = {
  readonly byName: ReadonlyMap<string, KubeNode>;
  /** True if the list is complete and current; false if a missing or unready node does not prove its loss. */
  readonly known: boolean;
};

/**
 * LOST: held, and the node is missing. SHARED: parts of it are held. FOREIGN_USE: free except for pods that the ledger does not know. Machines with SHARED or
 * FOREIGN_USE can be granted in parts, and not as a whole. UNKNOWN: a standing of a newer ledger, on which no decision relies.
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
export type MachineStanding = (typeof STANDINGS)[number];

/** An owner that holds a machine or a part of it. */
export type Holder = { readonly owner: Owner; readonly reservationId: string };

/** A machine as the ledger reports it. */
export type Machine = {
  readonly node: string;
  readonly pool: string;
  readonly standing: MachineStanding;
  /** The standing for work that tolerates all taints of the machine. */
  readonly toleratedStanding: MachineStanding;
  /** Taints that exclude pods without a toleration; empty while the node has its startup taint. */
  readonly taints: readonly Taint[];
  /** True if the ledger has observed the cordon of the machine, and grants it to no further owner. */
  readonly cordoned: boolean;
  /** The holder of the whole machine. */
  readonly holder: Holder | undefined;
  /** The holders of parts of the machine, the earliest first. */
  readonly sharedHolders: readonly Holder[];
  /** Allocatable amounts of the node, less its overhead. Empty: unknown, so no part of the node is granted. */
  readonly allocatable: Amounts;
  /** The part of `allocatable` that can be granted in parts now, to work that tolerates the taints. */
  readonly free: Amounts;
};

/** The answer of the ledger. If it is complete, a node that is missing from it is none of the ledger's machines. */
export type Machines = { readonly byNode: ReadonlyMap<string, Machine>; readonly complete: boolean };

/** A pod on a node that runs or may run. Pods of DaemonSets and static pods, which belong to their node, are omitted. */
export type PodOnNode = {
  readonly namespace: string;
  readonly name: string;
  readonly uid: string;
  /** Undefined without an owner that Muster knows. */
  readonly owner: Owner | undefined;
  readonly deleting: boolean;
};

export type PodsByNode = ReadonlyMap<string, readonly PodOnNode[]>;

/** Returns a key that distinguishes instances of all providers, because ids are unique only within one. */
export function buildInstanceKey({ provider, instanceId }: Pick<ListedInstance, "provider" | "instanceId">): string {
  return `${provider} ${instanceId}`;
}

/** Returns all holders of the machine or a part of it, the earliest first. */
export function listHolders({ holder, sharedHolders }: Machine): readonly Holder[] {
  return holder === undefined ? sharedHolders : [holder, ...sharedHolders];
}

/** Whether a machine or a part of it is held. */
export function isHeld(machine: Machine | undefined): boolean {
  return machine !== undefined && listHolders(machine).length > 0;
}

/** Whether a machine can be granted in parts, and not as a whole. */
export function isInParts(machine: Machine | undefined): boolean {
  return machine?.standing === "SHARED" || machine?.standing === "FOREIGN_USE";
}

/**
 * Whether a machine can be granted as a whole now. Only the ledger decides which machines are free. The scaler repeats its answer without a rule of its own,
 * because with different rules each could wait for the other.
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

/** Groups instances by the node name of their order. */
export function groupInstancesByNode(instances: Instances): ReadonlyMap<string, readonly ListedInstance[]> {
  return Map.groupBy(instances.all, ({ nodeName }) => nodeName);
}

/** Whether a missing instance of the node does not exist: its provider was listed after the node entered its phase. */
export function isAbsenceKnown(
  { silent, askedAtMs }: Pick<Instances, "silent" | "askedAtMs">,
  { spec, status }: Pick<ScaledNode, "spec" | "status">,
  nowMs: number,
): boolean {
  if (silent.has(spec.provider)) return false;
  // An earlier leader's clock was ahead, so each list is later than the phase.
  const isOlder = status.phaseSinceMs > nowMs;
  return isOlder || (askedAtMs.get(spec.provider) ?? -Infinity) > status.phaseSinceMs;
}

/** Groups Kubernetes nodes by the record in their label. */
export function groupKubeNodesByRecord({ byName }: KubeNodes): ReadonlyMap<string, readonly KubeNode[]> {
  const labelled = [...byName.values()].filter(({ scaledNode }) => scaledNode !== undefined);
  return Map.groupBy(
    labelled.sort((one, other) => (one.name < other.name ? -1 : 1)),
    ({ scaledNode }) => scaledNode ?? "",
  );
}

/** Returns the Kubernetes nodes of a record, under every name with which it has joined. */
export function listJoinedNodes(
  { name, status }: Pick<ScaledNode, "name" | "status">,
  byRecord: ReadonlyMap<string, readonly KubeNode[]>,
  { byName }: KubeNodes,
): readonly KubeNode[] {
  const known = status.kubernetesNode === undefined ? undefined : byName.get(status.kubernetesNode);
  const labelled = byRecord.get(name) ?? [];
  return known === undefined || labelled.includes(known) ? labelled : [known, ...labelled];
}
