import type { V1Node } from "@kubernetes/client-node";
import { type CallOptions, type KubeCalls, unlessFault, unlessMissing } from "@muster/kube";
import { buildNode, buildNodeStatus, isNodeDifferent, type NodeFacts } from "./build-node.ts";

/** A kubelet's calls for its node in the API server. */
export type NodeApi = {
  /** Creates or adopts the node, and reports it as ready. */
  readonly register: (facts: NodeFacts) => Promise<void>;
  /** Reports the whole status. A node that was deleted stays deleted. */
  readonly report: (facts: NodeFacts, state: { readonly ready: boolean }, options?: CallOptions) => Promise<void>;
  /** Returns false after the node lifecycle has marked the node unknown, and for a missing node. */
  readonly isReady: (name: string) => Promise<boolean>;
  readonly renewLease: (name: string) => Promise<void>;
  /** Removes the node; a missing one is no error. */
  readonly remove: (name: string) => Promise<void>;
};

const LEASES = { apiVersion: "coordination.k8s.io/v1", plural: "leases", namespace: "kube-node-lease" };
const NODES = { apiVersion: "v1", plural: "nodes" };
const LEASE_SECONDS = 40;
/** Maximum attempts of one conflicting write. */
const MAX_ATTEMPTS = 5;

export function makeNodeApi(calls: KubeCalls, now: () => number): NodeApi {
  const read = (name: string): Promise<V1Node | undefined> => unlessMissing(calls.get<V1Node>(NODES, name));

  /** Admission taints a node at its creation, so a new node may need a change as well. */
  const adopt = async (facts: NodeFacts): Promise<V1Node> => {
    for (let attempt = 1; ; attempt += 1) {
      const node = await calls.get<V1Node>(NODES, facts.name);
      if (!isNodeDifferent(facts, node)) return node;
      const replaced = calls.replace(NODES, buildNode(facts, node));
      if (attempt === MAX_ATTEMPTS) return await replaced;
      const written = await unlessFault(replaced, "conflict");
      if (written !== undefined) return written;
    }
  };

  const report: NodeApi["report"] = async (facts, { ready }, options = {}) => {
    const node = await unlessMissing(calls.get<V1Node>(NODES, facts.name, options));
    if (node === undefined) return;
    const body = { status: buildNodeStatus(facts, node, { ready, nowMs: now() }) };
    const status = { ...options, subresource: "status" };
    await unlessMissing(calls.patch(NODES, facts.name, { kind: "strategic", body }, status));
  };

  const renewLease = async (name: string): Promise<void> => {
    const renewTime = new Date(now()).toISOString().replace("Z", "000Z");
    const body = { metadata: { name }, spec: { renewTime } };
    const renewed = await unlessMissing(calls.patch(LEASES, name, { kind: "merge", body }));
    if (renewed !== undefined) return;
    const spec = { holderIdentity: name, leaseDurationSeconds: LEASE_SECONDS, renewTime };
    // No client watches leases in a cluster without their namespace.
    await unlessFault(calls.create(LEASES, { metadata: { name }, spec }), "already_exists", "not_found");
  };

  return {
    register: async (facts) => {
      const fresh = buildNode(facts, undefined);
      const body = { ...fresh, status: buildNodeStatus(facts, fresh, { ready: true, nowMs: now() }) };
      const created = await unlessFault(calls.create(NODES, body), "already_exists");
      const node = await adopt(facts);
      if (created === undefined || !isReady(node)) await report(facts, { ready: true });
      await renewLease(facts.name);
    },
    report,
    isReady: async (name) => {
      const node = await read(name);
      return node !== undefined && isReady(node);
    },
    renewLease,
    remove: async (name) => {
      await unlessMissing(calls.delete(NODES, name));
    },
  };
}

export function isReady(node: V1Node): boolean {
  return node.status?.conditions?.some((each) => each.type === "Ready" && each.status === "True") ?? false;
}
