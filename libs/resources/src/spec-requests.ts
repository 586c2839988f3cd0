import { parseAmount } from "./amounts.ts";
import { computePodRequests, type RequestingPod } from "./pod-requests.ts";
import { NO_DEFAULTS, type PodDefaults } from "./pod-defaults.ts";
import { isObject, toQuantities, toQuantity, toText, type PlainObject } from "./written-fields.ts";

/** The requests of a pod on its node, by resource: millicores of cpu, and otherwise bytes or pieces. */
export type Requests = Readonly<Record<string, number>>;

/** The written fields of a pod's spec that decide its requests; everything else is ignored. */
export type WrittenPodSpec = {
  readonly containers?: readonly PlainObject[];
  readonly initContainers?: readonly PlainObject[];
  readonly resources?: unknown;
  readonly overhead?: unknown;
  readonly runtimeClassName?: unknown;
};

/**
 * The requests of a pod with this spec, sorted by resource, without amounts of 0, as admission with these defaults leaves them. An overhead in the spec is that
 * of the RuntimeClass, and counts once.
 */
export function computeSpecRequests(spec: WrittenPodSpec, defaults: PodDefaults = NO_DEFAULTS): Requests {
  const overhead = defaults.overheads.get(toText(spec.runtimeClassName));
  const pod: RequestingPod = {
    ...readResources(spec),
    containers: (spec.containers ?? []).map((container) => containerResources(container, defaults)),
    initContainers: (spec.initContainers ?? []).map((container) => ({
      ...containerResources(container, defaults),
      ...(typeof container["restartPolicy"] === "string" && { restartPolicy: container["restartPolicy"] }),
    })),
    overhead: overhead ?? toQuantities(spec.overhead),
  };
  const requests = [...computePodRequests(pod)].filter(([, amount]) => amount > 0);
  return Object.fromEntries(requests.sort(([one], [other]) => (one < other ? -1 : 1)));
}

/** The maximum amount, 8 PiB: sums of such amounts are exact numbers. */
const MAX_AMOUNT = 2 ** 43 * 1024;

/** Describes the quantities that `isCountable` accepts. */
export const COUNTABLE = "a quantity from 0 to 8Pi, such as 500m or 2Gi";

/** Whether the ledger can count this quantity of a resource. */
export function isCountable(resource: string, quantity: unknown): boolean {
  const amount = parseAmount(resource, toQuantity(quantity));
  return amount !== undefined && amount >= 0 && amount <= MAX_AMOUNT;
}

/** A limit without a request is a request before the defaults of a LimitRange apply. */
function containerResources(container: PlainObject, { requests }: PodDefaults): Pick<RequestingPod, "resources"> {
  const own = readResources(container).resources;
  return { resources: { requests: { ...requests, ...own?.limits, ...own?.requests } } };
}

function readResources({ resources }: { readonly resources?: unknown }): Pick<RequestingPod, "resources"> {
  if (!isObject(resources)) return {};
  return { resources: { requests: toQuantities(resources["requests"]), limits: toQuantities(resources["limits"]) } };
}
