import type { V1ResourceQuota } from "@kubernetes/client-node";
import { throwFault } from "@muster/faults";
import type { KubeObject } from "@muster/kube";
import { findKubernetesSize } from "@muster/leases/data";
import { getOrigin, type LeaseRecord } from "../domain/lease.ts";
import { GIB, type ResourceUnits } from "../domain/claim.ts";
import { buildNetworkNamespace } from "./network.ts";
import { KINDS, type ObjectKind } from "./object-kinds.ts";
import { requireData, makeWorkloadType } from "./workload-type.ts";
import type { LeaseCluster, Observation, Workload } from "./workload.ts";

export const KUBERNETES = makeWorkloadType({
  type: "kubernetes",
  counter: "vm",
  rank: 6,
  claimOf: ({ size }) => ({
    units: kubernetesUnits(size),
    network: undefined,
    needs: { networks: [], volumes: [] },
  }),
  workload: ({ cluster, nowNs }) => cluster && makeKubernetesWorkload(cluster, nowNs),
});

/** Computes the resources of a slice of this size. Throws RangeError for an invalid size. */
function kubernetesUnits(size: number): ResourceUnits {
  const { processors, memoryGib, ssdGib } = findKubernetesSize(size);
  return { cru: BigInt(processors), mru: BigInt(memoryGib) * GIB, hru: 0n, sru: BigInt(ssdGib) * GIB };
}

/** Name of the service account of every slice; the engine may request tokens only of accounts of this name. */
export const SLICE_ACCOUNT = "muster-lease";

const SLICE_PRIORITIES = "muster-lease-priorities";

const NAMESPACES = "muster-lease-";

/** Name of a slice's namespace; no network of a user has such a name. */
export function buildSliceNamespaceName(id: string): string {
  return `${NAMESPACES}${id}`;
}

/** Whether the name is that of a slice, whose content belongs to its user, whatever its labels are. */
export function isSliceNamespace(name: string): boolean {
  return name.startsWith(NAMESPACES);
}

const PODS_PER_CPU = 20;
const OBJECTS_PER_CPU = 50;
/** A fifth of a slice's disk is for root file systems and logs of its pods, the rest for volume claims. */
const EPHEMERAL_SHARE = 5n;
/** Limits the number of objects of each kind that slice users may create: unlimited objects could fill the cluster's store. */
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

/** Limits the total resources and the number of objects in a slice. Node ports and load balancers are excluded. */
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
        // Counts ended pods, too, which remain objects.
        "count/pods": String(Number(cru) * PODS_PER_CPU),
        ...Object.fromEntries(COUNTED.map((kind) => [`count/${kind}`, objects])),
      },
    },
  };
}

/** Forbids priority classes in a slice, so that its pods cannot preempt others. Classes are cluster-wide, so roles cannot restrict their use. */
function buildSlicePriorities(namespace: string) {
  return { metadata: { name: SLICE_PRIORITIES, namespace }, spec: { scopes: ["PriorityClass"], hard: { pods: "0" } } };
}

/** Default resources of containers without requests, because the quota would refuse these containers. */
function buildSliceLimits(namespace: string) {
  const each = { cpu: "100m", memory: "128Mi", "ephemeral-storage": "256Mi" };
  return {
    metadata: { name: SLICE_ACCOUNT, namespace },
    spec: { limits: [{ type: "Container", default: each, defaultRequest: each }] },
  };
}

/** Pods get the token of the account only on request: the user of the slice shares it deliberately. */
function buildSliceAccount(namespace: string) {
  return { metadata: { name: SLICE_ACCOUNT, namespace }, automountServiceAccountToken: false };
}

function buildSliceBinding(namespace: string, role: string) {
  return {
    metadata: { name: SLICE_ACCOUNT, namespace },
    roleRef: { apiGroup: "rbac.authorization.k8s.io", kind: "ClusterRole", name: role },
    subjects: [{ kind: "ServiceAccount", name: SLICE_ACCOUNT, namespace }],
  };
}

type SliceAccess = {
  readonly url: string;
  /** PEM of the authority of the server's certificate; undefined: a public authority. */
  readonly ca: string | undefined;
  readonly namespace: string;
  readonly token: string;
};

/** A kubeconfig in JSON, which is valid YAML. */
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

/** Minimum and maximum lifetime of a token in Kubernetes. */
const MIN_TOKEN_SECONDS = 600;
const MAX_TOKEN_SECONDS = 2 ** 32;
const NS_PER_SECOND = 1_000_000_000n;

/** The token must be valid until the lease ends. A longer token becomes invalid when the end of the lease removes its account. */
export function computeTokenSeconds(expiresAtNs: bigint, nowNs: bigint): number {
  const seconds = (expiresAtNs - nowNs) / NS_PER_SECOND + 1n;
  if (seconds > BigInt(MAX_TOKEN_SECONDS)) return MAX_TOKEN_SECONDS;
  return Math.max(MIN_TOKEN_SECONDS, Number(seconds));
}

/** The default grace period of Kubernetes. It overrides a longer one of the user, which would keep an ended lease running. */
const POD_GRACE_SECONDS = 30;
const TERMINATING_NAMESPACE: ObjectKind = { ...KINDS.namespace, podGraceSeconds: POD_GRACE_SECONDS };

/**
 * A slice of the cluster: a namespace with a quota, default resources, and a service account bound to the role of slices. The result has a kubeconfig with a
 * token, valid until the present end of the lease. After a renewal the user can create a new token with this kubeconfig.
 */
export function makeKubernetesWorkload(
  { objects, slices, accessOf }: Pick<LeaseCluster, "objects" | "slices" | "accessOf">,
  nowNs: () => bigint,
): Workload {
  const make = async (lease: LeaseRecord, signal: AbortSignal): Promise<string> => {
    const { size } = requireData(KUBERNETES, lease);
    const { role } = slices;
    const namespace = buildSliceNamespaceName(getOrigin(lease).id);
    // Kubernetes accepts a binding to a missing role, which would grant no rights.
    if ((await objects.find(KINDS.clusterRole, { name: role }, signal)) === undefined)
      throwFault({ code: "not_found", kind: "ClusterRole", id: role });
    await objects.ensure(lease, KINDS.namespace, buildNetworkNamespace(namespace), signal);
    const quotas = [buildSliceQuota(namespace, size), buildSlicePriorities(namespace)];
    for (const quota of quotas) await objects.ensure<KubeObject>(lease, KINDS.resourceQuota, quota, signal);
    await objects.ensure(lease, KINDS.limitRange, buildSliceLimits(namespace), signal);
    // The quota refuses no object until its controller has counted.
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
      const seconds = computeTokenSeconds(lease.expiresAtNs, nowNs());
      const { expiresAt, ...access } = await accessOf({ name: SLICE_ACCOUNT, namespace }, seconds, signal);
      const kubeconfig = buildKubeconfig({ ...access, namespace });
      return JSON.stringify({ namespace, kubeconfig, token_expires_at: expiresAt });
    },
    // The user's token stays valid.
    check: async (lease, signal) => {
      await make(lease, signal);
      return undefined;
    },
    // All objects are in the namespace.
    decommission: (lease, signal) => objects.remove(lease, { kinds: [TERMINATING_NAMESPACE] }, signal),
  };
}
