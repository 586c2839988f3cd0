import type { CoreV1Api, V1Pod } from "@kubernetes/client-node";
import type { NodeSeen } from "@muster/health";
import { atMost } from "./at-most.ts";
import { faultOrThrow } from "./pods.ts";

const NODES_AT_ONCE = 8;

/** The nodes of the pods that should have gone by now, by the uid of the pod. Nodes are read for these alone: nearly all pods go in time. */
export async function overdueNodes(
  api: Pick<CoreV1Api, "readNode">,
  pods: readonly V1Pod[],
  nowMs: number,
): Promise<ReadonlyMap<string, NodeSeen>> {
  // The timestamp is the end of the time that the pod was given, not the moment of the request.
  const overdue = pods.filter(({ metadata }) => (metadata?.deletionTimestamp?.getTime() ?? Infinity) < nowMs);
  const names = [...new Set(overdue.map(nodeOf))].filter((name) => name !== "");
  const nodes = new Map(await atMost(NODES_AT_ONCE, names, async (name) => [name, await readNode(api, name)] as const));
  return new Map(
    overdue.flatMap((pod) => {
      const seen = nodes.get(nodeOf(pod));
      return seen === undefined ? [] : [[pod.metadata?.uid ?? "", seen] as const];
    }),
  );
}

function nodeOf({ spec }: V1Pod): string {
  return spec?.nodeName ?? "";
}

/** Undefined: it is not known how the node is. */
async function readNode(api: Pick<CoreV1Api, "readNode">, name: string): Promise<NodeSeen | undefined> {
  try {
    const { status } = await api.readNode({ name });
    const ready = status?.conditions?.find(({ type }) => type === "Ready");
    if (ready?.status === "True") return { state: "ready" };
    const sinceMs = ready?.lastTransitionTime?.getTime();
    return sinceMs === undefined ? undefined : { state: "not-ready", sinceMs };
  } catch (error) {
    return faultOrThrow(error).code === "not_found" ? { state: "gone" } : undefined;
  }
}
