import type { V1Node } from "@kubernetes/client-node";
import { kubeFault, unlessMissing } from "@muster/kube";
import { buildNode, buildNodeStatus, nodeDiffers, type NodeFacts } from "../kubelet/build-node.ts";
import type { JsonApi } from "../json-api.ts";

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

const LEASES = "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases";
const LEASE_SECONDS = 40;

export function simulatedNodeApi(api: JsonApi, now: () => number): SimulatedNodeApi {
  const nodePath = (name: string): string => `/api/v1/nodes/${name}`;

  const register = async (facts: NodeFacts): Promise<void> => {
    const fresh = buildNode(facts, undefined);
    const body = { ...fresh, status: buildNodeStatus(facts, fresh, { ready: true, nowMs: now() }) };
    const created = await unlessThere(api.send("POST", "/api/v1/nodes", body));
    const node = asNode(created ?? (await api.send("GET", nodePath(facts.name))));
    // Admission taints a node at its creation, so that what was just created may need a change as well.
    if (nodeDiffers(facts, node)) await api.send("PUT", nodePath(facts.name), buildNode(facts, node));
    if (created === undefined || !isReady(node)) await report(facts, { ready: true });
    await renewLease(facts.name);
  };

  const report = async (facts: NodeFacts, { ready }: { readonly ready: boolean }): Promise<void> => {
    const path = nodePath(facts.name);
    const node = await unlessMissing(api.send("GET", path));
    if (node === undefined) return;
    const status = buildNodeStatus(facts, asNode(node), { ready, nowMs: now() });
    await unlessMissing(api.patch("strategic-merge", `${path}/status`, { status }));
  };

  const renewLease = async (name: string): Promise<void> => {
    const renewTime = new Date(now()).toISOString().replace("Z", "000Z");
    const renewed = await unlessMissing(
      api.patch("merge", `${LEASES}/${name}`, { metadata: { name }, spec: { renewTime } }),
    );
    if (renewed !== undefined) return;
    const spec = { holderIdentity: name, leaseDurationSeconds: LEASE_SECONDS, renewTime };
    await unlessThere(api.send("POST", LEASES, { metadata: { name }, spec }));
  };

  return {
    register,
    report,
    renewLease,
    remove: async (name) => {
      await unlessMissing(api.send("DELETE", nodePath(name)));
    },
  };
}

/** The one place where JSON of the API server becomes a node. */
function asNode(json: unknown): V1Node {
  return json as V1Node;
}

function isReady(node: V1Node): boolean {
  return node.status?.conditions?.some((each) => each.type === "Ready" && each.status === "True") ?? false;
}

async function unlessThere(call: Promise<unknown>): Promise<unknown> {
  try {
    return await call;
  } catch (error) {
    if (kubeFault(error)?.code === "already_exists") return undefined;
    throw error;
  }
}
