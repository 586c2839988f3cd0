import { printAmount, roundAmount } from "./quantity.ts";
import type { Requests } from "./spec-requests.ts";

/** A machine that a component has and where none of its pods runs yet. */
export type ComponentPlace = {
  readonly component: string;
  readonly node: string;
  /** The requests of its next pod; computed only where foreign pods run. */
  readonly requests: () => Requests;
};

/** The facts about a node that decide whether a pod fits there. */
export type PlaceLoad = {
  /** The amounts that pods can request, less the overhead. */
  readonly allocatable: Requests;
  /** Pods that are neither Muster's nor overhead. */
  readonly foreign: { readonly pods: number; readonly requests: Requests; readonly examples: readonly string[] };
  /** Pods of Muster that are not exclusive, those of the same owner included. */
  readonly shared: readonly { readonly pods: number; readonly requests: Requests }[];
};

/** A component whose pod does not fit on its machine beside the foreign pods there. */
export type CrowdedComponent = {
  readonly component: string;
  readonly node: string;
  readonly resources: readonly { readonly resource: string; readonly requested: number; readonly free: number }[];
  readonly foreign: { readonly pods: number; readonly examples: readonly string[] };
  readonly sinceMs: number;
  /** True if the crowding has lasted too long: the machine counts as lost. */
  readonly isLost: boolean;
};

/** Since when each component is crowded out, by component and node. */
export type CrowdingMemory = ReadonlyMap<string, number>;

/** Finds the places whose foreign pods prevent a pod from being scheduled. `loadOf` returns undefined for a node of unknown size. */
export function findCrowded(
  places: readonly ComponentPlace[],
  loadOf: (node: string) => PlaceLoad | undefined,
  memory: CrowdingMemory,
  { nowMs, waitMs }: { readonly nowMs: number; readonly waitMs: number },
): { readonly crowded: readonly CrowdedComponent[]; readonly memory: CrowdingMemory } {
  const next = new Map<string, number>();
  const crowded = places.flatMap(({ component, node, requests }): CrowdedComponent[] => {
    const load = loadOf(node);
    if (load === undefined || load.foreign.pods === 0) return [];
    const resources = findShortResources(requests(), load);
    if (resources.length === 0) return [];
    const key = `${component} ${node}`;
    const sinceMs = Math.min(nowMs, memory.get(key) ?? nowMs);
    next.set(key, sinceMs);
    const { pods, examples } = load.foreign;
    return [{ component, node, resources, foreign: { pods, examples }, sinceMs, isLost: nowMs - sinceMs >= waitMs }];
  });
  return { crowded, memory: next };
}

function findShortResources(
  requests: Requests,
  { allocatable, foreign, shared }: PlaceLoad,
): CrowdedComponent["resources"] {
  const uses = [foreign, ...shared];
  const freeOf = (resource: string): number => {
    const used = uses.reduce((sum, use) => sum + (use.requests[resource] ?? 0), 0);
    return Math.max(0, (allocatable[resource] ?? 0) - used);
  };
  const freePods = Math.max(0, (allocatable["pods"] ?? 0) - uses.reduce((sum, { pods }) => sum + pods, 0));
  return [
    ...Object.entries(requests).map(([resource, requested]) => ({ resource, requested, free: freeOf(resource) })),
    { resource: "pods", requested: 1, free: freePods },
  ].filter(({ requested, free }) => free < requested);
}

/** Whether the machine is lost to the component, because foreign pods have taken its room for too long. */
export function isCrowdedOut(crowded: readonly CrowdedComponent[], component: string, node: string): boolean {
  return crowded.some((each) => each.isLost && each.component === component && each.node === node);
}

/** Describes node, short resources and foreign pods. */
export function describeCrowding({ node, resources, foreign }: CrowdedComponent): string {
  const short = resources.map(({ resource, requested, free }) => {
    return `${resource} (${printAmount(resource, requested)} requested, ${roundAmount(resource, free)} free)`;
  });
  const more = foreign.pods - foreign.examples.length;
  const others = more > 0 ? ` and ${more} more` : "";
  const pods = foreign.examples.length === 0 ? `${foreign.pods}` : `${foreign.examples.join(", ")}${others}`;
  return `node ${node} has no room for it: short of ${short.join(" and ")}; foreign pods there: ${pods}`;
}
