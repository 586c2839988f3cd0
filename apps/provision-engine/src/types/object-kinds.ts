import type { KubeResource } from "@muster/kube";

/** A kind of Kubernetes, and how its objects go. */
export type ObjectKind = Pick<KubeResource, "apiVersion" | "plural"> & {
  readonly kind: string;
  /** Kubernetes makes others of it, which are gone before it is. */
  readonly hasMembers?: true;
  /** Of a namespace: it stays while one of these is in it that is not going already, whosever it is. */
  readonly keptBy?: readonly ObjectKind[];
  /** Of a namespace: once it is going, each pod in it has no more than so many seconds to end, whatever it says itself. */
  readonly podGraceSeconds?: number;
};

/** Kinds of Kubernetes that leases are made of. What is asked for here stands in the role of deploy/kubernetes. */
export const KINDS = {
  namespace: { apiVersion: "v1", kind: "Namespace", plural: "namespaces" },
  networkPolicy: { apiVersion: "networking.k8s.io/v1", kind: "NetworkPolicy", plural: "networkpolicies" },
  volumeClaim: { apiVersion: "v1", kind: "PersistentVolumeClaim", plural: "persistentvolumeclaims" },
  secret: { apiVersion: "v1", kind: "Secret", plural: "secrets" },
  service: { apiVersion: "v1", kind: "Service", plural: "services" },
  deployment: { apiVersion: "apps/v1", kind: "Deployment", plural: "deployments", hasMembers: true },
  statefulSet: { apiVersion: "apps/v1", kind: "StatefulSet", plural: "statefulsets", hasMembers: true },
  resourceQuota: { apiVersion: "v1", kind: "ResourceQuota", plural: "resourcequotas" },
  limitRange: { apiVersion: "v1", kind: "LimitRange", plural: "limitranges" },
  serviceAccount: { apiVersion: "v1", kind: "ServiceAccount", plural: "serviceaccounts" },
  clusterRole: { apiVersion: "rbac.authorization.k8s.io/v1", kind: "ClusterRole", plural: "clusterroles" },
  roleBinding: { apiVersion: "rbac.authorization.k8s.io/v1", kind: "RoleBinding", plural: "rolebindings" },
  pod: { apiVersion: "v1", kind: "Pod", plural: "pods" },
} as const satisfies Record<string, ObjectKind>;
