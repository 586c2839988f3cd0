import { CoreV1Api, type KubeConfig, type V1Node, type V1Pod } from "@kubernetes/client-node";
import { informer, kubeClient, kubeFault, listWatch } from "@muster/kube";
import { reconcileLoop } from "../reconcile-loop.ts";
import { type PodEvent, schedulingPass } from "./scheduling-pass.ts";

export type SchedulerOptions = {
  readonly kubeconfig: KubeConfig;
  readonly now?: () => number;
  /** Told about every failure; the scheduler goes on by itself. */
  readonly onError?: (error: unknown, doing: string) => void;
};

const CALL_TIMEOUT_MS = 15_000;
const COMPONENT = "default-scheduler";

/** Starts placing the pods that name no scheduler or `default-scheduler`. Resolves once pods and nodes are known; disposing ends it, and leaves every binding as it is. */
export async function startScheduler(options: SchedulerOptions): Promise<AsyncDisposable> {
  const { kubeconfig, onError = () => undefined } = options;
  await using started = new AsyncDisposableStack();
  const pods = started.use(
    informer<V1Pod, V1Pod>({
      source: listWatch<V1Pod>(kubeconfig, "/api/v1/pods"),
      project: withoutManagedFields,
      onError: (error) => onError(error, "watching pods"),
    }),
  );
  const nodes = started.use(
    informer<V1Node, V1Node>({
      source: listWatch<V1Node>(kubeconfig, "/api/v1/nodes"),
      project: withoutManagedFields,
      onError: (error) => onError(error, "watching nodes"),
    }),
  );
  await Promise.all([pods.synced, nodes.synced]);

  const api = kubeClient(kubeconfig, CoreV1Api, { timeoutMs: CALL_TIMEOUT_MS });
  const pass = schedulingPass({
    now: options.now ?? Date.now,
    pods: () => pods.list(),
    nodes: () => nodes.list(),
    bind: (pod, node) => bind(api, pod, node),
    saveStatus: (pod) => saveStatus(api, pod),
    record: (pod, event) =>
      recordEvent(api, pod, event).catch((error: unknown) => onError(error, `recording ${event.reason}`)),
  });
  const loop = started.use(reconcileLoop({ pass, onError: (error) => onError(error, "scheduling") }));
  for (const source of [pods, nodes]) source.onChange(() => loop.poke());
  loop.poke();
  return started.move();
}

async function bind(api: CoreV1Api, pod: V1Pod, node: string): Promise<boolean> {
  const { name = "", namespace = "", uid = "" } = pod.metadata ?? {};
  return unlessChanged(
    api.createNamespacedPodBinding({
      name,
      namespace,
      body: {
        apiVersion: "v1",
        kind: "Binding",
        metadata: { name, namespace, uid },
        target: { apiVersion: "v1", kind: "Node", name: node },
      },
    }),
  );
}

async function saveStatus(api: CoreV1Api, pod: V1Pod): Promise<boolean> {
  const { name = "", namespace = "" } = pod.metadata ?? {};
  return unlessChanged(
    api.replaceNamespacedPodStatus({ name, namespace, body: { ...pod, apiVersion: "v1", kind: "Pod" } }),
  );
}

/** A pod that changed or went away is seen again through the cache; no failure. */
async function unlessChanged(call: Promise<unknown>): Promise<boolean> {
  try {
    await call;
    return true;
  } catch (error) {
    const code = kubeFault(error)?.code;
    if (code === "conflict" || code === "not_found") return false;
    throw error;
  }
}

async function recordEvent(api: CoreV1Api, pod: V1Pod, event: PodEvent): Promise<void> {
  const { name = "", namespace = "", uid = "" } = pod.metadata ?? {};
  const at = new Date(event.atMs);
  await api.createNamespacedEvent({
    namespace,
    body: {
      metadata: { namespace, generateName: `${name}.` },
      involvedObject: { apiVersion: "v1", kind: "Pod", name, namespace, uid },
      type: event.type,
      reason: event.reason,
      message: event.message,
      source: { component: COMPONENT },
      reportingComponent: COMPONENT,
      reportingInstance: COMPONENT,
      action: event.action,
      firstTimestamp: at,
      lastTimestamp: at,
      count: 1,
    },
  });
}

/** Managed fields are most of an object, and nobody here reads them. */
function withoutManagedFields<Object extends V1Pod | V1Node>(object: Object): Object {
  delete object.metadata?.managedFields;
  return object;
}
