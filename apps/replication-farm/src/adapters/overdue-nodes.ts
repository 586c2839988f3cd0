import type { V1Node, V1Pod } from "@kubernetes/client-node";
import type { NodeSeen } from "@muster/health";
import { unlessMissing, type KubeCalls } from "@muster/kube";

const NODES = { apiVersion: "v1", plural: "nodes" };

/** The nodes of the pods that should have gone by now, by the uid of the pod. Nodes are read for these alone: nearly all pods go in time. */
export async function overdueNodes(
  calls: Pick<KubeCalls, "get">,
  pods: readonly V1Pod[],
  nowMs: number,
): Promise<ReadonlyMap<string, NodeSeen>> {
  // The timestamp is the end of the time that the pod was given, not the moment of the request. As plain JSON it is a text.
  const overdue = pods.filter(
    ({ metadata, spec }) =>
      metadata?.deletionTimestamp !== undefined &&
      new Date(metadata.deletionTimestamp).getTime() < nowMs &&
      (spec?.nodeName ?? "") !== "",
  );
  const names = [...new Set(overdue.map(({ spec }) => spec?.nodeName ?? ""))];
  const nodes = new Map(
    await Promise.all(
      names.map(async (name) => [name, seenOf(await unlessMissing(calls.get<V1Node>(NODES, name)))] as const),
    ),
  );
  return new Map(
    overdue.flatMap(({ metadata, spec }) => {
      const seen = nodes.get(spec?.nodeName ?? "");
      return seen === undefined ? [] : [[metadata?.uid ?? "", seen] as const];
    }),
  );
}

/** Undefined: it is not known how the node is. */
function seenOf(node: V1Node | undefined): NodeSeen | undefined {
  if (node === undefined) return { state: "gone" };
  const ready = node.status?.conditions?.find(({ type }) => type === "Ready");
  if (ready?.status === "True") return { state: "ready" };
  const since = ready?.lastTransitionTime;
  return since === undefined ? undefined : { state: "not-ready", sinceMs: new Date(since).getTime() };
}
