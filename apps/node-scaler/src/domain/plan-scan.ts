import type { NodeChange } from "./change-node.ts";
import type { NodePhase, ScaledNode } from "./node.ts";
import { buildTermination } from "./plan-heartbeat.ts";
import type { StopsTried } from "./plan-reap.ts";
import type { PoolPolicy } from "./pool.ts";
import {
  buildInstanceKey,
  groupInstancesByNode,
  isAbsenceKnown,
  isFree,
  isHeld,
  isInParts,
  listJoinedNodes,
  groupKubeNodesByRecord,
  type Instances,
  type KubeNode,
  type KubeNodes,
  type ListedInstance,
  type Machines,
  type PodsByNode,
} from "./sightings.ts";

export type ScanSnapshot = {
  readonly nowMs: number;
  /** Read before the instances, so a record may lack the id of an instance that was started meanwhile. */
  readonly nodes: readonly ScaledNode[];
  /** Names of records that were created while the providers were listed. */
  readonly newcomers: ReadonlySet<string>;
  readonly policies: ReadonlyMap<string, PoolPolicy>;
  readonly instances: Instances;
  readonly kubeNodes: KubeNodes;
  /** Undefined if the ledger does not answer. */
  readonly machines: Machines | undefined;
  readonly pods: PodsByNode;
  /** The suspects that the previous scan returned. */
  readonly suspects: ReadonlySet<string>;
  /** Stops of orphans that this process has requested, by instance. */
  readonly stops: ReadonlyMap<string, StopsTried>;
};

export type ScanStep =
  | (NodeChange & { readonly kind: "change"; readonly because: "vanished" })
  | {
      readonly kind: "stop-orphan";
      readonly provider: string;
      readonly instanceId: string;
      readonly nodeName: string;
      readonly because: "no-record" | "another-instance";
    }
  | {
      readonly kind: "cordon";
      readonly node: string;
      readonly kubeNode: string;
      readonly because: "no-record" | "another-instance" | "second-name";
    }
  | {
      readonly kind: "delete-kube-node";
      readonly node: string;
      readonly kubeNode: string;
      readonly uid: string;
      readonly because: "no-record" | "second-name";
    }
  | {
      readonly kind: "wait";
      readonly instanceId: string;
      readonly because: WaitReason;
    };

type WaitReason = "orphan-held" | "ledger-silent" | "watcher-silent" | "cordon-not-seen" | "stopping";

type ScanPlan = { readonly steps: readonly ScanStep[]; readonly suspects: ReadonlySet<string> };

const WITH_INSTANCE: ReadonlySet<NodePhase> = new Set(["Created", "Available", "Claimed", "Cleaning"]);

/**
 * Plans the end of inconsistent objects: instances without a record, records whose instance vanished, Kubernetes nodes without either. A fault is acted on only
 * after two consecutive scans find it. The suspects of a provider that does not answer stay unchanged.
 */
export function planScan(snapshot: ScanSnapshot): ScanPlan {
  const findings = [...findOrphans(snapshot), ...findVanished(snapshot), ...findStrayKubeNodes(snapshot)];
  const suspects = new Set(findings.map(({ suspect }) => suspect));
  for (const suspect of snapshot.suspects) if (isOfSilentProvider(suspect, snapshot.instances)) suspects.add(suspect);
  return {
    steps: findings.flatMap(({ suspect, steps }) => (snapshot.suspects.has(suspect) ? steps : [])),
    suspects,
  };
}

type Finding = { readonly suspect: string; readonly steps: readonly ScanStep[] };

function findOrphans(snapshot: ScanSnapshot): Finding[] {
  const { nodes, newcomers, instances, kubeNodes } = snapshot;
  const records = new Map(nodes.map((node) => [node.name, node]));
  const byRecord = groupKubeNodesByRecord(kubeNodes);
  const ownListed = new Set(
    instances.all.flatMap(({ nodeName, instanceId }) =>
      records.get(nodeName)?.status.instanceId === instanceId ? [nodeName] : [],
    ),
  );
  return instances.all.flatMap((instance): Finding[] => {
    const record = records.get(instance.nodeName);
    const isKnown =
      newcomers.has(instance.nodeName) ||
      (record !== undefined && belongs(record, instance)) ||
      instance.state === "stopping";
    if (isKnown) return [];
    const named = instance.kubernetesNode === undefined ? undefined : kubeNodes.byName.get(instance.kubernetesNode);
    const labelled = byRecord.get(instance.nodeName) ?? [];
    const joined = named === undefined ? labelled : [named, ...labelled.filter((one) => !record && one !== named)];
    const steps = endOrphan(instance, { record, joined, isOwnListed: ownListed.has(instance.nodeName) }, snapshot);
    return [{ suspect: buildOrphanKey(buildInstanceKey(instance)), steps }];
  });
}

/** Returns the key of an orphan in `suspects`. The key stays while the instance is an orphan, or its provider is silent. */
export function buildOrphanKey(instance: string): string {
  return `instance ${instance}`;
}

type Orphan = {
  readonly record: ScaledNode | undefined;
  /** The Kubernetes nodes that may belong to the instance. */
  readonly joined: readonly KubeNode[];
  /** True if the record has its own instance beside this one. */
  readonly isOwnListed: boolean;
};

/**
 * Plans the end of an orphan. A stopped machine must not be granted: its nodes are cordoned first. The machine is stopped after the ledger has observed the
 * cordon and no owner holds the nodes.
 */
function endOrphan(
  { provider, instanceId, nodeName, kubernetesNode }: ListedInstance,
  { record, joined, isOwnListed }: Orphan,
  { nowMs, kubeNodes, machines, pods, stops }: ScanSnapshot,
): ScanStep[] {
  const because = record === undefined ? "no-record" : "another-instance";
  const wait = (why: WaitReason): ScanStep => ({ kind: "wait", instanceId, because: why });
  if (!kubeNodes.known) return [wait("watcher-silent")];
  const closing = joined.filter(({ name }) => !isOwnListed || name !== record?.status.kubernetesNode);
  const cordons = closing
    .filter(({ cordoned, hasStartupTaint }) => !cordoned && !hasStartupTaint)
    .map(({ name: kubeNode }): ScanStep => ({ kind: "cordon", node: nodeName, kubeNode, because }));
  if (machines === undefined) return [...cordons, wait("ledger-silent")];
  const names = [kubernetesNode ?? "", ...joined.map(({ name }) => name)];
  // Work on the instance ends first, with or without a record. Of another installation only the pods are visible here, because its records are elsewhere.
  const isUsed = names.some(
    (name) => isHeld(machines.byNode.get(name)) || pods.get(name)?.some(({ owner }) => owner !== undefined),
  );
  if (isUsed) return [...cordons, wait("orphan-held")];
  const isSeen = closing.every(({ name, hasStartupTaint }) => {
    const machine = machines.byNode.get(name);
    if (machine === undefined) return machines.complete;
    // Only nodes of live records lose their startup taint.
    return (
      machine.cordoned || machine.standing === "LOST" || (hasStartupTaint && !isFree(machine) && !isInParts(machine))
    );
  });
  if (cordons.length > 0 || !isSeen) return [...cordons, wait("cordon-not-seen")];
  const tried = stops.get(buildInstanceKey({ provider, instanceId }));
  if (tried !== undefined && nowMs < tried.nextAtMs) return [wait("stopping")];
  return [{ kind: "stop-orphan", provider, instanceId, nodeName, because }];
}

/** Whether the instance belongs to the record. A record without a provider's answer, or one that ends, accounts for every instance of its name. */
function belongs({ status }: ScaledNode, { instanceId }: ListedInstance): boolean {
  const { phase } = status;
  if (phase === "Terminated") return false;
  return phase === "Terminating" || status.instanceId === undefined || status.instanceId === instanceId;
}

/** Finds records with vanished instances. A vanished machine becomes not ready; if its node is ready or cannot be observed, the provider's list is wrong. */
function findVanished({ nodes, instances, kubeNodes, policies, nowMs }: ScanSnapshot): Finding[] {
  if (!kubeNodes.known) return [];
  const byNode = groupInstancesByNode(instances);
  const byRecord = groupKubeNodesByRecord(kubeNodes);
  return nodes.flatMap((node) => {
    const { phase, instanceId } = node.status;
    if (!WITH_INSTANCE.has(phase) || node.spec.terminate !== undefined) return [];
    const { provider } = node.spec;
    if (
      !isAbsenceKnown(instances, node, nowMs) ||
      byNode.get(node.name)?.some((instance) => instance.instanceId === instanceId) === true
    )
      return [];
    if (listJoinedNodes(node, byRecord, kubeNodes).some(({ ready }) => ready)) return [];
    const message = "its provider no longer lists the instance";
    const terminate = buildTermination({ code: "VANISHED", message }, node, policies, nowMs);
    const step = {
      kind: "change",
      node: node.name,
      expected: phase,
      spec: { terminate },
      because: "vanished",
    } as const;
    return [{ suspect: `record ${provider} ${node.name}`, steps: [step] }];
  });
}

/** Finds Kubernetes nodes with the label of a record that belongs to another node. */
function findStrayKubeNodes({ nodes, newcomers, instances, kubeNodes }: ScanSnapshot): Finding[] {
  if (!kubeNodes.known || instances.silent.size > 0) return [];
  const records = new Map(nodes.map((node) => [node.name, node]));
  const byNode = groupInstancesByNode(instances);
  return [...groupKubeNodesByRecord(kubeNodes)].flatMap(([name, joined]) => {
    const record = records.get(name);
    if (newcomers.has(name)) return [];
    // Before a record has its node, any of these nodes may become it. While the record ends, the reaper deletes all of them.
    if (record !== undefined && (record.status.kubernetesNode === undefined || record.status.phase === "Terminating"))
      return [];
    return joined.flatMap(({ name: kubeNode, uid, ready, cordoned, hasStartupTaint }): Finding[] => {
      if (kubeNode === record?.status.kubernetesNode) return [];
      const because = record === undefined ? "no-record" : "second-name";
      const suspect = `node ${kubeNode}`;
      const isOpen = !cordoned && !hasStartupTaint;
      if (ready) return isOpen ? [{ suspect, steps: [{ kind: "cordon", node: name, kubeNode, because }] }] : [];
      const isGone = record !== undefined || !byNode.has(name);
      return isGone ? [{ suspect, steps: [{ kind: "delete-kube-node", node: name, kubeNode, uid, because }] }] : [];
    });
  });
}

function isOfSilentProvider(suspect: string, { silent }: Instances): boolean {
  const [kind, provider = ""] = suspect.split(" ");
  return kind === "node" ? silent.size > 0 : silent.has(provider);
}
