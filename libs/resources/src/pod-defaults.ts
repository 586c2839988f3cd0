import { isObject, toObjects, toQuantities, toText } from "./written-fields.ts";

type Quantities = Readonly<Record<string, string>>;

/** The requests that the admission of the API server adds to the pods of a namespace. */
export type PodDefaults = {
  /** Requests of each container that has neither a request nor a limit of the resource, as the LimitRanges of the namespace state. */
  readonly requests: Quantities;
  /** Overhead of pods by the name of the RuntimeClass. */
  readonly overheads: ReadonlyMap<string, Quantities>;
};

export const NO_DEFAULTS: PodDefaults = { requests: {}, overheads: new Map() };

/** A LimitRange as the API server sends it. */
export type WrittenLimitRange = { readonly name: string; readonly limits?: unknown };

/** A RuntimeClass as the API server sends it. */
export type WrittenRuntimeClass = { readonly name: string; readonly overhead?: unknown };

/** Builds the defaults. If several LimitRanges state a resource, the first one by name counts; Kubernetes does not define the order. */
export function buildPodDefaults(
  limitRanges: readonly WrittenLimitRange[],
  runtimeClasses: readonly WrittenRuntimeClass[],
): PodDefaults {
  const inOrder = [...limitRanges].sort((one, other) => (one.name < other.name ? 1 : -1));
  const requests = inOrder.flatMap(({ limits }) => toObjects(limits).filter(isOfContainers).map(readRequests));
  const overheads = runtimeClasses.flatMap(({ name, overhead }) => {
    const fixed = isObject(overhead) ? toQuantities(overhead["podFixed"]) : {};
    return Object.keys(fixed).length === 0 ? [] : [[name, fixed] as const];
  });
  return { requests: Object.assign({}, ...requests) as Quantities, overheads: new Map(overheads) };
}

function isOfContainers(item: Readonly<Record<string, unknown>>): boolean {
  return toText(item["type"]) === "Container";
}

/** Completes an item as the API server does: a missing default request is the default limit, which is the maximum if missing, or else the minimum. */
function readRequests({ defaultRequest, default: limit, max, min }: Readonly<Record<string, unknown>>): Quantities {
  return { ...toQuantities(min), ...toQuantities(max), ...toQuantities(limit), ...toQuantities(defaultRequest) };
}
