import { buildNodeAffinity, type LeaseNodes } from "./lease-nodes.ts";

/** Exactly what is counted, no more and no less. Without a limit of `ephemeral-storage` one pod could fill the disk of its node, and have others evicted. */
export type PodResources = {
  readonly cpu: string;
  readonly memory: string;
  readonly "ephemeral-storage": string;
};

type PodParts<Container, Volume> = {
  readonly container: Container & { readonly name: string; readonly image: string };
  readonly resources: PodResources;
  readonly volumes: readonly Volume[];
  readonly nodes: LeaseNodes;
};

/** The pod of one container that somebody else has ordered: it has nothing of the cluster's own, and cannot gain rights. */
export function buildPod<Container, Volume>({ container, resources, volumes, nodes }: PodParts<Container, Volume>) {
  return {
    automountServiceAccountToken: false,
    enableServiceLinks: false,
    affinity: buildNodeAffinity(nodes),
    securityContext: { seccompProfile: { type: "RuntimeDefault" } },
    containers: [
      {
        ...container,
        resources: { requests: resources, limits: resources },
        securityContext: { allowPrivilegeEscalation: false },
      },
    ],
    volumes,
  };
}
