import { kubernetesUnits } from "./kubernetes-sizes.ts";
import { GIB } from "./resource-units.ts";

/** Of the account of every slice: tokens of accounts of other names are not the engine's to give. */
export const SLICE_ACCOUNT = "muster-lease";

/** Of a slice; no network of a user is called so. */
export function sliceNamespace(id: string): string {
  return `muster-lease-${id}`;
}

/** What all objects of a slice may take together. Ports of the nodes and the provider's balancers are nobody's to take; `externalIPs` are for an admission policy to refuse. */
export function buildSliceQuota(namespace: string, size: number) {
  const { cru, mru, sru } = kubernetesUnits(size);
  const [cpu, memory, storage] = [String(cru), `${mru / GIB}Gi`, `${sru / GIB}Gi`];
  return {
    metadata: { name: SLICE_ACCOUNT, namespace },
    spec: {
      hard: {
        "requests.cpu": cpu,
        "limits.cpu": cpu,
        "requests.memory": memory,
        "limits.memory": memory,
        "requests.storage": storage,
        "services.nodeports": "0",
        "services.loadbalancers": "0",
      },
    },
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
