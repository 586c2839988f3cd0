import type { KubeResource } from "@muster/kube";

/** A kind of Kubernetes objects, and how they are removed. */
export type ObjectKind = Pick<KubeResource, "apiVersion" | "plural"> & {
  readonly kind: string;
  /** Kubernetes creates dependents of these objects, which are removed first. */
  readonly hasMembers?: true;
  /** For a namespace: kinds whose objects keep the namespace unless they are terminating, regardless of their owner. */
  readonly keptBy?: readonly ObjectKind[];
  /** For a terminating namespace: the maximum grace period of its pods, which overrides their own. */
  readonly podGraceSeconds?: number;
};

/** Kinds of objects that leases consist of. The role in deploy/kubernetes allows exactly these. */
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
