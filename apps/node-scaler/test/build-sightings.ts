import type {
  Instances,
  KubeNode,
  KubeNodes,
  ListedInstance,
  Machine,
  Machines,
  MachineStanding,
  PodOnNode,
} from "../src/domain/sightings.ts";

/** Builds the running instance of the node with this name, as `buildNode` has it. */
export function buildInstance(nodeName: string, parts: Partial<ListedInstance> = {}): ListedInstance {
  return {
    provider: "cloud",
    instanceId: `i-${nodeName}`,
    nodeName,
    state: "running",
    zone: undefined,
    addresses: [],
    kubernetesNode: undefined,
    lostAtMs: undefined,
    failure: undefined,
    ...parts,
  };
}

export function listed(...all: readonly ListedInstance[]): Instances {
  return { all, silent: new Set(), askedAtMs: new Map([["cloud", Infinity]]) };
}

export const silence: Instances = { all: [], silent: new Set(["cloud"]), askedAtMs: new Map() };

/** Builds the ready Kubernetes node of the node with this name, as `buildNode` has it. */
export function buildKubeNode(nodeName: string, parts: Partial<KubeNode> = {}): KubeNode {
  const open = { ready: true, cordoned: false, labels: {}, hasStartupTaint: false, overhead: new Map() };
  return { name: `k-${nodeName}`, scaledNode: nodeName, uid: `u-${nodeName}`, ...open, ...parts };
}

export function inCluster(...nodes: readonly KubeNode[]): KubeNodes {
  return { byName: new Map(nodes.map((node) => [node.name, node])), known: true };
}

export const holder = { owner: { kind: "job", id: "j" }, reservationId: "1" } as const;

/** Builds a machine of pool `a`. */
export function buildMachine(
  nodeName: string,
  standing: MachineStanding,
  held?: Machine["holder"],
  parts: Partial<Machine> = {},
): Machine {
  return {
    node: `k-${nodeName}`,
    pool: "a",
    standing,
    toleratedStanding: standing,
    taints: [],
    cordoned: standing === "CORDONED",
    holder: held,
    sharedHolders: [],
    allocatable: new Map(),
    free: new Map(),
    ...parts,
  };
}

export function inLedger(...machines: readonly Machine[]): Machines {
  return { byNode: new Map(machines.map((machine) => [machine.node, machine])), complete: true };
}

export function buildPod(name: string, parts: Partial<PodOnNode> = {}): PodOnNode {
  return { namespace: "default", name, uid: `u-${name}`, owner: undefined, deleting: false, ...parts };
}
