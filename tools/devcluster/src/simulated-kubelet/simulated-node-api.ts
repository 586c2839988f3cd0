import type { V1Node } from "@kubernetes/client-node";
import { type KubeCalls, unlessFault, unlessMissing } from "@muster/kube";
import { buildNode, buildNodeStatus, nodeDiffers, type NodeFacts } from "../kubelet/build-node.ts";

/** What a simulated kubelet tells the API server about its node. */
export type SimulatedNodeApi = {
  /** Makes the node known and ready, whatever was there before. */
  readonly register: (facts: NodeFacts) => Promise<void>;
  /** Tells the whole status again; nothing when somebody has deleted the node. */
  readonly report: (facts: NodeFacts, state: { readonly ready: boolean }) => Promise<void>;
  readonly renewLease: (name: string) => Promise<void>;
  /** No error when it is gone already. */
  readonly remove: (name: string) => Promise<void>;
};

const LEASES = { apiVersion: "coordination.k8s.io/v1", plural: "leases", namespace: "kube-node-lease" };
const NODES = { apiVersion: "v1", plural: "nodes" };
const LEASE_SECONDS = 40;

export function simulatedNodeApi(calls: KubeCalls, now: () => number): SimulatedNodeApi {
  const register = async (facts: NodeFacts): Promise<void> => {
    const fresh = buildNode(facts, undefined);
    const body = { ...fresh, status: buildNodeStatus(facts, fresh, { ready: true, nowMs: now() }) };
    const created = await unlessFault(calls.create(NODES, body), "already_exists");
    const node = created ?? (await calls.get<V1Node>(NODES, facts.name));
    // Admission taints a node at its creation, so that what was just created may need a change as well.
    if (nodeDiffers(facts, node)) await calls.replace(NODES, buildNode(facts, node));
    if (created === undefined || !isReady(node)) await report(facts, { ready: true });
    await renewLease(facts.name);
  };

  const report = async (facts: NodeFacts, { ready }: { readonly ready: boolean }): Promise<void> => {
    const node = await unlessMissing(calls.get<V1Node>(NODES, facts.name));
    if (node === undefined) return;
    const body = { status: buildNodeStatus(facts, node, { ready, nowMs: now() }) };
    await unlessMissing(calls.patch(NODES, facts.name, { kind: "strategic", body }, { subresource: "status" }));
  };

  const renewLease = async (name: string): Promise<void> => {
    const renewTime = new Date(now()).toISOString().replace("Z", "000Z");
    const body = { metadata: { name }, spec: { renewTime } };
    const renewed = await unlessMissing(calls.patch(LEASES, name, { kind: "merge", body }));
    if (renewed !== undefined) return;
    const spec = { holderIdentity: name, leaseDurationSeconds: LEASE_SECONDS, renewTime };
    await unlessFault(calls.create(LEASES, { metadata: { name }, spec }), "already_exists");
  };

  return {
    register,
    report,
    renewLease,
    remove: async (name) => {
      await unlessMissing(calls.delete(NODES, name));
    },
  };
}

function isReady(node: V1Node): boolean {
  return node.status?.conditions?.some((each) => each.type === "Ready" && each.status === "True") ?? false;
}
