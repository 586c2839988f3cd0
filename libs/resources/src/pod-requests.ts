import { type Amounts, parseAmounts } from "./amounts.ts";

type Quantities = Readonly<Record<string, string>>;

type Requesting = {
  readonly resources?: { readonly requests?: Quantities; readonly limits?: Quantities };
};

/** The part of a pod's spec that decides its requests. */
export type RequestingPod = Requesting & {
  readonly containers: readonly Requesting[];
  readonly initContainers?: readonly (Requesting & { readonly restartPolicy?: string })[];
  readonly overhead?: Quantities;
};

/**
 * The requests of a pod, as kube-scheduler counts them. Containers and sidecars count together, or an init container with the sidecars started before it if
 * that is more. Requests at pod level replace both. The overhead is added.
 * https://kubernetes.io/docs/concepts/workloads/pods/sidecar-containers/#resource-sharing-within-containers
 */
export function computePodRequests(pod: RequestingPod): Amounts {
  const running = new Map<string, number>();
  for (const container of pod.containers) add(running, readRequests(container));
  const sidecars = new Map<string, number>();
  const starting = new Map<string, number>();
  for (const container of pod.initContainers ?? []) {
    const own = readRequests(container);
    if (container.restartPolicy === "Always") add(sidecars, own);
    else for (const [resource, amount] of own) raise(starting, resource, amount + (sidecars.get(resource) ?? 0));
  }
  add(running, sidecars);
  for (const [resource, amount] of starting) raise(running, resource, amount);
  for (const [resource, amount] of readRequests(pod)) running.set(resource, amount);
  add(running, parseAmounts(pod.overhead ?? {}));
  return running;
}

/** Counts a limit without a request as a request, as the API server does. */
function readRequests({ resources }: Requesting): Amounts {
  return parseAmounts({ ...resources?.limits, ...resources?.requests });
}

function add(total: Map<string, number>, more: Amounts): void {
  for (const [resource, amount] of more) total.set(resource, (total.get(resource) ?? 0) + amount);
}

function raise(total: Map<string, number>, resource: string, amount: number): void {
  total.set(resource, Math.max(total.get(resource) ?? 0, amount));
}
