import type { KubeConfig, V1Lease, V1Node, V1Pod } from "@kubernetes/client-node";
import {
  type Informer,
  openInformer,
  type KubeCalls,
  toKubeFault,
  type KubeObject,
  type KubeResource,
  unlessMissing,
} from "@muster/kube";
import { type ClusterApi, makeRemoteApi } from "../cluster-api.ts";
import { makeReconcileLoop } from "../reconcile-loop.ts";
import { recordEvent } from "../record-event.ts";
import { unlessGone } from "../unless-gone.ts";
import { withoutManagedFields } from "../without-managed-fields.ts";
import { NodeRecords } from "./node-records.ts";
import { type NodeStep, planNodeLifecycle } from "./plan-node-lifecycle.ts";

export type NodeLifecycleOptions = {
  readonly kubeconfig: KubeConfig;
  /** Default: over HTTP, with the kubeconfig. */
  readonly api?: ClusterApi;
  /** A node without a heartbeat for this time is NotReady; default 40000. */
  readonly nodeGraceMs?: number;
  readonly now?: () => number;
  /** Called with every failure; the next pass retries. */
  readonly onError?: (error: unknown, doing: string) => void;
};

const GRACE_MS = 40_000;
/** A pod of a missing node is removed only after this time, because the cache may be stale. */
const ORPHAN_GRACE_MS = 2_000;
const CALL_TIMEOUT_MS = 15_000;
const TICK_MS = 100;
const CONFLICT_PAUSE_MS = 100;
/** After a sleep of this process for this time, no node counts as silent. */
const OWN_SLEEP_MS = 2_000;
const COMPONENT = "node-controller";
const NODES = { apiVersion: "v1", plural: "nodes" };

/**
 * Replaces the node controllers of kube-controller-manager: marks a silent node as NotReady and taints it, removes the taints when it returns, evicts pods that
 * do not tolerate a taint, and removes pods of missing nodes. Silence counts from the observations of this process, so that a late start makes no node late.
 */
export async function startNodeLifecycle(options: NodeLifecycleOptions): Promise<AsyncDisposable> {
  const { kubeconfig, api = makeRemoteApi(kubeconfig), onError = () => undefined, now = Date.now } = options;
  const policy = { graceMs: options.nodeGraceMs ?? GRACE_MS };
  await using started = new AsyncDisposableStack();
  const calls = started.use(api.calls({ timeoutMs: CALL_TIMEOUT_MS }));
  const records = new NodeRecords();
  let dueAtMs = Infinity;
  let isSynced = false;
  const loop = started.use(
    makeReconcileLoop({
      pass: async () => {
        // With an incomplete list of nodes every pod would count as orphaned.
        if (!isSynced) return;
        const nowMs = now();
        const steps = records.facts(nowMs).flatMap((facts) => planNodeLifecycle(facts, policy, nowMs));
        const orphans = records.orphans(nowMs, ORPHAN_GRACE_MS);
        const waits = steps.flatMap((step) => (step.kind === "wait" ? [step.untilMs] : []));
        dueAtMs = Math.min(Infinity, ...waits, ...orphans.map(({ dueAtMs: atMs }) => atMs));
        const due = orphans.filter((orphan) => nowMs >= orphan.dueAtMs).map(({ pod }) => removeOrphan(calls, pod));
        const results = await Promise.allSettled([...steps.map((step) => execute(calls, step, nowMs)), ...due]);
        const failures = results.flatMap((result) => (result.status === "rejected" ? [result.reason as unknown] : []));
        const failed = failures.find((error) => toKubeFault(error)?.code !== "conflict");
        if (failed !== undefined)
          throw failed instanceof Error ? failed : new Error("a step failed", { cause: failed });
        // The cache is stale, and catches up.
        if (failures.length > 0) dueAtMs = Math.min(dueAtMs, nowMs + CONFLICT_PAUSE_MS);
      },
      onError: (error) => onError(error, "taking care of nodes"),
    }),
  );
  const follow = <Kind extends KubeObject>(
    path: string,
    changed: (before: Kind | undefined, after: Kind | undefined) => boolean,
    selector: { readonly fieldSelector?: string } = {},
  ): Informer<Kind> => {
    const source = started.use(
      openInformer<Kind, Kind>({
        source: api.listWatch<Kind>(path, selector),
        project: withoutManagedFields,
        onError: (error) => onError(error, `watching ${path}`),
      }),
    );
    source.onChange(({ before, after }) => {
      if (changed(before, after)) loop.poke();
    });
    return source;
  };
  const followed = [
    follow<V1Node>("/api/v1/nodes", (before, after) => records.nodeChanged(before, after, now())),
    follow<V1Lease>("/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases", (_before, after) => {
      if (after !== undefined) records.leaseRenewed(after.metadata?.name ?? "", now());
      return false;
    }),
    follow<V1Pod>("/api/v1/pods", (before, after) => records.podChanged(before, after), {
      fieldSelector: "spec.nodeName!=",
    }),
  ];
  await Promise.all(followed.map((each) => each.synced));
  isSynced = true;
  loop.poke();
  let tickedAtMs = now();
  const ticker = setInterval(() => {
    const gapMs = now() - tickedAtMs;
    tickedAtMs += gapMs;
    if (gapMs > OWN_SLEEP_MS) records.slept(gapMs);
    if (now() < dueAtMs) return;
    dueAtMs = Infinity;
    loop.poke();
  }, TICK_MS);
  started.defer(() => clearInterval(ticker));
  return started.move();
}

async function execute(calls: KubeCalls, step: NodeStep, nowMs: number): Promise<void> {
  switch (step.kind) {
    case "wait":
      return;
    case "mark-unknown": {
      await unlessGone(patchStatus(calls, NODES, step.node, { status: { conditions: step.conditions } }));
      const involved = { kind: "Node", name: step.node, uid: step.node } as const;
      const message = `Node ${step.node} status is now: NodeNotReady`;
      const event = { type: "Normal", reason: "NodeNotReady", message, atMs: nowMs } as const;
      await recordEvent(calls, { component: COMPONENT }, involved, event);
      return;
    }
    case "set-taints": {
      const { resourceVersion, taints } = step;
      // The whole list is replaced; the resource version protects a taint that another client adds concurrently.
      const body = { metadata: { resourceVersion }, spec: { taints } };
      await unlessMissing(calls.patch(NODES, step.node, { kind: "merge", body }));
      return;
    }
    case "mark-pod-unready": {
      const lastTransitionTime = new Date(nowMs);
      const conditions = [{ type: "Ready", status: "False", reason: "NodeNotReady", lastTransitionTime }];
      const { name = "", uid } = step.pod.metadata ?? {};
      await unlessGone(
        patchStatus(calls, buildPodsResource(step.pod), name, { metadata: { uid }, status: { conditions } }),
      );
      return;
    }
    case "evict": {
      const { name = "", namespace = "", uid = "" } = step.pod.metadata ?? {};
      const message = `Marking for deletion Pod ${namespace}/${name}`;
      const involved = { kind: "Pod", name, namespace, uid } as const;
      await unlessGone(calls.delete(buildPodsResource(step.pod), name, { preconditions: { uid } }));
      const event = { type: "Normal", reason: "TaintManagerEviction", message, atMs: nowMs } as const;
      await recordEvent(calls, { component: "taint-eviction-controller" }, involved, event);
    }
  }
}

/** Without a kubelet no graceful end of the pod is possible. */
async function removeOrphan(calls: KubeCalls, pod: V1Pod): Promise<void> {
  const node = await unlessMissing(calls.get(NODES, pod.spec?.nodeName ?? ""));
  if (node !== undefined) return;
  const { name = "", uid = "" } = pod.metadata ?? {};
  const isOver = pod.status?.phase === "Succeeded" || pod.status?.phase === "Failed";
  if (!isOver) {
    await unlessGone(
      patchStatus(calls, buildPodsResource(pod), name, { metadata: { uid }, status: { phase: "Failed" } }),
    );
  }
  await unlessGone(calls.delete(buildPodsResource(pod), name, { gracePeriodSeconds: 0, preconditions: { uid } }));
}

function buildPodsResource(pod: V1Pod): KubeResource {
  return { apiVersion: "v1", plural: "pods", namespace: pod.metadata?.namespace ?? "" };
}

function patchStatus(calls: KubeCalls, resource: KubeResource, name: string, body: object): Promise<KubeObject> {
  return calls.patch(resource, name, { kind: "strategic", body }, { subresource: "status" });
}
