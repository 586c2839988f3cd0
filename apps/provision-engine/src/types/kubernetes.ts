import type { V1ResourceQuota } from "@kubernetes/client-node";
import { throwFault } from "@muster/faults";
import type { KubeObject } from "@muster/kube";
import { kubernetesSize } from "@muster/leases/data";
import { originOf, type LeaseRecord } from "../domain/lease.ts";
import { GIB, type ResourceUnits } from "../domain/resource-units.ts";
import { buildNetworkNamespace } from "./network.ts";
import { KINDS, type ObjectKind } from "./object-kinds.ts";
import { requireData, workloadType } from "./workload-type.ts";
import type { LeaseCluster, Observation, Workload } from "./workload.ts";

export const KUBERNETES = workloadType({
  type: "kubernetes",
  counter: "vm",
  rank: 6,
  claimOf: ({ size }) => ({
    units: kubernetesUnits(size),
    network: undefined,
    needs: { networks: [], volumes: [] },
  }),
  workload: ({ cluster, nowNs }) => cluster && kubernetesWorkload(cluster, nowNs),
});

/** What a slice of this size takes. Throws RangeError for a size that the data of a lease cannot have. */
export function kubernetesUnits(size: number): ResourceUnits {
  const { processors, memoryGib, ssdGib } = kubernetesSize(size);
  return { cru: BigInt(processors), mru: BigInt(memoryGib) * GIB, hru: 0n, sru: BigInt(ssdGib) * GIB };
}

/** Of the account of every slice: tokens of accounts of other names are not the engine's to give. */
export const SLICE_ACCOUNT = "muster-lease";

const SLICE_PRIORITIES = "muster-lease-priorities";

const NAMESPACES = "muster-lease-";

/** Of a slice; no network of a user is called so. */
export function sliceNamespace(id: string): string {
  return `${NAMESPACES}${id}`;
}

/** What is in such a namespace is its user's, whatever its labels say. */
export function isSliceNamespace(name: string): boolean {
  return name.startsWith(NAMESPACES);
}

const PODS_PER_CPU = 20;
const OBJECTS_PER_CPU = 50;
/** So much of the disk of a slice is for root file systems and logs of its pods, the rest for claims. */
const EPHEMERAL_SHARE = 5n;
/** Of each kind that the role of slices lets their users make, there is a number: whoever may make objects without end fills the store of the cluster. */
const COUNTED = [
  "configmaps",
  "persistentvolumeclaims",
  "replicationcontrollers",
  "secrets",
  "serviceaccounts",
  "services",
  "controllerrevisions.apps",
  "deployments.apps",
  "replicasets.apps",
  "statefulsets.apps",
  "horizontalpodautoscalers.autoscaling",
  "cronjobs.batch",
  "jobs.batch",
  "leases.coordination.k8s.io",
  "networkpolicies.networking.k8s.io",
  "poddisruptionbudgets.policy",
  "rolebindings.rbac.authorization.k8s.io",
  "roles.rbac.authorization.k8s.io",
];

/** What all objects of a slice may take together, and how many there may be. Ports of the nodes and the provider's balancers are nobody's to take. */
export function buildSliceQuota(namespace: string, size: number) {
  const { cru, mru, sru } = kubernetesUnits(size);
  const [cpu, memory] = [String(cru), `${mru / GIB}Gi`];
  const ephemeral = sru / GIB / EPHEMERAL_SHARE;
  const objects = String(Number(cru) * OBJECTS_PER_CPU);
  return {
    metadata: { name: SLICE_ACCOUNT, namespace },
    spec: {
      hard: {
        "requests.cpu": cpu,
        "limits.cpu": cpu,
        "requests.memory": memory,
        "limits.memory": memory,
        "requests.ephemeral-storage": `${ephemeral}Gi`,
        "limits.ephemeral-storage": `${ephemeral}Gi`,
        "requests.storage": `${sru / GIB - ephemeral}Gi`,
        "services.nodeports": "0",
        "services.loadbalancers": "0",
        // Those that have ended, too: they stay objects.
        "count/pods": String(Number(cru) * PODS_PER_CPU),
        ...Object.fromEntries(COUNTED.map((kind) => [`count/${kind}`, objects])),
      },
    },
  };
}

/** No pod of a slice has a class of priority, and so none takes the place of others' pods. Classes are not the namespace's, so that roles cannot tell who may use them. */
export function buildSlicePriorities(namespace: string) {
  return { metadata: { name: SLICE_PRIORITIES, namespace }, spec: { scopes: ["PriorityClass"], hard: { pods: "0" } } };
}

/** What a container takes that does not say what it needs: the quota refuses what cannot be counted. */
export function buildSliceLimits(namespace: string) {
  const each = { cpu: "100m", memory: "128Mi", "ephemeral-storage": "256Mi" };
  return {
    metadata: { name: SLICE_ACCOUNT, namespace },
    spec: { limits: [{ type: "Container", default: each, defaultRequest: each }] },
  };
}

/** Pods do not get its token unless they ask for it: whoever rents the slice gives it to whom he likes. */
export function buildSliceAccount(namespace: string) {
  return { metadata: { name: SLICE_ACCOUNT, namespace }, automountServiceAccountToken: false };
}

export function buildSliceBinding(namespace: string, role: string) {
  return {
    metadata: { name: SLICE_ACCOUNT, namespace },
    roleRef: { apiGroup: "rbac.authorization.k8s.io", kind: "ClusterRole", name: role },
    subjects: [{ kind: "ServiceAccount", name: SLICE_ACCOUNT, namespace }],
  };
}

export type SliceAccess = {
  readonly url: string;
  /** Of the server's certificate, PEM; undefined: one that machines believe anyway. */
  readonly ca: string | undefined;
  readonly namespace: string;
  readonly token: string;
};

/** A kubeconfig in JSON, which is YAML, too. */
export function buildKubeconfig({ url, ca, namespace, token }: SliceAccess): string {
  const name = namespace;
  const authority = ca === undefined ? {} : { "certificate-authority-data": Buffer.from(ca).toString("base64") };
  return JSON.stringify({
    apiVersion: "v1",
    kind: "Config",
    clusters: [{ name, cluster: { server: url, ...authority } }],
    users: [{ name, user: { token } }],
    contexts: [{ name, context: { cluster: name, user: name, namespace } }],
    "current-context": name,
  });
}

/** Shortest and longest time that Kubernetes gives a token for. */
const MIN_TOKEN_SECONDS = 600;
const MAX_TOKEN_SECONDS = 2 ** 32;
const NS_PER_SECOND = 1_000_000_000n;

/** A token is wanted until the lease ends; one that is given for longer ends with the account, which the end of the lease takes along. */
export function tokenSeconds(expiresAtNs: bigint, nowNs: bigint): number {
  const seconds = (expiresAtNs - nowNs) / NS_PER_SECOND + 1n;
  if (seconds > BigInt(MAX_TOKEN_SECONDS)) return MAX_TOKEN_SECONDS;
  return Math.max(MIN_TOKEN_SECONDS, Number(seconds));
}

/** What Kubernetes itself gives a pod to end. Its user may have said far more, or have begun to delete it with more: a lease does not go on for as long as he likes. */
const POD_GRACE_SECONDS = 30;
const TERMINATING_NAMESPACE: ObjectKind = { ...KINDS.namespace, podGraceSeconds: POD_GRACE_SECONDS };

/**
 * A slice of the cluster: a namespace with a quota and what containers take that do not say it, and an account that may do there what the role of slices says. The result has a kubeconfig with a token, which holds
 * until the lease ends as it stands now: whoever renews it makes himself a new one with it.
 */
export function kubernetesWorkload(
  { objects, slices, accessOf }: Pick<LeaseCluster, "objects" | "slices" | "accessOf">,
  nowNs: () => bigint,
): Workload {
  const make = async (lease: LeaseRecord, signal: AbortSignal): Promise<string> => {
    const { size } = requireData(KUBERNETES, lease);
    const { role } = slices;
    const namespace = sliceNamespace(originOf(lease).id);
    // A binding to a role that is not there would be taken, and give nothing.
    if ((await objects.find(KINDS.clusterRole, { name: role }, signal)) === undefined)
      throwFault({ code: "not_found", kind: "ClusterRole", id: role });
    await objects.ensure(lease, KINDS.namespace, buildNetworkNamespace(namespace), signal);
    const quotas = [buildSliceQuota(namespace, size), buildSlicePriorities(namespace)];
    for (const quota of quotas) await objects.ensure<KubeObject>(lease, KINDS.resourceQuota, quota, signal);
    await objects.ensure(lease, KINDS.limitRange, buildSliceLimits(namespace), signal);
    // Until its numbers are counted, nothing is refused.
    for (const quota of quotas)
      await objects.untilReady(async (): Promise<Observation<undefined>> => {
        const found = await objects.find<V1ResourceQuota>(KINDS.resourceQuota, quota.metadata, signal);
        const { hard = {} } = found?.status ?? {};
        const isCounted = Object.keys(quota.spec.hard).every((name) => name in hard);
        return isCounted ? { kind: "ready", value: undefined } : { kind: "pending", because: "the count of the quota" };
      }, signal);
    await objects.ensure(lease, KINDS.serviceAccount, buildSliceAccount(namespace), signal);
    await objects.ensure(lease, KINDS.roleBinding, buildSliceBinding(namespace, role), signal);
    return namespace;
  };
  return {
    type: KUBERNETES.type,
    provision: async (lease, signal) => {
      const namespace = await make(lease, signal);
      const seconds = tokenSeconds(lease.expiresAtNs, nowNs());
      const { expiresAt, ...access } = await accessOf({ name: SLICE_ACCOUNT, namespace }, seconds, signal);
      const kubeconfig = buildKubeconfig({ ...access, namespace });
      return JSON.stringify({ namespace, kubeconfig, token_expires_at: expiresAt });
    },
    // The token that its user has holds on.
    check: async (lease, signal) => {
      await make(lease, signal);
      return undefined;
    },
    // All of it lives in the namespace.
    decommission: (lease, signal) => objects.remove(lease, { kinds: [TERMINATING_NAMESPACE] }, signal),
  };
}
