import { CoreV1Api, type V1ContainerState, type V1Pod } from "@kubernetes/client-node";
import { findFault } from "@muster/faults";
import { toKubeFault, loadKube } from "@muster/kube";
import { makeKubeClient } from "@muster/testkit";
import type { TestApiServer } from "@muster/testkit";

const NAMESPACE = "default";
const PASS_MS = 30;

/** A cluster with nodes that only exist in it, and pods that act by the first word of their arguments. */
export type ScriptedCluster = AsyncDisposable & {
  readonly kubeconfig: string;
  readonly api: CoreV1Api;
  /** Names of all bound pods in order; a pod that was created twice is listed twice. */
  readonly bound: readonly string[];
  /** Pods with these names stay in deletion. */
  readonly held: Set<string>;
  /** Waiting pods with these names succeed now. */
  readonly ending: Set<string>;
  /** Pods with these names are not scheduled. */
  readonly unplaced: Set<string>;
};

/**
 * Pods act by their arguments: `serve` (ready, forever), `wait` (ready, until the test ends it), `idle` (runs, never ready), `exit N` (ready briefly, then
 * exits), `flash N` (exits before any watcher can observe it ready), `missing` (the program does not exist), `unpullable` (the image does not exist). Disposing
 * also stops the API server.
 */
export async function openScriptedCluster(
  server: TestApiServer,
  pools: Readonly<Record<string, number>>,
): Promise<ScriptedCluster> {
  const api = makeKubeClient(loadKube(server.kubeconfig), CoreV1Api, { timeoutMs: 60_000 });
  for (const [pool, count] of Object.entries(pools)) {
    for (let index = 0; index < count; index += 1) await addNode(api, `${pool}-${index}`, pool);
  }
  const bound: string[] = [];
  const held = new Set<string>();
  const ending = new Set<string>();
  const unplaced = new Set<string>();
  const stop = new AbortController();
  const running = (async () => {
    while (!stop.signal.aborted) {
      const { items } = await api.listNamespacedPod({ namespace: NAMESPACE });
      for (const pod of items) await step(api, pod, { bound, held, ending, unplaced }).catch(tolerate);
      await new Promise((resolve) => setTimeout(resolve, PASS_MS));
    }
  })();
  return {
    kubeconfig: server.kubeconfig,
    api,
    bound,
    held,
    ending,
    unplaced,
    [Symbol.asyncDispose]: async () => {
      stop.abort();
      await running;
      await server[Symbol.asyncDispose]();
    },
  };
}

async function addNode(api: CoreV1Api, name: string, pool: string): Promise<void> {
  const labels = { pool, "kubernetes.io/hostname": `host-of-${name}` };
  await api.createNode({ body: { metadata: { name, labels } } });
  // A new node has the not-ready taint, which no controller here removes.
  const node = await api.readNode({ name });
  node.spec = { taints: [] };
  await api.replaceNode({ name, body: node });
  const fresh = await api.readNode({ name });
  const nowAt = new Date();
  fresh.status = {
    conditions: [{ type: "Ready", status: "True", lastHeartbeatTime: nowAt, lastTransitionTime: nowAt }],
  };
  await api.replaceNodeStatus({ name, body: fresh });
}

/** Executes one step of a pod's life: bound, ready, ended, removed. */
async function step(
  api: CoreV1Api,
  pod: V1Pod,
  { bound, held, ending, unplaced }: Pick<ScriptedCluster, "held" | "ending" | "unplaced"> & { bound: string[] },
): Promise<void> {
  const name = pod.metadata?.name ?? "";
  const address = { name, namespace: NAMESPACE };
  if (pod.metadata?.deletionTimestamp !== undefined) {
    if (!held.has(name)) await api.deleteNamespacedPod({ ...address, gracePeriodSeconds: 0 });
    return;
  }
  if ((pod.spec?.schedulingGates ?? []).length > 0) return;
  if (pod.spec?.nodeName === undefined) {
    const node = wantedNode(pod);
    if (unplaced.has(name) || !(await takesPods(api, node))) return;
    await api.createNamespacedPodBinding({
      ...address,
      body: { metadata: { name }, target: { kind: "Node", name: node } },
    });
    bound.push(name);
    return;
  }
  const [word, code] = pod.spec.containers[0]?.args ?? [];
  const state = pod.status?.containerStatuses?.[0]?.state;
  if (state?.terminated !== undefined) return;
  if (word === "unpullable") {
    if (state?.waiting === undefined)
      await report(api, pod, { waiting: { reason: "ErrImagePull", message: "no such image" } });
  } else if (word === "wait" && ending.has(name)) {
    await report(api, pod, { terminated: { exitCode: 0, reason: "Completed" } });
  } else if (word === "missing") {
    await report(api, pod, { terminated: { exitCode: 128, reason: "StartError", message: "executable not found" } });
  } else if (word === "flash" || (word === "exit" && state?.running !== undefined)) {
    await report(api, pod, { terminated: { exitCode: Number(code), reason: code === "0" ? "Completed" : "Error" } });
  } else if (state?.running === undefined) {
    await report(api, pod, { running: { startedAt: new Date() } }, word !== "idle");
  }
}

async function takesPods(api: CoreV1Api, name: string): Promise<boolean> {
  const { spec, status } = await api.readNode({ name });
  const isReady = status?.conditions?.some((each) => each.type === "Ready" && each.status === "True") ?? false;
  return isReady && spec?.unschedulable !== true && (spec?.taints ?? []).length === 0;
}

function wantedNode(pod: V1Pod): string {
  const wanted = pod.spec?.affinity?.nodeAffinity?.requiredDuringSchedulingIgnoredDuringExecution;
  return wanted?.nodeSelectorTerms[0]?.matchFields?.[0]?.values?.[0] ?? "";
}

async function report(api: CoreV1Api, pod: V1Pod, state: V1ContainerState, ready = false): Promise<void> {
  const exitCode = state.terminated?.exitCode;
  const phase = state.waiting === undefined ? endOf(exitCode) : "Pending";
  const podIP = `10.1.0.${(Number.parseInt(pod.metadata?.uid?.slice(0, 2) ?? "1", 16) % 250) + 1}`;
  const status = { name: "main", image: "scripted", imageID: "", ready, restartCount: 0, started: ready, state };
  pod.status = {
    phase,
    podIP,
    podIPs: [{ ip: podIP }],
    conditions: [{ type: "Ready", status: ready ? "True" : "False" }],
    containerStatuses: [status],
  };
  await api.replaceNamespacedPodStatus({ name: pod.metadata?.name ?? "", namespace: NAMESPACE, body: pod });
}

function endOf(exitCode: number | undefined): string {
  if (exitCode === undefined) return "Running";
  return exitCode === 0 ? "Succeeded" : "Failed";
}

/** Another writer changed or removed the pod: the next pass sees it. */
function tolerate(error: unknown): void {
  const code = (findFault(error) ?? toKubeFault(error))?.code;
  if (code !== "conflict" && code !== "not_found") throw error;
}
