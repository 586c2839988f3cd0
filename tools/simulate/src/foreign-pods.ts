import type { V1Pod } from "@kubernetes/client-node";
import { makeRandom, type Random } from "@muster/chaos/random";
import type { Quantities } from "./cluster.ts";
import { isOver, getNodeName } from "./kubelets.ts";
import { drawRequests, GPU } from "./part-owners.ts";
import { hasRoom } from "./pod-room.ts";
import { countFault } from "./fault-risks.ts";
import type { World } from "./world.ts";

/** Pods that Muster has not created. */
export type ForeignPods = {
  /** Uids of those that exist since the start. */
  readonly residents: ReadonlySet<string>;
  /** Deletes all of them, except the pods of the DaemonSet. */
  end(): void;
};

export type ForeignOptions = {
  readonly seed: number;
  /** No foreign pod is created after this time. */
  readonly untilMs: number;
  /** Nodes that are granted now. */
  readonly grantedNodes: () => readonly string[];
};

const EVERY_MS = { min: 100, max: 2500 };
const LIFE_MS = { min: 200, max: 40_000 };
const RESIDENT_SHARE = 0.3;
const AGENT_REQUESTS: Quantities = { cpu: "250m", memory: "128Mi" };
const AGENT_BACK_MS = 500;

/** The allocatable amounts of a machine: every fourth one of a pool has GPUs. */
export function getSize(index: number): Quantities {
  return { cpu: "4", memory: "8Gi", pods: "12", ...(index % 4 === 3 && { [GPU]: "4" }) };
}

/** Runs a pod of a DaemonSet on each node, and foreign pods that appear, end and disappear on free and on granted nodes. */
export function startForeignPods(world: World, { seed, untilMs, grantedNodes }: ForeignOptions): ForeignPods {
  const { time, cluster } = world;
  const random = makeRandom(seed, "foreign");
  const residents = new Set<string>();
  const living = new Map<string, string>();
  let count = 0;
  keepAgents(world);
  const create = (node: string): V1Pod | undefined => {
    const [known, present] = [cluster.nodes.get(node), listPodsOnNode(world, node)];
    const pod = buildForeign(`foreign-${count + 1}`, node, drawRequests(random, random.chance(0.1)));
    const allocatable = known?.status?.allocatable;
    if (allocatable === undefined || !hasRoom(allocatable, present, pod)) return undefined;
    count += 1;
    const made = cluster.createPod(pod);
    living.set(made.metadata?.name ?? "", made.metadata?.uid ?? "");
    countFault(world.weather, "foreign pod");
    return made;
  };
  const end = (name: string): void => {
    const uid = living.get(name) ?? "";
    living.delete(name);
    cluster.deletePod(name, uid);
  };
  const endLater = (pod: V1Pod | undefined): void => {
    const name = pod?.metadata?.name;
    if (name !== undefined) time.after(random.integer(LIFE_MS.min, LIFE_MS.max), undefined, () => end(name));
  };
  for (const node of [...cluster.nodes.keys()]) {
    if (!random.chance(RESIDENT_SHARE)) continue;
    const made = create(node);
    if (made?.metadata?.uid !== undefined) residents.add(made.metadata.uid);
    if (random.chance(0.5)) endLater(made);
  }
  const act = (): void => {
    if (time.nowMs >= untilMs) return;
    const node = pickNode(random, [...cluster.nodes.keys()], grantedNodes());
    const isGranted = node !== undefined && grantedNodes().includes(node);
    const made = node === undefined ? undefined : create(node);
    if (made !== undefined && isGranted) countFault(world.weather, "foreign pod on a granted machine");
    endLater(made);
    time.after(random.integer(EVERY_MS.min, EVERY_MS.max), undefined, act);
  };
  time.after(random.integer(EVERY_MS.min, EVERY_MS.max), undefined, act);
  return { residents, end: () => [...living.keys()].forEach(end) };
}

function pickNode(random: Random, all: readonly string[], granted: readonly string[]): string | undefined {
  const [first, ...rest] = random.chance(0.5) && granted.length > 0 ? granted : all;
  return first === undefined ? undefined : random.pick([first, ...rest]);
}

/** Creates the pod of the DaemonSet on each node that has none, like its controller. */
function keepAgents({ cluster, time }: World): void {
  const ensure = (node: string): void => {
    const name = `agent-${node}`;
    const present = cluster.pods.get(name);
    if (!cluster.nodes.has(node) || (present !== undefined && !isOver(present))) return;
    if (present !== undefined) cluster.removePod(name, present.metadata?.uid ?? "");
    const owner = { apiVersion: "apps/v1", kind: "DaemonSet", name: "agent", uid: "agent", controller: true };
    const pod = buildForeign(name, node, AGENT_REQUESTS);
    cluster.createPod({ ...pod, metadata: { ...pod.metadata, ownerReferences: [owner] } });
  };
  for (const node of cluster.nodes.keys()) ensure(node);
  cluster.listeners.add(({ kind, name, before, after }) => {
    const object = after ?? before;
    const node = kind === "nodes" ? name : name.startsWith("agent-") && object !== undefined ? getNodeName(object) : "";
    if (node !== "") time.after(AGENT_BACK_MS, undefined, () => ensure(node));
  });
}

export function isAgent({ metadata }: V1Pod): boolean {
  return metadata?.ownerReferences?.some(({ kind }) => kind === "DaemonSet") ?? false;
}

export function listPodsOnNode({ cluster }: Pick<World, "cluster">, node: string): V1Pod[] {
  return [...cluster.pods.values()].filter((pod) => getNodeName(pod) === node && !isOver(pod));
}

function buildForeign(name: string, node: string, requests: Quantities): V1Pod {
  return {
    metadata: { name, namespace: "apps" },
    spec: { nodeName: node, containers: [{ name: "main", resources: { requests: { ...requests } } }] },
  };
}
