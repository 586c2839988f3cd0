import type { V1Node, V1Pod } from "@kubernetes/client-node";
import type { NodeSeen } from "@muster/health";
import type { KubeCalls } from "./kube-calls.ts";
import { requireKubeFault } from "./kube-fault.ts";

const NODES = { apiVersion: "v1", plural: "nodes" };

/**
 * Reads the nodes of pods past their grace period, by the uid of the pod; omits nodes that could not be read. Other nodes are not read, because nearly all pods
 * end in time.
 */
export async function findOverdueNodes(
  calls: Pick<KubeCalls, "get">,
  pods: readonly V1Pod[],
  nowMs: number,
): Promise<ReadonlyMap<string, NodeSeen>> {
  // The timestamp is the end of the pod's grace period, not the moment of the request. In plain JSON it is a string.
  const overdue = pods.filter(
    ({ metadata, spec }) =>
      metadata?.deletionTimestamp !== undefined &&
      new Date(metadata.deletionTimestamp).getTime() < nowMs &&
      (spec?.nodeName ?? "") !== "",
  );
  const names = [...new Set(overdue.map(({ spec }) => spec?.nodeName ?? ""))];
  const nodes = new Map(await Promise.all(names.map(async (name) => [name, await readNode(calls, name)] as const)));
  return new Map(
    overdue.flatMap(({ metadata, spec }) => {
      const seen = nodes.get(spec?.nodeName ?? "");
      return seen === undefined ? [] : [[metadata?.uid ?? "", seen] as const];
    }),
  );
}

/** Undefined: the state of the node is unknown. */
async function readNode(calls: Pick<KubeCalls, "get">, name: string): Promise<NodeSeen | undefined> {
  try {
    const { status } = await calls.get<V1Node>(NODES, name);
    const ready = status?.conditions?.find(({ type }) => type === "Ready");
    if (ready?.status === "True") return { state: "ready" };
    const since = ready?.lastTransitionTime;
    return since === undefined ? undefined : { state: "not-ready", sinceMs: new Date(since).getTime() };
  } catch (error) {
    return requireKubeFault(error).code === "not_found" ? { state: "gone" } : undefined;
  }
}
