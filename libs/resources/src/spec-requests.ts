import { amountOf } from "./amounts.ts";
import { podRequests, type RequestingPod } from "./pod-requests.ts";
import { isObject, type PlainObject } from "./written-fields.ts";

/** What a pod requests of its node, by resource: millicores of cpu, and otherwise bytes or pieces. */
export type Requests = Readonly<Record<string, number>>;

/** The fields of the spec of a pod that decide what it requests, as they are written; everything else is ignored. */
export type WrittenPodSpec = {
  readonly containers?: readonly PlainObject[];
  readonly initContainers?: readonly PlainObject[];
  readonly resources?: unknown;
  readonly overhead?: unknown;
};

/**
 * The requests of a pod with this spec, sorted by resource, without amounts of 0. LimitRange and RuntimeClass are not applied: admission adds theirs later.
 */
export function specRequests(spec: WrittenPodSpec): Requests {
  const pod: RequestingPod = {
    ...resourcesOf(spec),
    containers: (spec.containers ?? []).map(resourcesOf),
    initContainers: (spec.initContainers ?? []).map((container) => ({
      ...resourcesOf(container),
      ...(typeof container["restartPolicy"] === "string" && { restartPolicy: container["restartPolicy"] }),
    })),
    overhead: textsOf(spec.overhead),
  };
  const requests = [...podRequests(pod)].filter(([, amount]) => amount > 0);
  return Object.fromEntries(requests.sort(([one], [other]) => (one < other ? -1 : 1)));
}

/** 8 PiB. Sums of such amounts are exact numbers. */
const MAX_AMOUNT = 2 ** 43 * 1024;

/** Describes the quantities that `isCountable` accepts. */
export const COUNTABLE = "a quantity from 0 to 8Pi, such as 500m or 2Gi";

/** Whether the ledger can count this quantity of a resource. */
export function isCountable(resource: string, quantity: unknown): boolean {
  const amount = amountOf(resource, quantityOf(quantity));
  return amount !== undefined && amount >= 0 && amount <= MAX_AMOUNT;
}

function resourcesOf({ resources }: { readonly resources?: unknown }): Pick<RequestingPod, "resources"> {
  if (!isObject(resources)) return {};
  return { resources: { requests: textsOf(resources["requests"]), limits: textsOf(resources["limits"]) } };
}

/** Quantities as texts; a manifest may have numbers. */
function textsOf(quantities: unknown): Readonly<Record<string, string>> {
  if (!isObject(quantities)) return {};
  return Object.fromEntries(Object.entries(quantities).map(([name, value]) => [name, quantityOf(value)]));
}

function quantityOf(value: unknown): string {
  return typeof value === "string" || typeof value === "number" ? String(value) : "";
}
