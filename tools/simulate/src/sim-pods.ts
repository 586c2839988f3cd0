import type { V1Pod } from "@kubernetes/client-node";
import { findFault, throwFault } from "@muster/faults";
import { toPodManifest } from "@muster/kube";
import { labels, schedulingGates } from "@muster/proto";
import type { ActDeps } from "@muster/session-controller/act";
import { adoptPod, isConfirmed, toLivePod, getPinnedNode, type SessionPods } from "@muster/session-controller/pods";
import type { LivePod } from "@muster/session-controller/snapshot";
import type { Cluster } from "./cluster.ts";
import { getNodeName } from "./kubelets.ts";
import type { World } from "./world.ts";

/** The installation of the simulated services. */
export const INSTALLATION = "simulated";

/** The pods of the API server, accessed over the network. A second create finds the first pod; a delete names one uid. */
export function makeSimPods({ network, cluster }: Pick<World, "network" | "cluster">): SessionPods {
  return {
    create: async (record, component, manifest) => {
      const { name } = manifest.metadata;
      const desired = toPodManifest(manifest);
      try {
        const made = await network.call("api-server", `create pod ${name}`, () => cluster.createPod(desired));
        return {
          kind: "created",
          uid: made.metadata?.uid ?? "",
          node: getPinnedNode(made),
          confirmed: isConfirmed(made),
        };
      } catch (error) {
        if (findFault(error)?.code !== "already_exists") throw error;
      }
      const existing = await network.call("api-server", `read pod ${name}`, () => cluster.pods.get(name));
      if (existing === undefined)
        return throwFault({ code: "unavailable", dependency: `pod name ${name}`, retryAfterMs: 100 });
      return adoptPod(existing, record, { component, node: getPinnedNode(desired), installation: INSTALLATION });
    },
    confirm: (pod, uid) =>
      network.call("api-server", `confirm pod ${pod} ${uid}`, () => {
        if (cluster.pods.get(pod)?.metadata?.uid !== uid) throwFault({ code: "not_found", kind: "pod", id: pod });
        cluster.updatePod(pod, uid, (now) => {
          const { schedulingGates: gates = [], containers = [], ...spec } = now.spec ?? {};
          const kept = gates.filter(({ name }) => name !== schedulingGates.unconfirmed);
          return { ...now, spec: { ...spec, containers, ...(kept.length > 0 && { schedulingGates: kept }) } };
        });
      }),
    delete: (pod, uid, { force, resourceVersion }) =>
      network.call("api-server", `${force ? "remove" : "delete"} pod ${pod} ${uid}`, () => {
        const now = cluster.pods.get(pod)?.metadata?.resourceVersion;
        if (resourceVersion !== undefined && resourceVersion !== now) return;
        if (force) cluster.removePod(pod, uid);
        else cluster.deletePod(pod, uid);
      }),
    ofSession: ({ name }) => {
      return network.call("api-server", `list pods of ${name}`, () => listLivePods(cluster, name));
    },
    ofAllSessions: async () => {
      const pods = await network.call("api-server", "list pods of all sessions", () => listOwnedPods(cluster));
      return pods.map((pod) => ({
        kind: "pod",
        pod: pod.metadata?.name ?? "",
        uid: pod.metadata?.uid ?? "",
        session: pod.metadata?.labels?.[labels.owner] ?? "",
        ownerUid: pod.metadata?.labels?.[labels.ownerUid] ?? "",
        otherInstallation: undefined,
        deleting: pod.metadata?.deletionTimestamp !== undefined,
        overdueOn: overdueOn(cluster, pod),
        createdAtMs: pod.metadata?.creationTimestamp?.getTime() ?? 0,
      }));
    },
  };
}

/** Lists the pods of one session. */
export function listLivePods(cluster: Cluster, session: string): LivePod[] {
  return listOwnedPods(cluster, session).map((pod) => toLivePod(pod, overdueOn(cluster, pod), Date.now()));
}

/** The state of the node of a pod that is being deleted. */
function overdueOn({ nodes }: Cluster, pod: V1Pod): LivePod["overdueOn"] {
  const node = getNodeName(pod);
  if (pod.metadata?.deletionTimestamp === undefined || node === "") return undefined;
  const [ready] = nodes.get(node)?.status?.conditions ?? [];
  if (ready === undefined) return { state: "gone" };
  const sinceMs = ready.lastTransitionTime?.getTime() ?? 0;
  return ready.status === "True" ? { state: "ready" } : { state: "not-ready", sinceMs };
}

function listOwnedPods(cluster: Cluster, session?: string): V1Pod[] {
  return [...cluster.pods.values()].filter(({ metadata }) => {
    const own = metadata?.labels ?? {};
    return own[labels.ownerKind] === "session" && (session === undefined || own[labels.owner] === session);
  });
}

/** The log of a container is its termination message. */
export function makeSimPodLogs({
  network,
  cluster,
}: Pick<World, "network" | "cluster">): ReturnType<ActDeps["logsIn"]> {
  const read = (pod: string): Promise<Uint8Array> =>
    network.call("api-server", `read log ${pod}`, () => {
      const existing = cluster.pods.get(pod);
      if (existing === undefined) return throwFault({ code: "not_found", kind: "pod", id: pod });
      const text = existing.status?.containerStatuses?.[0]?.state?.terminated?.message ?? "";
      return new TextEncoder().encode(text === "" ? "" : `${text}\n`);
    });
  return {
    readTail: async (pod) => ({ bytes: await read(pod), omittedBytes: 0, broken: undefined }),
    readEnd: async (pod) => ({ bytes: await read(pod), omittedBytes: 0, broken: undefined }),
    readRange: (pod) => read(pod),
    follow: async function* (pod) {
      yield await read(pod);
    },
  };
}
