import { definitionResource } from "./custom/definition-resource.ts";
import { configMaps, leases, namespaces, secrets, serviceAccounts } from "./kinds/core.ts";
import { deployments, replicaSets } from "./kinds/deployment.ts";
import { disruptionBudgets } from "./kinds/disruption-budget.ts";
import { events } from "./kinds/event.ts";
import { limitRanges } from "./kinds/limit-range.ts";
import { networkPolicies } from "./kinds/network-policy.ts";
import { nodes } from "./kinds/node.ts";
import { pods } from "./kinds/pod.ts";
import { resourceQuotas } from "./kinds/resource-quota.ts";
import { accessReviews, subjectAccessReviews, subjectReviews, tokenReviews } from "./kinds/review.ts";
import { clusterRoleBindings, clusterRoles, roleBindings, roles } from "./kinds/role.ts";
import { services } from "./kinds/service.ts";
import { statefulSets } from "./kinds/stateful-set.ts";
import { volumeClaims } from "./kinds/volume-claim.ts";
import { buildApiVersion, type Resource } from "./resource.ts";

/** Every built-in resource. A new kind is a line here and a file in kinds/. */
export const resources: readonly Resource[] = [
  configMaps,
  events,
  limitRanges,
  namespaces,
  nodes,
  volumeClaims,
  pods,
  resourceQuotas,
  secrets,
  serviceAccounts,
  services,
  leases,
  deployments,
  replicaSets,
  statefulSets,
  disruptionBudgets,
  roles,
  roleBindings,
  clusterRoles,
  clusterRoleBindings,
  networkPolicies,
  definitionResource,
  accessReviews,
  subjectAccessReviews,
  subjectReviews,
  tokenReviews,
];

/** The resources that the server serves now. */
export type Catalogue = {
  all(): readonly Resource[];
  find(group: string, version: string, plural: string): Resource | undefined;
  findKind(apiVersion: string, kind: string): Resource | undefined;
};

/** The built-in resources, and the current ones of `custom`. */
export function makeCatalogue(custom: () => readonly Resource[] = () => []): Catalogue {
  const all = (): readonly Resource[] => [...resources, ...custom()];
  return {
    all,
    find: (group, version, plural) =>
      all().find((one) => one.group === group && one.version === version && one.plural === plural),
    findKind: (apiVersion, kind) => all().find((one) => buildApiVersion(one) === apiVersion && one.kind === kind),
  };
}
