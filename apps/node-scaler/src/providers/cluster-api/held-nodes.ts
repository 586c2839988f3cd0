import { throwFault } from "@muster/faults";
import type { KubeObject } from "@muster/kube";

/** On a MachineDeployment: the machine of each node as JSON, from the name of the node to the name of the machine, or to null before it has one. */
const NODES_ANNOTATION = "muster.dev/nodes";
/** On a MachineDeployment: the controller that scales it. */
const CONTROLLER_ANNOTATION = "muster.dev/controller";
/** On a Machine: it is deleted first when its MachineDeployment shrinks. */
export const DELETE_ANNOTATION = "cluster.x-k8s.io/delete-machine";

/** The limit exists because all names are in one annotation, and Kubernetes limits an object's annotations to 256 KiB. */
export const MAX_NODES = 1000;

/** Maps nodes to machines; null means none yet. Its size is the number of replicas. */
export type HeldNodes = Readonly<Record<string, string | null>>;

export type MachineDeployment = KubeObject & {
  readonly spec?: { readonly replicas?: number; readonly deletion?: { readonly order?: string } };
};

/**
 * Reads the scaler's nodes of a MachineDeployment. Throws invalid_request for one that the scaler must not change: it belongs to another controller, has
 * foreign machines, or does not delete the newest machine first. That order is needed because a node may end before its machine is known.
 */
export function readHeldNodes(deployment: MachineDeployment, controller: string): HeldNodes {
  const { metadata, spec } = deployment;
  const name = metadata?.name ?? "";
  const refuse = (reason: string): never =>
    throwFault({ code: "invalid_request", field: `MachineDeployment ${name}`, reason });
  const annotations = metadata?.annotations ?? {};
  const owner = annotations[CONTROLLER_ANNOTATION];
  if (owner !== undefined && owner !== controller) return refuse(`is scaled by "${owner}"`);
  if (spec?.deletion?.order !== "Newest") {
    return refuse(`has spec.deletion.order ${spec?.deletion?.order ?? "Random"}; Newest is needed`);
  }
  if (owner === undefined) {
    const replicas = spec.replicas ?? 1;
    return replicas === 0
      ? {}
      : refuse(`has ${replicas} replicas that the scaler did not request; it must begin with 0`);
  }
  return (
    parseHoldings(annotations[NODES_ANNOTATION] ?? "{}") ??
    refuse(`has an annotation ${NODES_ANNOTATION} that is not an object of names`)
  );
}

/** Builds the patch that writes these nodes to a MachineDeployment; a concurrent change makes the API server refuse it. */
export function buildHeldNodesPatch(deployment: MachineDeployment, holdings: HeldNodes, controller: string): object {
  return {
    metadata: {
      resourceVersion: deployment.metadata?.resourceVersion,
      annotations: { [CONTROLLER_ANNOTATION]: controller, [NODES_ANNOTATION]: JSON.stringify(holdings) },
    },
    spec: { replicas: Object.keys(holdings).length },
  };
}

export function withoutNode(holdings: HeldNodes, nodeName: string): HeldNodes {
  return Object.fromEntries(Object.entries(holdings).filter(([name]) => name !== nodeName));
}

function parseHoldings(text: string): HeldNodes | undefined {
  try {
    const value: unknown = JSON.parse(text);
    if (typeof value !== "object" || value === null || Array.isArray(value)) return undefined;
    const entries = Object.entries(value).map(([name, machine]) => [
      name,
      typeof machine === "string" ? machine : null,
    ]);
    return Object.fromEntries(entries) as HeldNodes;
  } catch {
    return undefined;
  }
}
