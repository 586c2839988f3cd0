import { printAmount, roundAmount } from "@muster/resources";
import { componentOf } from "./build-units.ts";
import { mayRun } from "./job-pods.ts";
import type { Requests } from "./job.ts";
import type { JobStatus } from "./job-status.ts";
import { requestsOf } from "./read-sharing.ts";
import type { CrowdedMember, PodFact, Snapshot } from "./snapshot.ts";

/** Amounts by resource: millicores of cpu, otherwise bytes or pieces. */
type Amounts = Readonly<Record<string, number>>;

/** A node as far as it decides whether a pod fits there. */
export type NodeLoad = {
  /** What pods can request; less the overhead. */
  readonly allocatable: Amounts;
  /** Pods that are neither Muster's nor overhead. */
  readonly foreign: { readonly pods: number; readonly requests: Amounts; readonly examples: readonly string[] };
  /** Pods of Muster that are not exclusive, those of the job included. */
  readonly shared: readonly { readonly pods: number; readonly requests: Amounts }[];
};

/** Since when each member of a job is crowded out, by member and node. */
export type CrowdingMemory = ReadonlyMap<string, number>;

type Job = Pick<Snapshot, "spec" | "units"> & {
  readonly status: Pick<JobStatus, "replicas">;
  readonly pods: readonly PodFact[];
};

/**
 * The members that the foreign pods of their machines keep from being placed. A member whose pod runs on its machine, or that has completed, is none. `loadOf`
 * returns undefined for a node whose size is unknown.
 */
export function findCrowding(
  job: Job,
  loadOf: (node: string) => NodeLoad | undefined,
  memory: CrowdingMemory,
  { nowMs, waitMs }: { readonly nowMs: number; readonly waitMs: number },
): { readonly crowded: readonly CrowdedMember[]; readonly memory: CrowdingMemory } {
  const needs = needsOf(job);
  const places = job.units.flatMap((unit) => (unit.state === "granted" ? [...unit.nodes] : []));
  const next = new Map<string, number>();
  const crowded = places.flatMap(([component, node]): CrowdedMember[] => {
    const requests = needs.get(component);
    const load = requests === undefined || hasPodOn(job.pods, component, node) ? undefined : loadOf(node);
    if (requests === undefined || load === undefined || load.foreign.pods === 0) return [];
    const resources = shortResources(requests(), load);
    if (resources.length === 0) return [];
    const key = `${component} ${node}`;
    const sinceMs = Math.min(nowMs, memory.get(key) ?? nowMs);
    next.set(key, sinceMs);
    const { pods, examples } = load.foreign;
    return [{ component, node, resources, foreign: { pods, examples }, sinceMs, isLost: nowMs - sinceMs >= waitMs }];
  });
  return { crowded, memory: next };
}

/** Of each member that has not completed, what its next pod requests; computed only where foreign pods run. */
function needsOf({ spec, status }: Pick<Job, "spec" | "status">): ReadonlyMap<string, () => Requests> {
  if ("problems" in spec) return new Map();
  return new Map(
    spec.replicas.flatMap(({ type, replicas, shared, template }) => {
      const completed = status.replicas.find((each) => each.type === type)?.completedIndexes ?? [];
      const requests = (): Requests => shared ?? requestsOf(template, []);
      return Array.from({ length: replicas }, (_, index) => index)
        .filter((index) => !completed.includes(index))
        .map((index) => [componentOf({ type, index }), requests] as const);
    }),
  );
}

function hasPodOn(pods: readonly PodFact[], component: string, node: string): boolean {
  return pods.some((pod) => pod.component === component && pod.node === node && mayRun(pod));
}

function shortResources(requests: Requests, { allocatable, foreign, shared }: NodeLoad) {
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

/** Whether the machine is lost to the member, because foreign pods have taken its room for too long. */
export function isCrowdedOut({ crowded = [] }: Pick<Snapshot, "crowded">, component: string, node: string): boolean {
  return crowded.some((each) => each.isLost && each.component === component && each.node === node);
}

/** Marks the messages of `describeCrowding`. */
export const FOREIGN_PODS = "foreign pods there";

/** Node, short resources and foreign pods, for people. */
export function describeCrowding({ node, resources, foreign }: CrowdedMember): string {
  const short = resources.map(({ resource, requested, free }) => {
    return `${resource} (${printAmount(resource, requested)} requested, ${roundAmount(resource, free)} free)`;
  });
  const more = foreign.pods - foreign.examples.length;
  const others = more > 0 ? ` and ${more} more` : "";
  const pods = foreign.examples.length === 0 ? `${foreign.pods}` : `${foreign.examples.join(", ")}${others}`;
  return `node ${node} has no room for it: short of ${short.join(" and ")}; ${FOREIGN_PODS}: ${pods}`;
}
