import type { ObjectKind } from "./lease-objects.ts";

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
