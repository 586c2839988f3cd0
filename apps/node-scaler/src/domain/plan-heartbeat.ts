import type { NodeChange } from "./change-node.ts";
import { describeLeft, describePassed } from "./describe-duration.ts";
import type { NodeTrouble, ScaledNode, Termination, TerminationCode } from "./node.ts";
import type { PoolPolicy } from "./pool.ts";
import { describeTaint, listUndeclaredTaints } from "./tolerate-taints.ts";
import {
  groupInstancesByNode,
  groupKubeNodesByRecord,
  type Instances,
  type KubeNode,
  type KubeNodes,
  isCordonedByOthers,
  isFree,
  isHeld,
  isInParts,
  type ListedInstance,
  type Machine,
  type Machines,
} from "./sightings.ts";

export type HeartbeatSnapshot = {
  readonly nowMs: number;
  /** The start of this leader. Earlier times are no reason to end a node, because this leader has not observed them. */
  readonly leadingSinceMs: number;
  readonly term: number;
  readonly nodes: readonly ScaledNode[];
  readonly policies: ReadonlyMap<string, PoolPolicy>;
  readonly instances: Instances;
  readonly kubeNodes: KubeNodes;
  /** Undefined if the ledger does not answer. */
  readonly machines: Machines | undefined;
  /** Names of nodes for which this process waits for a provider's answer. */
  readonly booting: ReadonlySet<string>;
};

type HeartbeatReason =
  "instance-seen" | "joined" | "ready" | "not-ready" | "not-offered" | "ready-again" | "clock-went-back" | "to-end";

export type HeartbeatStep = NodeChange & { readonly kind: "change"; readonly because: HeartbeatReason };

/** The time for a drain of nodes of a pool that is no longer configured. */
const DRAIN_MS = 120_000;

const CORDONED_BY_OTHERS: NodeTrouble = {
  code: "CORDONED",
  message: "another client has cordoned it: it is kept, and not granted, until it is uncordoned",
};

/** Plans by health and life cycle: at most one step per node. Held nodes are not judged, because their holder watches them. */
export function planHeartbeat(snapshot: HeartbeatSnapshot): HeartbeatStep[] {
  const byNode = groupInstancesByNode(snapshot.instances);
  const byRecord = groupKubeNodesByRecord(snapshot.kubeNodes);
  return snapshot.nodes.flatMap((node) => {
    if (node.spec.terminate !== undefined) return [];
    const instance = byNode.get(node.name)?.find((one) => isOf(node, one));
    const seen = { node, instance, kubeNode: findKubeNode(node, instance, byRecord, snapshot.kubeNodes) };
    return planNode(seen, snapshot) ?? [];
  });
}

type Seen = {
  readonly node: ScaledNode;
  readonly instance: ListedInstance | undefined;
  readonly kubeNode: KubeNode | undefined;
};

/** Whether the instance belongs to the node: by the id in the provider's answer, or by name before that answer. */
function isOf({ status }: ScaledNode, { instanceId }: ListedInstance): boolean {
  return status.instanceId === undefined || status.instanceId === instanceId;
}

/** Returns the Kubernetes node of a record. A node that has joined under a second name keeps the first name while the first node is ready or may be held. */
function findKubeNode(
  { name, status }: ScaledNode,
  instance: ListedInstance | undefined,
  byRecord: ReadonlyMap<string, readonly KubeNode[]>,
  { byName }: KubeNodes,
): KubeNode | undefined {
  const first = status.kubernetesNode === undefined ? undefined : byName.get(status.kubernetesNode);
  if (first?.ready === true || status.phase === "Claimed" || status.phase === "Cleaning") return first;
  const labelled = byRecord.get(name) ?? [];
  const named = instance?.kubernetesNode === undefined ? undefined : byName.get(instance.kubernetesNode);
  return labelled.find(({ ready }) => ready) ?? first ?? labelled[0] ?? named;
}

function planNode(seen: Seen, snapshot: HeartbeatSnapshot): HeartbeatStep | undefined {
  const { node, instance } = seen;
  const lost = planLoss(node, instance, snapshot);
  if (lost !== undefined) return lost;
  switch (node.status.phase) {
    case "Creating":
      return planCreating(node, snapshot);
    case "Created":
      return planCreated(seen, snapshot);
    case "Available":
    case "Cleaning":
      return planHealth(seen, snapshot);
    case "Claimed":
    case "Terminating":
    case "Terminated":
      return undefined;
  }
}

/** Plans by the state that the provider reports for the instance, in every phase. */
function planLoss(
  node: ScaledNode,
  instance: ListedInstance | undefined,
  snapshot: HeartbeatSnapshot,
): HeartbeatStep | undefined {
  if (instance?.failure !== undefined && node.status.kubernetesNode === undefined)
    return end(node, "BOOT_FAILED", instance.failure, snapshot);
  if (instance?.lostAtMs === undefined) return undefined;
  const step = end(
    node,
    "SPOT_NOTICE",
    `the provider reclaims the instance in ${describeLeft(instance.lostAtMs - snapshot.nowMs)}`,
    snapshot,
  );
  const terminate = step.spec?.terminate;
  if (terminate === undefined) return step;
  // Pods that are not drained before the loss are lost with the instance.
  const drainUntilMs = Math.min(terminate.drainUntilMs, instance.lostAtMs);
  return { ...step, spec: { terminate: { ...terminate, drainUntilMs } } };
}

/** Plans a Creating node. The outcome of the request is unknown: a later scan finds the instance, if one exists, by its name and ends it. */
function planCreating(node: ScaledNode, snapshot: HeartbeatSnapshot): HeartbeatStep | undefined {
  if (snapshot.booting.has(node.name)) return undefined;
  if (node.status.term !== snapshot.term)
    return end(node, "RESTARTED", `its boot was begun by the leader of term ${node.status.term}`, snapshot);
  return end(node, "BOOT_FAILED", node.status.trouble?.message ?? "no call to the provider is in flight", snapshot);
}

function planCreated(seen: Seen, snapshot: HeartbeatSnapshot): HeartbeatStep | undefined {
  const { node, instance, kubeNode } = seen;
  const { status } = node;
  const { nowMs } = snapshot;
  const seenOfIt = {
    addresses: instance === undefined || instance.addresses.length === 0 ? status.addresses : instance.addresses,
    kubernetesNode: kubeNode?.name ?? status.kubernetesNode,
  };
  const spec = instance?.zone === undefined ? {} : { zone: instance.zone };
  if (kubeNode?.ready === true)
    return {
      ...begin(node, "ready"),
      phase: "Available",
      spec,
      status: { ...seenOfIt, unhealthySinceMs: undefined, idleSinceMs: undefined, trouble: undefined },
    };
  const sinceMs = status.unhealthySinceMs ?? status.phaseSinceMs;
  if (sinceMs > nowMs) return startClock(node, "Created", nowMs);
  const bootingMs = nowMs - Math.max(sinceMs, snapshot.leadingSinceMs);
  const limitMs = snapshot.policies.get(node.spec.pool)?.bootTimeoutMs ?? 0;
  // While the watcher is silent, the node may have joined unobserved.
  if (snapshot.kubeNodes.known && bootingMs >= limitMs) {
    const joined = seenOfIt.kubernetesNode === undefined ? "has not joined the cluster" : "has joined and is not ready";
    return end(node, "BOOT_TIMEOUT", `${joined} after ${describePassed(bootingMs)}`, snapshot);
  }
  const because = seenOfIt.kubernetesNode === status.kubernetesNode ? "instance-seen" : "joined";
  return { ...begin(node, because), spec, status: seenOfIt };
}

function planHealth({ node, kubeNode }: Seen, snapshot: HeartbeatSnapshot): HeartbeatStep | undefined {
  const { status } = node;
  const { nowMs, kubeNodes } = snapshot;
  if (!kubeNodes.known) return undefined;
  const machine = kubeNode === undefined ? undefined : snapshot.machines?.byNode.get(kubeNode.name);
  const isCordoned = isCordonedByOthers(node, machine);
  const notOffered = kubeNode?.ready === true && !isCordoned ? describeNotOffered(node, machine, snapshot) : undefined;
  if (kubeNode?.ready === true && notOffered === undefined) {
    const trouble = isCordoned ? CORDONED_BY_OTHERS : undefined;
    const fresh = { unhealthySinceMs: undefined, kubernetesNode: kubeNode.name, trouble };
    const because = kubeNode.name === status.kubernetesNode ? "ready-again" : "joined";
    return { ...begin(node, because), status: fresh };
  }
  if (status.unhealthySinceMs === undefined)
    return notOffered === undefined
      ? { ...begin(node, "not-ready"), status: { unhealthySinceMs: nowMs } }
      : {
          ...begin(node, "not-offered"),
          status: { unhealthySinceMs: nowMs, trouble: { code: "NOT_OFFERED", message: notOffered } },
        };
  if (status.unhealthySinceMs > nowMs) return startClock(node, status.phase, nowMs);
  const sickMs = nowMs - Math.max(status.unhealthySinceMs, snapshot.leadingSinceMs);
  const limitMs = snapshot.policies.get(node.spec.pool)?.healthyTimeoutMs ?? 0;
  if (sickMs < limitMs) return undefined;
  const what = notOffered ?? (kubeNode === undefined ? "is gone from the cluster" : "is not ready");
  return end(node, "UNHEALTHY", `${what} for ${describePassed(sickMs)}`, snapshot);
}

/**
 * Describes why a ready node is useless: the ledger does not list it among its machines, or would not grant it. Undefined if the node can be granted, is held,
 * or the ledger does not answer.
 */
function describeNotOffered(
  { spec, status }: ScaledNode,
  machine: Machine | undefined,
  { machines, policies }: Pick<HeartbeatSnapshot, "machines" | "policies">,
): string | undefined {
  if (status.phase !== "Available" || machines === undefined) return undefined;
  if (machine === undefined) return machines.complete ? "is ready and no machine of the ledger" : undefined;
  const isOfUse = isHeld(machine) || isFree(machine) || isInParts(machine) || machine.standing === "OCCUPIED";
  if (isOfUse) return undefined;
  const [taint] = listUndeclaredTaints(machine.taints, policies.get(spec.pool));
  const because = taint === undefined ? "" : `: its pool does not declare the taint ${describeTaint(taint)}`;
  return `is ready and ${machine.standing} for the ledger${because}`;
}

/** Restarts the time of a phase, because the clock that wrote the record was ahead. */
function startClock(node: ScaledNode, expected: ScaledNode["status"]["phase"], nowMs: number): HeartbeatStep {
  return { kind: "change", node: node.name, expected, status: { unhealthySinceMs: nowMs }, because: "clock-went-back" };
}

function begin(node: ScaledNode, because: HeartbeatReason): HeartbeatStep {
  return { kind: "change", node: node.name, expected: node.status.phase, because };
}

function end(
  node: ScaledNode,
  code: TerminationCode,
  message: string,
  { nowMs, policies }: Pick<HeartbeatSnapshot, "nowMs" | "policies">,
): HeartbeatStep {
  return { ...begin(node, "to-end"), spec: { terminate: buildTermination({ code, message }, node, policies, nowMs) } };
}

/** Builds the order to terminate a node, with the time limit of its drain. */
export function buildTermination(
  { code, message, requestId }: Pick<Termination, "code" | "message"> & { readonly requestId?: string },
  { spec }: Pick<ScaledNode, "spec">,
  policies: ReadonlyMap<string, PoolPolicy>,
  nowMs: number,
): Termination {
  const drainUntilMs = nowMs + (policies.get(spec.pool)?.drainTimeoutMs ?? DRAIN_MS);
  return { code, message, atMs: nowMs, drainUntilMs, ...(requestId !== undefined && { requestId }) };
}
