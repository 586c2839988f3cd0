import { GIB, kubernetesUnits } from "./resource-units.ts";

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
const TOKEN_SECONDS_MIN = 600;
const TOKEN_SECONDS_MAX = 2 ** 32;
const NS_PER_SECOND = 1_000_000_000n;

/** A token is wanted until the lease ends; one that is given for longer ends with the account, which the end of the lease takes along. */
export function tokenSeconds(expiresAtNs: bigint, nowNs: bigint): number {
  const seconds = (expiresAtNs - nowNs) / NS_PER_SECOND + 1n;
  if (seconds > BigInt(TOKEN_SECONDS_MAX)) return TOKEN_SECONDS_MAX;
  return Math.max(TOKEN_SECONDS_MIN, Number(seconds));
}
