import { configMaps, leases, namespaces, secrets, serviceAccounts } from "./kinds/core.ts";
import { events, newEvents } from "./kinds/event.ts";
import { nodes } from "./kinds/node.ts";
import { pods } from "./kinds/pod.ts";
import { services } from "./kinds/service.ts";
import { apiVersionOf, type Resource } from "./resource.ts";

/** Every resource that the server has. A new kind is a line here and a file in kinds/. */
export const resources: readonly Resource[] = [
  configMaps,
  events,
  namespaces,
  nodes,
  pods,
  secrets,
  serviceAccounts,
  services,
  leases,
  newEvents,
];

export function findResource(group: string, version: string, plural: string): Resource | undefined {
  return resources.find((one) => one.group === group && one.version === version && one.plural === plural);
}

export function findKind(apiVersion: string, kind: string): Resource | undefined {
  return resources.find((one) => apiVersionOf(one) === apiVersion && one.kind === kind);
}
