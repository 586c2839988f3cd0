import type { V1Node, V1Pod } from "@kubernetes/client-node";
import { openInformer, listWatch, loadKube } from "@muster/kube";
import { parseAmounts, computePodRequests, sumUse, type Amounts } from "@muster/resources";
import { findExcess } from "./domain/judge-room.ts";
import type { RoomSeen } from "./domain/observed.ts";

/** Observes the requests of the pods on all nodes, past the injected faults. */
export type RoomObserver = AsyncDisposable & {
  /** The amounts of the nodes, the residents, and the nodes on which more was requested than they have. */
  readonly seen: () => RoomSeen;
};

type KeptPod = {
  readonly name: string;
  readonly node: string;
  readonly finished: boolean;
  readonly use: Amounts;
};

const TIMING = { minBackoffMs: 50, maxBackoffMs: 500 };
const SAMPLE_MS = 200;
/** Minimum duration of an excess: the changes of a list after an interruption arrive one by one, which may cause shorter ones. */
const LASTING_MS = 1000;

/** Samples the nodes until it is disposed. */
export async function startRoomObserver(kubeconfig: string): Promise<RoomObserver> {
  const kube = loadKube(kubeconfig);
  const pods = openInformer<V1Pod, KeptPod>({
    source: listWatch<V1Pod>(kube, "/api/v1/pods"),
    project: keepPod,
    timing: TIMING,
  });
  const nodes = openInformer<V1Node, { name: string; allocatable: Amounts }>({
    source: listWatch<V1Node>(kube, "/api/v1/nodes"),
    project: ({ metadata, status }) => ({
      name: metadata?.name ?? "",
      allocatable: parseAmounts(status?.allocatable ?? {}),
    }),
    timing: TIMING,
  });
  const residents = new Map<string, { readonly name: string; readonly node: string; untilMs: number | undefined }>();
  pods.onChange(({ before, after }) => {
    const name = (after ?? before)?.name ?? "";
    if (!name.startsWith("resident-")) return;
    if (after !== undefined && !after.finished && !residents.has(name))
      residents.set(name, { name, node: after.node, untilMs: undefined });
    const resident = residents.get(name);
    if (resident !== undefined && (after === undefined || after.finished)) resident.untilMs ??= Date.now();
  });
  await Promise.all([pods.synced, nodes.synced]);
  const allocatable = new Map<string, Amounts>();
  const sinceMs = new Map<string, number>();
  const exceeded = new Map<string, string>();
  const sample = (): void => {
    const byNode = Map.groupBy(
      pods.list().filter((pod) => pod.node !== "" && !pod.finished),
      ({ node }) => node,
    );
    for (const node of nodes.list()) {
      if (node.allocatable.size === 0) continue;
      allocatable.set(node.name, node.allocatable);
      const found = findExcess(
        node.allocatable,
        (byNode.get(node.name) ?? []).map(({ use }) => use),
      );
      if (found === undefined) sinceMs.delete(node.name);
      else if (!sinceMs.has(node.name)) sinceMs.set(node.name, performance.now());
      else if (performance.now() - (sinceMs.get(node.name) ?? 0) > LASTING_MS) exceeded.set(node.name, found);
    }
  };
  const timer = setInterval(sample, SAMPLE_MS);
  return {
    seen: () => ({ allocatable, residents: [...residents.values()], exceeded }),
    [Symbol.asyncDispose]: async () => {
      clearInterval(timer);
      await Promise.all([pods[Symbol.asyncDispose](), nodes[Symbol.asyncDispose]()]);
    },
  };
}

function keepPod({ metadata, spec, status }: V1Pod): KeptPod {
  return {
    name: metadata?.name ?? "",
    node: spec?.nodeName ?? "",
    finished: status?.phase === "Succeeded" || status?.phase === "Failed",
    use: sumUse(spec === undefined ? new Map() : computePodRequests(spec)),
  };
}
