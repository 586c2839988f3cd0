import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { V1Node, V1Pod } from "@kubernetes/client-node";
import { startApiServer } from "@muster/devcluster";
import { makeKubeCalls, toKubeFault, loadKube, type KubeCalls } from "@muster/kube";
import { annotations } from "@muster/proto";
import { startKubeApiServer, findKubeAssets, until } from "@muster/testkit";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { makeNodeCalls } from "../src/adapters/node-calls.ts";

const assets = findKubeAssets();
const NODES = { apiVersion: "v1", plural: "nodes" };
const PODS = { apiVersion: "v1", plural: "pods", namespace: "default" };

async function embedded(stack: AsyncDisposableStack): Promise<string> {
  const directory = await mkdtemp(join(tmpdir(), "muster-node-calls-"));
  stack.defer(() => rm(directory, { recursive: true, force: true }));
  return stack.use(await startApiServer({ directory })).kubeconfig;
}

const servers = [
  { title: "the embedded API server", skip: false, start: embedded },
  {
    title: assets.found ? "a real kube-apiserver" : `a real kube-apiserver (skipped: ${assets.reason})`,
    skip: !assets.found,
    start: async (stack: AsyncDisposableStack) => stack.use(await startKubeApiServer()).kubeconfig,
  },
];

describe.each(servers)("$title", ({ skip, start }) => {
  const stack = new AsyncDisposableStack();
  let calls: KubeCalls;
  let nodes: ReturnType<typeof makeNodeCalls>;

  beforeAll(async () => {
    if (skip) return;
    calls = stack.use(makeKubeCalls(loadKube(await start(stack))));
    nodes = makeNodeCalls(calls, 60_000);
  });
  afterAll(() => stack.disposeAsync());

  const aNode = (name: string, spec: V1Node["spec"] = {}) =>
    calls.create<V1Node>(NODES, { apiVersion: "v1", kind: "Node", metadata: { name }, spec });
  const uidOf = async (name: string) => (await calls.get<V1Node>(NODES, name)).metadata?.uid ?? "";
  const isCordoned = async (name: string) => (await calls.get<V1Node>(NODES, name)).spec?.unschedulable === true;

  it.skipIf(skip)("cordons a node with its reason, and removes the cordon", async () => {
    await aNode("own");
    await nodes.cordon("own", "IDLE");
    await nodes.cordon("own", "IDLE");
    expect(await isCordoned("own")).toBe(true);
    expect((await calls.get<V1Node>(NODES, "own")).metadata?.annotations?.[annotations.cordoned]).toBe("IDLE");
    await nodes.uncordon("own");
    expect(await isCordoned("own")).toBe(false);
    expect((await calls.get<V1Node>(NODES, "own")).metadata?.annotations?.[annotations.cordoned]).toBeUndefined();
  });

  it.skipIf(skip)("keeps a cordon of another client", async () => {
    await aNode("foreign", { unschedulable: true });
    await nodes.cordon("foreign", "IDLE");
    await nodes.uncordon("foreign");
    expect(await isCordoned("foreign")).toBe(true);
  });

  it.skipIf(skip)("deletes a node once, and reports no error for a missing one", async () => {
    await aNode("short-lived");
    const kubeNode = { name: "short-lived", uid: await uidOf("short-lived") };
    await nodes.deleteNode({ ...kubeNode, uid: "another" });
    expect(await uidOf("short-lived")).toBe(kubeNode.uid);
    await nodes.deleteNode(kubeNode);
    await nodes.deleteNode(kubeNode);
    await nodes.cordon("short-lived", "IDLE");
    await nodes.uncordon("short-lived");
    const gone = await calls.get(NODES, "short-lived").catch((error: unknown) => toKubeFault(error)?.code);
    expect(gone).toBe("not_found");
  });

  it.skipIf(skip)("evicts the intended pod, and not another one of its name", async () => {
    await aNode("busy");
    const pod: V1Pod = {
      apiVersion: "v1",
      kind: "Pod",
      metadata: { name: "evicted", namespace: "default" },
      spec: { nodeName: "busy", terminationGracePeriodSeconds: 0, containers: [{ name: "c", image: "i" }] },
    };
    const uid = (await calls.create<V1Pod>(PODS, pod)).metadata?.uid ?? "";
    const of = { namespace: "default", name: "evicted" };
    expect(await nodes.evict({ ...of, uid: "00000000-0000-0000-0000-000000000000" })).toBeUndefined();
    expect((await calls.get<V1Pod>(PODS, "evicted")).metadata?.deletionTimestamp).toBeUndefined();
    expect(await nodes.evict({ ...of, uid })).toBeUndefined();
    await until("the pod is gone or being deleted", async () => {
      const { items } = await calls.list<V1Pod>(PODS);
      return items.every(({ metadata }) => metadata?.name !== "evicted" || metadata.deletionTimestamp !== undefined);
    });
    expect(await nodes.evict({ ...of, uid })).toBeUndefined();
  });

  it.skipIf(skip)("evicts no pod that a disruption budget protects, and names the budget", async () => {
    const labels = { app: "kept" };
    const budgets = { apiVersion: "policy/v1", plural: "poddisruptionbudgets", namespace: "default" };
    await calls.create(budgets, {
      apiVersion: "policy/v1",
      kind: "PodDisruptionBudget",
      metadata: { name: "kept", namespace: "default" },
      ...{ spec: { maxUnavailable: 0, selector: { matchLabels: labels } } },
    });
    const pod: V1Pod = {
      apiVersion: "v1",
      kind: "Pod",
      metadata: { name: "kept", namespace: "default", labels },
      spec: { nodeName: "busy", containers: [{ name: "c", image: "i" }] },
    };
    const uid = (await calls.create<V1Pod>(PODS, pod)).metadata?.uid ?? "";
    const status = { phase: "Running", conditions: [{ type: "Ready", status: "True" }] };
    await calls.patch(PODS, "kept", { kind: "merge", body: { status } }, { subresource: "status" });
    expect(await nodes.evict({ namespace: "default", name: "kept", uid })).toMatch(/^The disruption budget kept /);
    expect((await calls.get<V1Pod>(PODS, "kept")).metadata?.deletionTimestamp).toBeUndefined();
  });
});
