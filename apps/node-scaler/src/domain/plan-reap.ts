import type { NodeChange } from "./change-node.ts";
import { isWithdrawable, type ScaledNode, type Termination, type TerminationCode } from "./node.ts";
import {
  groupInstancesByNode,
  isAbsenceKnown,
  isHeld,
  listJoinedNodes,
  groupKubeNodesByRecord,
  type Instances,
  type KubeNode,
  type KubeNodes,
  type ListedInstance,
  type Machines,
  type PodOnNode,
  type PodsByNode,
} from "./sightings.ts";

/** The stops of one node that this process has requested from its provider. */
export type StopsTried = {
  readonly attempts: number;
  readonly nextAtMs: number;
  /** True if the provider has accepted a stop. */
  readonly accepted: boolean;
};

export type ReapSnapshot = {
  readonly nowMs: number;
  readonly nodes: readonly ScaledNode[];
  /** The instances, read after the records. */
  readonly instances: Instances;
  readonly kubeNodes: KubeNodes;
  /** Undefined if the ledger does not answer. */
  readonly machines: Machines | undefined;
  readonly pods: PodsByNode;
  readonly stops: ReadonlyMap<string, StopsTried>;
  /** Names of nodes for which this process waits for a provider's answer. */
  readonly booting: ReadonlySet<string>;
};

type WaitReason =
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

/** Steps of one node are taken in order; after a failure the rest wait for the next round. */
export type ReapStep =
  | (NodeChange & {
      readonly kind: "change";
      readonly because: ChangeReason;
    })
  /** Later steps are taken only if no pods run on the node at that moment. */
  | { readonly kind: "look-for-pods"; readonly node: string; readonly kubeNode: string; readonly because: "drained" }
  | {
      readonly kind: "cordon" | "uncordon";
      readonly node: string;
      readonly kubeNode: string;
      readonly because: TerminationCode | "held";
    }
  | {
      readonly kind: "evict";
      readonly node: string;
      readonly namespace: string;
      readonly pod: string;
      readonly uid: string;
      readonly because: "draining";
    }
  | {
      readonly kind: "stop";
      readonly node: string;
      readonly provider: string;
      readonly instanceId: string;
      readonly because: "terminating" | "not-listed" | "still-listed";
    }
  | {
      readonly kind: "delete-kube-node";
      readonly node: string;
      readonly kubeNode: string;
      readonly uid: string;
      readonly because: "gone";
    }
  | { readonly kind: "purge"; readonly node: string; readonly because: "gone" }
  | { readonly kind: "wait"; readonly node: string; readonly because: WaitReason };

/** A record is kept for this time after the end of its node, for people. */
const TERMINATED_KEPT_MS = 30_000;

/**
 * Plans how nodes end. A node is cordoned. Once the ledger has observed the cordon and no owner holds the node, the node is drained, or stopped without a drain
 * if it is overdue. It is Terminating until the provider no longer lists the instance; then the Kubernetes node and the record are deleted. An idle node that
 * was granted meanwhile is kept.
 */
export function planReap(snapshot: ReapSnapshot): ReapStep[] {
  const byNode = groupInstancesByNode(snapshot.instances);
  const byRecord = groupKubeNodesByRecord(snapshot.kubeNodes);
  return snapshot.nodes.flatMap((node) => {
    const { phase } = node.status;
    const kubeNodes = listJoinedNodes(node, byRecord, snapshot.kubeNodes);
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
  const wait = (because: WaitReason): ReapStep[] => [{ kind: "wait", node: node.name, because }];
  if (snapshot.booting.has(node.name)) return wait("boot-under-way");
  const isForced = !isWithdrawable(terminate.code);
  const retimed = planRetiming(node, terminate, nowMs);
  if (retimed !== undefined) return [retimed];
  const isOverdue = isForced && nowMs >= terminate.drainUntilMs;
  const found = kubeNodes.map((kubeNode) => ({ kubeNode, machine: machines?.byNode.get(kubeNode.name) }));
  if (!isForced && found.some(({ machine }) => isHeld(machine))) return withdraw(node, kubeNodes);

  const cordons = kubeNodes
    .filter(({ cordoned }) => !cordoned)
    .map(({ name }): ReapStep => ({ kind: "cordon", node: node.name, kubeNode: name, because: terminate.code }));
  const isGone = !isListed && !kubeNodes.some(({ ready }) => ready);
  // The pods on the node ended with the machine; its remains must not be granted.
  if (terminate.code === "VANISHED" && isGone) return [...cordons, ...terminating(node, "instance-gone")];
  if (isOverdue) return [...cordons, ...terminating(node, "drain-deadline")];
  const pods = kubeNodes.flatMap(({ name }) => snapshot.pods.get(name) ?? []);
  // A forced end takes the node from its holder: its pods may run until the deadline, even while the ledger is silent.
  const early = isForced ? planEvictions(node, pods) : [];
  if (!snapshot.kubeNodes.known) return [...cordons, ...early, ...wait("watcher-silent")];
  if (kubeNodes.length === 0) return terminating(node, "not-in-cluster");
  if (machines === undefined) return [...cordons, ...early, ...wait("ledger-silent")];
  const isSeen = found.every(({ machine }) =>
    machine === undefined ? machines.complete : machine.cordoned || machine.standing === "LOST",
  );
  if (cordons.length > 0 || !isSeen) return [...cordons, ...early, ...wait("cordon-not-seen")];

  if (pods.length === 0) {
    const checks = kubeNodes.map(({ name }): ReapStep => {
      return { kind: "look-for-pods", node: node.name, kubeNode: name, because: "drained" };
    });
    return [...checks, ...terminating(node, "drained")];
  }
  // The provider's notice does not wait for the drain; any other end has its whole time from the first eviction on.
  if (node.status.drainingSinceMs === undefined && terminate.code !== "SPOT_NOTICE") {
    const spec = { terminate: { ...terminate, drainUntilMs: nowMs + computeDrainMs(terminate) } };
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
      kind: "evict",
      node: node.name,
      namespace,
      pod: name,
      uid,
      because: "draining",
    }));
}

/** Restarts the drain with its whole time from now, because a clock that was ahead wrote the order. */
function planRetiming(node: ScaledNode, terminate: Termination, nowMs: number): ReapStep | undefined {
  if (terminate.atMs <= nowMs) return undefined;
  const again = { ...terminate, atMs: nowMs, drainUntilMs: nowMs + computeDrainMs(terminate) };
  return { ...change(node, "clock-went-back"), spec: { terminate: again }, status: { drainingSinceMs: undefined } };
}

function computeDrainMs({ atMs, drainUntilMs }: Termination): number {
  return Math.max(0, drainUntilMs - atMs);
}

/**
 * Withdraws the end of a node that was granted before its cordon was visible, and so is not surplus. The observed node may be older than its cordon, which
 * would stay under the holder. So every name is uncordoned, which has no effect without a cordon.
 */
function withdraw(node: ScaledNode, kubeNodes: readonly KubeNode[]): ReapStep[] {
  const uncordons = kubeNodes.map(({ name }): ReapStep => {
    return { kind: "uncordon", node: node.name, kubeNode: name, because: "held" };
  });
  const spec = { terminate: undefined };
  return [
    ...uncordons,
    { ...change(node, "taken-back"), spec, status: { idleSinceMs: undefined, drainingSinceMs: undefined } },
  ];
}

function terminating(node: ScaledNode, because: ChangeReason): ReapStep[] {
  // The drain is over, and so is the cause of its stall.
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
  const wait = (because: WaitReason): ReapStep[] => [{ kind: "wait", node: name, because }];
  const { provider } = spec;
  // A provider may list an instance late, or still have a part of an unlisted one.
  const isStopPending = status.instanceId !== undefined && tried?.accepted !== true;
  if (listed.length > 0 || isStopPending) {
    if (tried !== undefined && nowMs < tried.nextAtMs) return wait("stopping");
    const late = tried === undefined ? planLate(node, kubeNodes, { machines, nowMs }) : undefined;
    if (late !== undefined) return late;
    if (listed.length > 0)
      return listed.map((instance): ReapStep => {
        const because = tried === undefined ? "terminating" : "still-listed";
        return { kind: "stop", node: name, provider: instance.provider, instanceId: instance.instanceId, because };
      });
    if (instances.silent.has(provider)) return wait("provider-silent");
    return [{ kind: "stop", node: name, provider, instanceId: status.instanceId ?? "", because: "not-listed" }];
  }
  if (!isAbsenceKnown(instances, node, nowMs)) return wait("provider-silent");
  return [
    ...kubeNodes.map(({ name, uid }): ReapStep => ({
      kind: "delete-kube-node",
      node: node.name,
      kubeNode: name,
      uid,
      because: "gone",
    })),
    { ...change(node, "gone"), phase: "Terminated" },
  ];
}

/**
 * Plans for an idle node that joined only after its end was decided. The node is cordoned. An owner that was granted the node before the cordon was visible
 * keeps it until its release. Undefined if no obstacle prevents the stop.
 */
function planLate(
  { name, spec: { terminate } }: ScaledNode,
  kubeNodes: readonly KubeNode[],
  { machines, nowMs }: Pick<ReapSnapshot, "machines" | "nowMs">,
): ReapStep[] | undefined {
  if (terminate === undefined || !isWithdrawable(terminate.code)) return undefined;
  const isGranted = kubeNodes.some((kubeNode) => isHeld(machines?.byNode.get(kubeNode.name)));
  const open = kubeNodes.filter(({ cordoned, hasStartupTaint }) => !cordoned && !hasStartupTaint);
  const cordons = open.map((kubeNode): ReapStep => ({
    kind: "cordon",
    node: name,
    kubeNode: kubeNode.name,
    because: terminate.code,
  }));
  if (isGranted) return [...cordons, { kind: "wait", node: name, because: "held" }];
  if (open.length === 0 || nowMs >= terminate.drainUntilMs) return undefined;
  return [...cordons, { kind: "wait", node: name, because: "cordon-not-seen" }];
}

function planPurge(node: ScaledNode, nowMs: number): ReapStep[] {
  const { phaseSinceMs } = node.status;
  const isKept = nowMs >= phaseSinceMs && nowMs - phaseSinceMs < TERMINATED_KEPT_MS;
  if (isKept) return [{ kind: "wait", node: node.name, because: "kept-to-be-seen" }];
  return [{ kind: "purge", node: node.name, because: "gone" }];
}

function change<Because extends ChangeReason>(
  node: ScaledNode,
  because: Because,
): NodeChange & { readonly kind: "change"; readonly because: Because } {
  return { kind: "change", node: node.name, expected: node.status.phase, because };
}

const STOP_RETRY_MS = 5000;
const MAX_STOP_RETRY_MS = 60_000;

/** Returns when the scaler may request the stop of a node from its provider again. */
export function planStopRetry(
  tried: StopsTried | undefined,
  { accepted, retryAfterMs }: { readonly accepted: boolean; readonly retryAfterMs: number },
  nowMs: number,
): StopsTried {
  const attempts = (tried?.attempts ?? 0) + 1;
  const pauseMs = Math.min(STOP_RETRY_MS * 2 ** Math.min(attempts - 1, 10), MAX_STOP_RETRY_MS);
  return {
    attempts,
    nextAtMs: nowMs + Math.max(pauseMs, retryAfterMs),
    accepted: accepted || tried?.accepted === true,
  };
}
