import type { V1ContainerState, V1ContainerStatus, V1Pod, V1PodStatus } from "@kubernetes/client-node";
import type { PodShape, SessionShape } from "@muster/chaos/plan-shapes";
import { labels } from "@muster/proto";
import type { Cluster, Quantities } from "./cluster.ts";
import { hasRoom } from "./pod-room.ts";
import type { VirtualTime } from "./virtual-time.ts";
import { drawDelayMs, type FaultRisks } from "./fault-risks.ts";

/** A machine that runs pods while it is on. */
type Machine = {
  readonly name: string;
  readonly pool: string;
  readonly allocatable: Quantities | undefined;
  off: boolean;
};

/** The observable behaviour of the scheduler, the kubelets and the node controller. */
export type Kubelets = {
  addNode(name: string, pool: string, allocatable?: Quantities): void;
  /** Turns the machine off; its node becomes NotReady later. */
  turnOff(name: string): void;
  /** Removes the node object, and its pods later. */
  forget(name: string): void;
  turnOn(name: string): void;
  readonly machines: ReadonlyMap<string, Machine>;
};

const NOT_READY_AFTER_MS = 40_000;
/** Kubernetes collects the pods of a missing node after this time. */
const COLLECTED_AFTER_MS = 40_000;
const IGNORES_TERM_MS = 10_000;
const SCHEDULE_RETRY_MS = 500;
const POWER_FAILURE = 137;

export function makeKubelets(
  time: VirtualTime,
  weather: FaultRisks,
  cluster: Cluster,
  shapes: ReadonlyMap<string, SessionShape>,
): Kubelets {
  const machines = new Map<string, Machine>();
  const after = (ms: number, run: () => void): void => void time.after(ms, undefined, run);
  const isOn = (node: string): boolean => machines.get(node)?.off === false;

  const schedule = (name: string, uid: string): void => {
    const pod = cluster.pods.get(name);
    if (pod?.metadata?.uid !== uid || (pod.spec?.nodeName ?? "") !== "") return;
    // Removing its last gate schedules it.
    if (isGated(pod)) return;
    const node = requiredNode(pod);
    const isReady = cluster.nodes.get(node)?.status?.conditions?.[0]?.status === "True";
    if (!isReady || !mayPlace(cluster, pod, node)) {
      after(SCHEDULE_RETRY_MS, () => schedule(name, uid));
      return;
    }
    cluster.updatePod(name, uid, (now) => ({ ...now, spec: { containers: [], ...now.spec, nodeName: node } }));
    begin(name, uid, node);
  };

  const become = (name: string, uid: string, node: string, status: V1PodStatus): void => {
    if (isOn(node) && !isOver(cluster.pods.get(name)))
      cluster.updatePod(name, uid, (pod) => ({ ...pod, status: { ...pod.status, ...status } }));
  };

  const begin = (name: string, uid: string, node: string): void => {
    const { shape, pod } = findShape(cluster.pods.get(name), shapes);
    if (shape === undefined || pod === undefined) return;
    const ip = `10.0.0.${(machines.size * 7 + name.length) % 250}`;
    if (pod.imageMissing) {
      after(pod.startMs + drawDelayMs(weather), () => {
        become(name, uid, node, waiting("ImagePullBackOff"));
      });
      return;
    }
    const exit = (code: number, message: string): void => {
      become(name, uid, node, ended(code, ip, message));
      if (cluster.pods.get(name)?.metadata?.deletionTimestamp !== undefined) cluster.removePod(name, uid);
    };
    after(pod.startMs + drawDelayMs(weather), () => {
      if (cluster.pods.get(name)?.metadata?.deletionTimestamp !== undefined) return;
      become(name, uid, node, started(ip, pod.readyMs === undefined));
      if (pod.readyMs !== undefined) after(pod.readyMs, () => become(name, uid, node, started(ip, true)));
      const { ends } = pod;
      const result = pod.kind === "driver" ? JSON.stringify({ session: shape.name }) : "";
      if (ends !== undefined) after(ends.afterMs, () => exit(ends.code, result));
    });
  };

  const end = (name: string, uid: string, node: string): void => {
    const { pod } = findShape(cluster.pods.get(name), shapes);
    const ms = isOver(cluster.pods.get(name)) ? 0 : (pod?.termMs ?? IGNORES_TERM_MS);
    after(ms + drawDelayMs(weather), () => {
      if (isOn(node)) cluster.removePod(name, uid);
    });
  };

  cluster.listeners.add(({ kind, name, before, after: now }) => {
    if (kind !== "pods" || now?.metadata?.uid === undefined) return;
    const { uid, deletionTimestamp } = now.metadata;
    const isUngated = before === undefined ? !isGated(now) : isGated(before) && !isGated(now);
    if (isUngated) after(drawDelayMs(weather), () => schedule(name, uid));
    if (deletionTimestamp !== undefined && before?.metadata?.deletionTimestamp === undefined)
      end(name, uid, getNodeName(now));
  });

  return { machines, ...makePower({ cluster, machines, after, become }) };
}

type Power = {
  readonly cluster: Cluster;
  readonly machines: Map<string, Machine>;
  readonly after: (ms: number, run: () => void) => void;
  readonly become: (name: string, uid: string, node: string, status: V1PodStatus) => void;
};

/** Adds machines, turns them off and on, and removes their nodes. */
function makePower({ cluster, machines, after, become }: Power): Omit<Kubelets, "machines"> {
  const podsOn = (node: string): V1Pod[] => [...cluster.pods.values()].filter((pod) => getNodeName(pod) === node);
  return {
    addNode: (name, pool, allocatable) => {
      machines.set(name, { name, pool, allocatable, off: false });
      cluster.putNode(name, pool, true, allocatable);
    },
    turnOff: (name) => {
      const machine = machines.get(name);
      if (machine === undefined || machine.off) return;
      machine.off = true;
      after(NOT_READY_AFTER_MS, () => {
        if (machine.off && cluster.nodes.has(name)) cluster.putNode(name, machine.pool, false, machine.allocatable);
      });
    },
    forget: (name) => {
      cluster.removeNode(name);
      after(COLLECTED_AFTER_MS, () => {
        if (cluster.nodes.has(name)) return;
        for (const { metadata } of podsOn(name)) cluster.removePod(metadata?.name ?? "", metadata?.uid ?? "");
      });
    },
    turnOn: (name) => {
      const machine = machines.get(name);
      if (machine?.off !== true) return;
      machine.off = false;
      cluster.putNode(name, machine.pool, true, machine.allocatable);
      // The power failure ended its pods.
      for (const pod of podsOn(name)) {
        const { name: podName = "", uid = "", deletionTimestamp } = pod.metadata ?? {};
        if (deletionTimestamp !== undefined) cluster.removePod(podName, uid);
        else become(podName, uid, name, ended(POWER_FAILURE, pod.status?.podIP ?? "", ""));
      }
    },
  };
}

/**
 * A pod needs a node with the labels that it selects. An exclusive pod has its machine to itself among the pods of Muster. A node with sizes also needs room
 * for the pod.
 */
function mayPlace(cluster: Cluster, pod: V1Pod, node: string): boolean {
  const nodeLabels = cluster.nodes.get(node)?.metadata?.labels;
  if (Object.entries(pod.spec?.nodeSelector ?? {}).some(([key, value]) => nodeLabels?.[key] !== value)) return false;
  const present = [...cluster.pods.values()].filter((each) => getNodeName(each) === node && !isOver(each));
  const isAlone = !present.some((each) => getOwner(each) !== "" && (isExclusive(each) || isExclusive(pod)));
  const allocatable = cluster.nodes.get(node)?.status?.allocatable;
  return isAlone && (allocatable === undefined || hasRoom(allocatable, present, pod));
}

export function getOwner({ metadata }: Pick<V1Pod, "metadata">): string {
  return metadata?.labels?.[labels.owner] ?? "";
}

export function isExclusive({ metadata }: Pick<V1Pod, "metadata">): boolean {
  return metadata?.labels?.[labels.exclusive] === "true";
}

/** The scheduler does not place a pod with a scheduling gate. */
export function isGated({ spec }: { readonly spec?: unknown }): boolean {
  const gates =
    typeof spec === "object" && spec !== null && "schedulingGates" in spec ? spec.schedulingGates : undefined;
  return Array.isArray(gates) && gates.length > 0;
}

function requiredNode(pod: V1Pod): string {
  const required = pod.spec?.affinity?.nodeAffinity?.requiredDuringSchedulingIgnoredDuringExecution;
  return required?.nodeSelectorTerms[0]?.matchFields?.[0]?.values?.[0] ?? "";
}

export function getNodeName(object: { readonly spec?: unknown }): string {
  const { spec } = object;
  const named = typeof spec === "object" && spec !== null && "nodeName" in spec ? spec.nodeName : "";
  return typeof named === "string" ? named : "";
}

export function isOver(pod: V1Pod | undefined): boolean {
  const phase = pod?.status?.phase;
  return phase === "Succeeded" || phase === "Failed";
}

function findShape(
  pod: V1Pod | undefined,
  shapes: ReadonlyMap<string, SessionShape>,
): { readonly shape: SessionShape | undefined; readonly pod: PodShape | undefined } {
  const own = pod?.metadata?.labels ?? {};
  const shape = shapes.get(own[labels.owner] ?? "");
  return { shape, pod: shape?.pods.find(({ name }) => name === own[labels.component]) };
}

function container(state: V1ContainerState, ready: boolean): V1ContainerStatus[] {
  return [{ name: "main", image: "", imageID: "", restartCount: 0, ready, state }];
}

function waiting(reason: string): V1PodStatus {
  return { phase: "Pending", containerStatuses: container({ waiting: { reason } }, false) };
}

function started(podIP: string, ready: boolean): V1PodStatus {
  const conditions = [{ type: "Ready", status: ready ? "True" : "False" }];
  return { phase: "Running", podIP, conditions, containerStatuses: container({ running: {} }, ready) };
}

function ended(exitCode: number, podIP: string, message: string): V1PodStatus {
  const terminated = { exitCode, ...(message === "" ? {} : { message }) };
  return {
    phase: exitCode === 0 ? "Succeeded" : "Failed",
    podIP,
    conditions: [{ type: "Ready", status: "False" }],
    containerStatuses: container({ terminated }, false),
  };
}
