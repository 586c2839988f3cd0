import type { V1Node, V1NodeCondition } from "@kubernetes/client-node";

export type NodeFacts = {
  readonly name: string;
  readonly labels: Readonly<Record<string, string>>;
  /** Set only on a new node. A taint that is removed later stays removed. */
  readonly taints?: readonly NodeTaint[];
  /** Kubernetes quantities; `cpu`, `memory` and `pods` are required. */
  readonly capacity: Readonly<Record<string, string>>;
  readonly port: number;
  readonly system: {
    readonly arch: string;
    readonly platform: string;
    readonly kernel: string;
    readonly hostname: string;
    readonly bootId: string;
    readonly machineId: string;
    readonly nodeVersion: string;
  };
};

export type NodeTaint = { readonly key: string; readonly effect: "NoSchedule" | "NoExecute" | "PreferNoSchedule" };

export const KUBELET_VERSION = "v1.36.0-muster";
/** All processes share the machine's loopback. */
export const HOST_IP = "127.0.0.1";
/** The API server's admission sets it on a new node; without a node controller the kubelet has to remove it. */
const NOT_READY_TAINT = "node.kubernetes.io/not-ready";

/** The desired node, from its state in the API server; labels and taints of others are kept. */
export function buildNode(facts: NodeFacts, existing: V1Node | undefined): V1Node {
  const taints =
    existing === undefined ? facts.taints : existing.spec?.taints?.filter(({ key }) => key !== NOT_READY_TAINT);
  return {
    apiVersion: "v1",
    kind: "Node",
    metadata: {
      ...existing?.metadata,
      name: facts.name,
      labels: { ...existing?.metadata?.labels, ...ownLabels(facts) },
    },
    spec: { ...existing?.spec, ...(taints === undefined ? {} : { taints: [...taints] }) },
  };
}

/** Returns whether the stored node lacks something that `buildNode` would write. */
export function isNodeDifferent(facts: NodeFacts, existing: V1Node): boolean {
  const labels = existing.metadata?.labels ?? {};
  const hasTaint = existing.spec?.taints?.some((taint) => taint.key === NOT_READY_TAINT) ?? false;
  return hasTaint || Object.entries(ownLabels(facts)).some(([key, value]) => labels[key] !== value);
}

/** Builds the node's status. A condition keeps the time of its last change; every call counts as a heartbeat. */
export function buildNodeStatus(
  facts: NodeFacts,
  existing: V1Node,
  state: { readonly ready: boolean; readonly nowMs: number },
): NonNullable<V1Node["status"]> {
  const { system } = facts;
  return {
    ...existing.status,
    capacity: { ...facts.capacity },
    allocatable: { ...facts.capacity },
    addresses: [
      { type: "InternalIP", address: HOST_IP },
      { type: "Hostname", address: facts.name },
    ],
    daemonEndpoints: { kubeletEndpoint: { Port: facts.port } },
    nodeInfo: {
      architecture: getArchitecture(system.arch),
      bootID: system.bootId,
      containerRuntimeVersion: `process://${system.nodeVersion}`,
      kernelVersion: system.kernel,
      kubeProxyVersion: "",
      kubeletVersion: KUBELET_VERSION,
      machineID: system.machineId,
      operatingSystem: system.platform,
      osImage: `${system.platform} on ${system.hostname}`,
      systemUUID: system.machineId,
    },
    conditions: buildConditions(existing, state),
  };
}

function buildConditions(existing: V1Node, { ready, nowMs }: { ready: boolean; nowMs: number }): V1NodeCondition[] {
  const readiness = ready
    ? { type: "Ready", status: "True", reason: "KubeletReady", message: "kubelet is ready and runs processes" }
    : { type: "Ready", status: "False", reason: "KubeletNotReady", message: "kubelet is stopping" };
  const wanted = [
    { type: "MemoryPressure", status: "False", reason: "KubeletNotMeasuring", message: "memory is not measured" },
    { type: "DiskPressure", status: "False", reason: "KubeletNotMeasuring", message: "the disk is not measured" },
    { type: "PIDPressure", status: "False", reason: "KubeletNotMeasuring", message: "processes are not counted" },
    readiness,
  ];
  const old = existing.status?.conditions ?? [];
  const own = wanted.map((condition): V1NodeCondition => {
    const before = old.find((each) => each.type === condition.type);
    const since = before?.status === condition.status ? before.lastTransitionTime : undefined;
    return { ...condition, lastHeartbeatTime: new Date(nowMs), lastTransitionTime: since ?? new Date(nowMs) };
  });
  return [...own, ...old.filter((each) => !wanted.some(({ type }) => type === each.type))];
}

function ownLabels(facts: NodeFacts): Record<string, string> {
  const arch = getArchitecture(facts.system.arch);
  return {
    "kubernetes.io/hostname": facts.name,
    "kubernetes.io/os": facts.system.platform,
    "kubernetes.io/arch": arch,
    ...facts.labels,
  };
}

/** Maps Node's architecture names to those of Go, which Kubernetes uses. */
function getArchitecture(arch: string): string {
  return arch === "x64" ? "amd64" : arch === "ia32" ? "386" : arch;
}
