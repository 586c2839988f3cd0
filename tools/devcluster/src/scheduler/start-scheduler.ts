import { setImmediate as turn } from "node:timers/promises";
import type { KubeConfig, V1Namespace, V1Node, V1Pod } from "@kubernetes/client-node";
import { type Informer, openInformer, type KubeCalls, type KubeObject } from "@muster/kube";
import { type ClusterApi, makeRemoteApi } from "../cluster-api.ts";
import { type ReconcileLoop, makeReconcileLoop } from "../reconcile-loop.ts";
import { recordEvent } from "../record-event.ts";
import { unlessGone } from "../unless-gone.ts";
import { withoutManagedFields } from "../without-managed-fields.ts";
import { ClusterState } from "./cluster-state.ts";
import { isAwaitingPlacement } from "./decide-placement.ts";
import { type SchedulingDeps, runSchedulingPass } from "./scheduling-pass.ts";
import { SchedulingQueue } from "./scheduling-queue.ts";

export type SchedulerOptions = {
  readonly kubeconfig: KubeConfig;
  /** Default: over HTTP, with the kubeconfig. */
  readonly api?: ClusterApi;
  readonly now?: () => number;
  /** Called with every failure; the scheduler continues. */
  readonly onError?: (error: unknown, doing: string) => void;
};

const CALL_TIMEOUT_MS = 15_000;
const TICK_MS = 100;
const COMPONENT = "default-scheduler";

/**
 * Starts a scheduler for pods that name none or `default-scheduler`. Resolves once pods and nodes are known. Disposal ends it, and keeps every binding.
 */
export async function startScheduler(options: SchedulerOptions): Promise<AsyncDisposable> {
  const { kubeconfig, api = makeRemoteApi(kubeconfig), onError = () => undefined, now = Date.now } = options;
  await using started = new AsyncDisposableStack();
  const calls = started.use(api.calls({ timeoutMs: CALL_TIMEOUT_MS }));
  const state = new ClusterState();
  const queue = new SchedulingQueue();
  const deps: SchedulingDeps = { now, state, queue, onError, ...schedulerApi(calls, onError) };
  const underWay = new Set<Promise<void>>();
  started.defer(() => Promise.all(underWay).then(() => undefined));
  const loop: ReconcileLoop = started.use(
    makeReconcileLoop({
      pass: async () => {
        // The report of a decision does not delay the next decisions.
        const acts = runSchedulingPass(deps).finally(() => underWay.delete(acts));
        underWay.add(acts);
        await turn();
        if (queue.nextAtMs() <= now()) loop.poke();
      },
      onError: (error) => onError(error, "scheduling"),
    }),
  );
  const follow = <Kind extends KubeObject>(
    plural: string,
    changed: (before: Kind | undefined, after: Kind | undefined) => void,
  ): Informer<Kind> => {
    const source = started.use(
      openInformer<Kind, Kind>({
        source: api.listWatch<Kind>(`/api/v1/${plural}`),
        project: withoutManagedFields,
        onError: (error) => onError(error, `watching ${plural}`),
      }),
    );
    source.onChange(({ before, after }) => {
      changed(before, after);
      loop.poke();
    });
    return source;
  };
  const followed = [
    follow<V1Namespace>("namespaces", (before, after) => {
      const name = (after ?? before)?.metadata?.name ?? "";
      state.setNamespace(name, after === undefined ? undefined : (after.metadata?.labels ?? {}));
    }),
    follow<V1Node>("nodes", (before, after) => {
      if (after === undefined) state.removeNode(before?.metadata?.name ?? "");
      else state.setNode(after);
      // A heartbeat frees no resources.
      if (relevant(before) !== relevant(after)) queue.changed();
    }),
    follow<V1Pod>("pods", (before, after) => podChanged({ state, queue, nowMs: now() }, before, after)),
  ];
  await Promise.all(followed.map((each) => each.synced));
  const ticker = setInterval(() => {
    if (queue.nextAtMs() <= now()) loop.poke();
  }, TICK_MS);
  started.defer(() => clearInterval(ticker));
  loop.poke();
  return started.move();
}

function podChanged(
  { state, queue, nowMs }: { readonly state: ClusterState; readonly queue: SchedulingQueue; readonly nowMs: number },
  before: V1Pod | undefined,
  after: V1Pod | undefined,
): void {
  const uid = (after ?? before)?.metadata?.uid ?? "";
  if (after !== undefined && isAwaitingPlacement(after)) {
    // The pod was just bound, and this event is older.
    if (queue.has(uid) || state.nodeOf(uid) === undefined) queue.set(after, nowMs);
    return;
  }
  queue.delete(uid);
  const had = state.nodeOf(uid);
  if (after === undefined) state.removePod(uid);
  else state.setPod(after);
  // A removed pod frees resources.
  if (had !== state.nodeOf(uid)) queue.changed();
}

function schedulerApi(
  calls: KubeCalls,
  onError: (error: unknown, doing: string) => void,
): Pick<SchedulingDeps, "bind" | "saveCondition" | "record"> {
  const podsOf = (namespace: string) => ({ apiVersion: "v1", plural: "pods", namespace });
  return {
    bind: (pod, node) => {
      const { name = "", namespace = "", uid = "" } = pod.metadata ?? {};
      const binding = {
        apiVersion: "v1",
        kind: "Binding",
        metadata: { name, namespace, uid },
        target: { apiVersion: "v1", kind: "Node", name: node },
      };
      return unlessChanged(calls.create(podsOf(namespace), binding, { subresource: "binding" }));
    },
    saveCondition: (pod, condition) => {
      const { name = "", namespace = "", uid } = pod.metadata ?? {};
      const body = { metadata: { uid }, status: { conditions: [condition] } };
      const patch = { kind: "strategic", body } as const;
      return unlessChanged(calls.patch(podsOf(namespace), name, patch, { subresource: "status" }));
    },
    record: async (pod, event) => {
      const { name = "", namespace = "", uid = "" } = pod.metadata ?? {};
      try {
        await recordEvent(calls, { component: COMPONENT }, { kind: "Pod", name, namespace, uid }, event);
      } catch (error) {
        // The namespace may be terminating; the decision stands.
        onError(error, `recording ${event.reason}`);
      }
    },
  };
}

/** A changed or deleted pod is no failure: the cache reports it again. */
async function unlessChanged(call: Promise<unknown>): Promise<boolean> {
  const done = call.then(() => true);
  return (await unlessGone(done)) ?? false;
}

/** The fields of a node that decide the placement of pods. */
function relevant(node: V1Node | undefined): string {
  if (node === undefined) return "";
  const ready = node.status?.conditions?.find((each) => each.type === "Ready")?.status;
  return JSON.stringify([node.metadata?.labels, node.spec, node.status?.allocatable, ready]);
}
