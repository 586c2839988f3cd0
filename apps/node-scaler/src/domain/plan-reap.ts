import type { NodeChange } from "./change-node.ts";
import { isWithdrawable, type ScaledNode, type Termination, type TerminationCode } from "./node.ts";
import {
  instancesByNode,
  isAbsenceKnown,
  joinedNodes,
  kubeNodesByRecord,
  type Instances,
  type KubeNode,
  type KubeNodes,
  type ListedInstance,
  type Machines,
  type PodOnNode,
  type PodsByNode,
} from "./sightings.ts";

/** The orders to stop one node that its provider was given, in this process. */
export type StopsTried = {
  readonly attempts: number;
  readonly nextAtMs: number;
  /** The provider has taken one. */
  readonly taken: boolean;
};

export type ReapSnapshot = {
  readonly nowMs: number;
  readonly nodes: readonly ScaledNode[];
  /** Read after the records. */
  readonly instances: Instances;
  readonly kubeNodes: KubeNodes;
  /** Undefined: the ledger does not answer. */
  readonly machines: Machines | undefined;
  readonly pods: PodsByNode;
  readonly stops: ReadonlyMap<string, StopsTried>;
  /** Names of nodes whose provider is being asked by this process. */
  readonly booting: ReadonlySet<string>;
};

export type WaitReason =
  | "boot-under-way"
  | "watcher-silent"
  | "ledger-silent"
  | "cordon-not-seen"
  | "draining"
  | "provider-silent"
  | "held"
  | "stopping"
  | "kept-to-be-seen";

type ChangeReason =
  | "taken-back"
  | "not-in-cluster"
  | "instance-gone"
  | "drain-begins"
  | "clock-went-back"
  | "drained"
  | "drain-deadline"
  | "gone";

/** Steps of one node are taken in their order; when one fails the rest of that node's wait for the next round. */
export type ReapStep =
  | (NodeChange & {
      readonly do: "change";
      readonly because: ChangeReason;
    })
  /** The steps after it are taken only if nothing runs on the node at that moment. */
  | { readonly do: "look-for-pods"; readonly node: string; readonly kubeNode: string; readonly because: "drained" }
  | {
      readonly do: "cordon" | "uncordon";
      readonly node: string;
      readonly kubeNode: string;
      readonly because: TerminationCode | "held";
    }
  | {
      readonly do: "evict";
      readonly node: string;
      readonly namespace: string;
      readonly pod: string;
      readonly uid: string;
      readonly because: "draining";
    }
  | {
      readonly do: "stop";
      readonly node: string;
      readonly provider: string;
      readonly instanceId: string;
      readonly because: "terminating" | "not-listed" | "still-listed";
    }
  | {
      readonly do: "delete-kube-node";
      readonly node: string;
      readonly kubeNode: string;
      readonly uid: string;
      readonly because: "gone";
    }
  | { readonly do: "purge"; readonly node: string; readonly because: "gone" }
  | { readonly do: "wait"; readonly node: string; readonly because: WaitReason };

/** A record is kept this long after the end of its node, for people to look at. */
export const TERMINATED_KEPT_MS = 30_000;

/**
 * How nodes end: cordoned for all to see; once the ledger has seen it and nobody holds the node, drained, or at once where it is forced; then Terminating, until the provider lists the instance
 * no more; then the Kubernetes node goes, and the record. A node that nobody needs and that was granted meanwhile is kept.
 */
export function planReap(snapshot: ReapSnapshot): ReapStep[] {
  const byNode = instancesByNode(snapshot.instances);
  const byRecord = kubeNodesByRecord(snapshot.kubeNodes);
  return snapshot.nodes.flatMap((node) => {
    const { phase } = node.status;
    const kubeNodes = joinedNodes(node, byRecord, snapshot.kubeNodes);
    if (phase === "Terminated") return planPurge(node, snapshot.nowMs);
    if (phase === "Terminating") return planStop(node, byNode.get(node.name) ?? [], kubeNodes, snapshot);
    if (node.spec.terminate === undefined) return [];
    const isListed = (byNode.get(node.name) ?? []).length > 0 || snapshot.instances.silent.has(node.spec.provider);
    return planDrain(node, { terminate: node.spec.terminate, isListed }, kubeNodes, snapshot);
  });
}

function planDrain(
  node: ScaledNode,
  { terminate, isListed }: { readonly terminate: Termination; readonly isListed: boolean },
  kubeNodes: readonly KubeNode[],
  snapshot: ReapSnapshot,
): ReapStep[] {
  const { nowMs, machines } = snapshot;
  const wait = (because: WaitReason): ReapStep[] => [{ do: "wait", node: node.name, because }];
  if (snapshot.booting.has(node.name)) return wait("boot-under-way");
  const isForced = !isWithdrawable(terminate.code);
  const retimed = planRetiming(node, terminate, nowMs);
  if (retimed !== undefined) return [retimed];
  const isOverdue = isForced && nowMs >= terminate.drainUntilMs;
  const found = kubeNodes.map((kubeNode) => ({ kubeNode, machine: machines?.byNode.get(kubeNode.name) }));
  if (!isForced && found.some(({ machine }) => machine?.holder !== undefined)) return takeBack(node, kubeNodes);

  const cordons = kubeNodes
    .filter(({ cordoned }) => !cordoned)
    .map(({ name }): ReapStep => ({ do: "cordon", node: node.name, kubeNode: name, because: terminate.code }));
  const isGone = !isListed && !kubeNodes.some(({ ready }) => ready);
  // What ran on it has ended with the machine; nobody is to be given what is left of it.
  if (terminate.code === "VANISHED" && isGone) return [...cordons, ...terminating(node, "instance-gone")];
  if (isOverdue) return [...cordons, ...terminating(node, "drain-deadline")];
  const pods = kubeNodes.flatMap(({ name }) => snapshot.pods.get(name) ?? []);
  // Whoever holds it loses it all the same: what runs there is to have the time until the deadline, also while nobody answers.
  const early = isForced ? planEvictions(node, pods) : [];
  if (!snapshot.kubeNodes.known) return [...cordons, ...early, ...wait("watcher-silent")];
  if (kubeNodes.length === 0) return terminating(node, "not-in-cluster");
  if (machines === undefined) return [...cordons, ...early, ...wait("ledger-silent")];
  const isSeen = found.every(({ machine }) =>
    machine === undefined ? machines.complete : machine.cordoned || machine.standing === "LOST",
  );
  if (cordons.length > 0 || !isSeen) return [...cordons, ...early, ...wait("cordon-not-seen")];

  if (pods.length === 0) {
    const looks = kubeNodes.map(({ name }): ReapStep => {
      return { do: "look-for-pods", node: node.name, kubeNode: name, because: "drained" };
    });
    return [...looks, ...terminating(node, "drained")];
  }
  // The provider's notice does not wait for the drain; what else ends has its whole time from the first eviction on.
  if (node.status.drainingSinceMs === undefined && terminate.code !== "SPOT_NOTICE") {
    const spec = { terminate: { ...terminate, drainUntilMs: nowMs + drainMsOf(terminate) } };
    const begin = { ...change(node, "drain-begins"), spec, status: { drainingSinceMs: nowMs } };
    return [begin, ...planEvictions(node, pods), ...wait("draining")];
  }
  if (nowMs >= terminate.drainUntilMs) return terminating(node, "drain-deadline");
  return [...planEvictions(node, pods), ...wait("draining")];
}

function planEvictions(node: ScaledNode, pods: readonly PodOnNode[]): ReapStep[] {
  return pods
    .filter(({ deleting }) => !deleting)
    .map(({ namespace, name, uid }): ReapStep => ({
      do: "evict",
      node: node.name,
      namespace,
      pod: name,
      uid,
      because: "draining",
    }));
}

/** A clock that was ahead wrote the order: its times are worth nothing, and how long the drain may take is counted anew. */
function planRetiming(node: ScaledNode, terminate: Termination, nowMs: number): ReapStep | undefined {
  if (terminate.atMs <= nowMs) return undefined;
  const again = { ...terminate, atMs: nowMs, drainUntilMs: nowMs + drainMsOf(terminate) };
  return { ...change(node, "clock-went-back"), spec: { terminate: again }, status: { drainingSinceMs: undefined } };
}

function drainMsOf({ atMs, drainUntilMs }: Termination): number {
  return Math.max(0, drainUntilMs - atMs);
}

/**
 * It was granted before anybody could see the cordon, so that it is no surplus. What is seen of it may be older than its cordon, which would stay under the holder; a
 * node that has none is left as it is.
 */
function takeBack(node: ScaledNode, kubeNodes: readonly KubeNode[]): ReapStep[] {
  const uncordons = kubeNodes.map(({ name }): ReapStep => {
    return { do: "uncordon", node: node.name, kubeNode: name, because: "held" };
  });
  const spec = { terminate: undefined };
  return [
    ...uncordons,
    { ...change(node, "taken-back"), spec, status: { idleSinceMs: undefined, drainingSinceMs: undefined } },
  ];
}

function terminating(node: ScaledNode, because: ChangeReason): ReapStep[] {
  // Why the drain stalled, if it did, is over.
  return [{ ...change(node, because), phase: "Terminating", status: { trouble: undefined } }];
}

function planStop(
  node: ScaledNode,
  listed: readonly ListedInstance[],
  kubeNodes: readonly KubeNode[],
  { nowMs, instances, stops, machines }: ReapSnapshot,
): ReapStep[] {
  const { name, spec, status } = node;
  const tried = stops.get(name);
  const wait = (because: WaitReason): ReapStep[] => [{ do: "wait", node: name, because }];
  const { provider } = spec;
  // A provider that does not list an instance may still have something of it, or list it late.
  const isUntold = status.instanceId !== undefined && tried?.taken !== true;
  if (listed.length > 0 || isUntold) {
    if (tried !== undefined && nowMs < tried.nextAtMs) return wait("stopping");
    const late = tried === undefined ? planLate(node, kubeNodes, { machines, nowMs }) : undefined;
    if (late !== undefined) return late;
    if (listed.length > 0)
      return listed.map((instance): ReapStep => {
        const because = tried === undefined ? "terminating" : "still-listed";
        return { do: "stop", node: name, provider: instance.provider, instanceId: instance.instanceId, because };
      });
    if (instances.silent.has(provider)) return wait("provider-silent");
    return [{ do: "stop", node: name, provider, instanceId: status.instanceId ?? "", because: "not-listed" }];
  }
  if (!isAbsenceKnown(instances, node, nowMs)) return wait("provider-silent");
  return [
    ...kubeNodes.map(({ name, uid }): ReapStep => ({
      do: "delete-kube-node",
      node: node.name,
      kubeNode: name,
      uid,
      because: "gone",
    })),
    { ...change(node, "gone"), phase: "Terminated" },
  ];
}

/**
 * A node that nobody needed, and that joined only after its end was decided: it is cordoned, and whoever was given it before that could be seen keeps it until it is
 * given back. Undefined: nothing keeps it from being stopped.
 */
function planLate(
  { name, spec: { terminate } }: ScaledNode,
  kubeNodes: readonly KubeNode[],
  { machines, nowMs }: Pick<ReapSnapshot, "machines" | "nowMs">,
): ReapStep[] | undefined {
  if (terminate === undefined || !isWithdrawable(terminate.code)) return undefined;
  const isHeld = kubeNodes.some((kubeNode) => machines?.byNode.get(kubeNode.name)?.holder !== undefined);
  const open = kubeNodes.filter(({ cordoned, unopened }) => !cordoned && !unopened);
  const cordons = open.map((kubeNode): ReapStep => ({
    do: "cordon",
    node: name,
    kubeNode: kubeNode.name,
    because: terminate.code,
  }));
  if (isHeld) return [...cordons, { do: "wait", node: name, because: "held" }];
  if (open.length === 0 || nowMs >= terminate.drainUntilMs) return undefined;
  return [...cordons, { do: "wait", node: name, because: "cordon-not-seen" }];
}

function planPurge(node: ScaledNode, nowMs: number): ReapStep[] {
  const { phaseSinceMs } = node.status;
  const isKept = nowMs >= phaseSinceMs && nowMs - phaseSinceMs < TERMINATED_KEPT_MS;
  if (isKept) return [{ do: "wait", node: node.name, because: "kept-to-be-seen" }];
  return [{ do: "purge", node: node.name, because: "gone" }];
}

function change<Because extends ChangeReason>(
  node: ScaledNode,
  because: Because,
): NodeChange & { readonly do: "change"; readonly because: Because } {
  return { do: "change", node: node.name, expected: node.status.phase, because };
}

const STOP_AGAIN_MS = 5000;
const STOP_AGAIN_MS_MAX = 60_000;

/** When a node's provider may be told again to stop it, after it was told, or could not be told. */
export function nextStop(
  tried: StopsTried | undefined,
  { taken, retryAfterMs }: { readonly taken: boolean; readonly retryAfterMs: number },
  nowMs: number,
): StopsTried {
  const attempts = (tried?.attempts ?? 0) + 1;
  const pauseMs = Math.min(STOP_AGAIN_MS * 2 ** Math.min(attempts - 1, 10), STOP_AGAIN_MS_MAX);
  return { attempts, nextAtMs: nowMs + Math.max(pauseMs, retryAfterMs), taken: taken || tried?.taken === true };
}
