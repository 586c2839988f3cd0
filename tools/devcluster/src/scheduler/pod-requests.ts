import type { V1Container, V1Pod } from "@kubernetes/client-node";
import { milliQuantity } from "./quantity.ts";

export type Requests = ReadonlyMap<string, number>;

/**
 * What a pod asks of a node at its worst moment, in thousandths per resource: its containers and sidecars together, or an init container beside the
 * sidecars that started before it where that is more; plus the pod's overhead.
 */
export function podRequests(pod: V1Pod): Requests {
  const mains = new Map<string, number>();
  for (const container of pod.spec?.containers ?? []) add(mains, requestsOf(container));
  const sidecars = new Map<string, number>();
  const starting = new Map<string, number>();
  for (const container of pod.spec?.initContainers ?? []) {
    const own = requestsOf(container);
    if (container.restartPolicy === "Always") add(sidecars, own);
    else for (const [resource, milli] of own) raise(starting, resource, milli + (sidecars.get(resource) ?? 0));
  }
  const total = new Map(mains);
  add(total, sidecars);
  for (const [resource, milli] of starting) raise(total, resource, milli);
  add(total, quantities(pod.spec?.overhead ?? {}));
  return total;
}

/** Thousandths of each quantity; what is no quantity counts as nothing. */
export function quantities(texts: Readonly<Record<string, string>>): Requests {
  return new Map(Object.entries(texts).map(([resource, text]) => [resource, milliQuantity(text) ?? 0]));
}

/** A limit without a request is a request, as the API server's defaults say. */
function requestsOf({ resources }: V1Container): Requests {
  return quantities({ ...resources?.limits, ...resources?.requests });
}

function add(total: Map<string, number>, more: Requests): void {
  for (const [resource, milli] of more) total.set(resource, (total.get(resource) ?? 0) + milli);
}

function raise(total: Map<string, number>, resource: string, milli: number): void {
  total.set(resource, Math.max(total.get(resource) ?? 0, milli));
}
