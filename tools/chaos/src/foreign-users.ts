import type { V1Pod } from "@kubernetes/client-node";
import { findFault } from "@muster/faults";
import { toKubeFault, unlessFault, type KubeCalls, type KubeResource } from "@muster/kube";
import { AGENT_REQUESTS, type ForeignPlan, type ForeignPod, type Quantities } from "./domain/plan-foreign.ts";
import { NAMESPACE } from "./job-observer.ts";
import { pause } from "./users.ts";

const SYSTEM_NAMESPACE = "kube-system";
const RETRY_MS = 300;

function buildPodsResource(namespace: string): KubeResource {
  return { apiVersion: "v1", plural: "pods", namespace };
}

/** Creates the pods that stay: one of the system on each node, which is overhead, and the residents. */
export async function startResidents(calls: KubeCalls, plan: ForeignPlan, nodes: readonly string[]): Promise<void> {
  for (const node of nodes) {
    const pod = buildPod(`agent-${node}`, SYSTEM_NAMESPACE, AGENT_REQUESTS, 0);
    await calls.create(buildPodsResource(SYSTEM_NAMESPACE), onNode(pod, node));
  }
  for (const { name, node, requests } of plan.residents)
    await calls.create(buildPodsResource(NAMESPACE), onNode(buildPod(name, NAMESPACE, requests, 0), node));
}

export async function endResidents(calls: KubeCalls, plan: ForeignPlan, stop: AbortSignal): Promise<void> {
  await Promise.all(plan.residents.map(({ name }) => remove(calls, name, stop)));
}

type ForeignDeps = {
  readonly calls: KubeCalls;
  /** Start of the run on the monotonic clock. */
  readonly startedAtMs: number;
  /** Aborted when no further pod may be created. */
  readonly calm: AbortSignal;
  readonly stop: AbortSignal;
};

/** Creates a pod at its time and deletes it later. The scheduler may also place it on granted machines. */
export async function runForeignPod({ calls, startedAtMs, calm, stop }: ForeignDeps, pod: ForeignPod): Promise<void> {
  await pause(startedAtMs + pod.atMs - performance.now(), calm);
  if (calm.aborted) return;
  const manifest = buildPod(pod.name, NAMESPACE, pod.requests, pod.termMs);
  const selector = pod.node === undefined ? {} : { nodeSelector: { "kubernetes.io/hostname": pod.node } };
  const placed = { ...manifest, spec: { ...manifest.spec, ...selector } };
  await untilDone(stop, () => unlessFault(calls.create(buildPodsResource(NAMESPACE), placed), "already_exists"));
  await pause(pod.forMs, calm);
  await remove(calls, pod.name, stop);
}

function remove(calls: KubeCalls, name: string, stop: AbortSignal): Promise<void> {
  return untilDone(stop, () => unlessFault(calls.delete(buildPodsResource(NAMESPACE), name), "not_found"));
}

/** Retries while the API server is unreachable. */
async function untilDone(stop: AbortSignal, call: () => Promise<unknown>): Promise<void> {
  while (!stop.aborted) {
    try {
      await call();
      return;
    } catch (error) {
      if (findFault(error) === undefined && toKubeFault(error) === undefined) throw error;
      await pause(RETRY_MS, stop);
    }
  }
}

function onNode<Pod extends { readonly spec: object }>(pod: Pod, node: string): Pod {
  return { ...pod, spec: { ...pod.spec, nodeName: node } };
}

function buildPod(name: string, namespace: string, requests: Quantities, termMs: number) {
  const command = ["simulate", "--start-ms=0", `--term-ms=${termMs}`];
  return {
    apiVersion: "v1",
    kind: "Pod",
    metadata: { name, namespace },
    spec: {
      terminationGracePeriodSeconds: 5,
      containers: [{ name: "main", image: "chaos", command, resources: { requests: { ...requests } } }],
    },
  } satisfies V1Pod;
}
