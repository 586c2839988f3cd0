import { isRejecting, type RejectedPod } from "@muster/health";
import { isCrowdedOut, type ComponentPlace } from "@muster/resources";
import type { UnitSeen } from "../snapshot.ts";
import { parsePlaceNumber, findPlaceSet, type BatchPod, type BatchSnapshot } from "./batch-job.ts";

/** A granted machine, or a granted part of one, for one pod at a time. */
export type PodPlace = {
  readonly unitId: string;
  readonly component: string;
  readonly node: string;
  readonly isShared: boolean;
  readonly isLost: boolean;
};

/** A pod that must be deleted, so that Kubernetes replaces it. */
export type MisplacedPod = { readonly pod: BatchPod; readonly because: "machine-lost" | "not-granted" | "place-taken" };

/** The places of the pods of a Job, and the free places. */
export type Placement = {
  /** The places by component. */
  readonly places: ReadonlyMap<string, PodPlace>;
  /** Components of places that have an unfinished pod. */
  readonly occupied: ReadonlySet<string>;
  readonly misplaced: readonly MisplacedPod[];
  readonly placed: readonly { readonly pod: BatchPod; readonly place: PodPlace }[];
  /** Gated pods without a place, the oldest first. */
  readonly unplaced: readonly BatchPod[];
};

/**
 * Assigns pods to places. A finished pod leaves its place; a pod that is being deleted keeps it until it is gone. The oldest pods get the first places of their
 * set.
 */
export function findPlaces({ units, pods, ...facts }: Pick<BatchSnapshot, "units" | "pods"> & LossFacts): Placement {
  const places = new Map(listPlaces(units, facts).map((place) => [place.component, place]));
  const unfinished = pods.filter(({ finished }) => !finished).sort(byAge);
  const occupied = new Set<string>();
  const misplaced: MisplacedPod[] = [];
  for (const pod of unfinished.filter(({ component }) => component !== "")) {
    const because = whyMisplaced(pod, places.get(pod.component), occupied);
    if (because !== "not-granted") occupied.add(pod.component);
    if (because !== undefined && !pod.deleting) misplaced.push({ pod, because });
  }
  const waiting = unfinished.filter(({ component, gated, deleting }) => component === "" && gated && !deleting);
  const free = [...places.values()].filter(({ component, isLost }) => !isLost && !occupied.has(component));
  const freeOf = Map.groupBy(free, ({ component }) => findPlaceSet(component));
  const placed = waiting.flatMap((pod) => {
    const place = freeOf.get(pod.set)?.shift();
    return place === undefined ? [] : [{ pod, place }];
  });
  const withPlace = new Set(placed.map(({ pod }) => pod));
  return { places, occupied, misplaced, placed, unplaced: waiting.filter((pod) => !withPlace.has(pod)) };
}

/** Lists pods that may run on granted machines. A gated pod without a place runs nowhere. */
export function listRunningPods({ pods }: Pick<BatchSnapshot, "pods">): readonly BatchPod[] {
  return pods.filter(({ finished, component, scheduled }) => !finished && (component !== "" || scheduled));
}

/** Lists the granted places where no pod runs yet, with the requests of the next one. */
export function listEmptyPlaces({ job, units, pods }: Pick<BatchSnapshot, "job" | "units" | "pods">): ComponentPlace[] {
  const needs = new Map(job.sets.map(({ name, need }) => [name, need]));
  const running = new Set(
    pods.flatMap(({ finished, scheduled, component }) => (scheduled && !finished ? component : [])),
  );
  const granted = units.flatMap((unit) => (unit.state === "granted" ? [...unit.nodes] : []));
  return granted.flatMap(([component, node]): ComponentPlace[] => {
    const need = needs.get(findPlaceSet(component));
    if (need === undefined || "problems" in need || running.has(component)) return [];
    return [{ component, node, requests: () => need.shared ?? need.selection?.minimum ?? {} }];
  });
}

/** The facts that decide whether a place is lost. */
type LossFacts = Pick<BatchSnapshot, "nowMs" | "nodesLost" | "crowded" | "rejections">;

function listPlaces(units: readonly UnitSeen[], { nowMs, nodesLost, crowded = [], rejections }: LossFacts): PodPlace[] {
  const lost = new Set(nodesLost);
  const places = units.flatMap((unit) => {
    if (unit.state !== "granted") return [];
    return [...unit.nodes].map(([component, node]): PodPlace => {
      const isShared = unit.shares?.has(component) === true;
      const isLost =
        lost.has(node) || isCrowdedOut(crowded, component, node) || isRejecting(rejections, { component, node }, nowMs);
      return { unitId: unit.id, component, node, isShared, isLost };
    });
  });
  return places.sort((one, other) => parsePlaceNumber(one.component) - parsePlaceNumber(other.component));
}

function whyMisplaced(
  pod: BatchPod,
  place: PodPlace | undefined,
  occupied: ReadonlySet<string>,
): MisplacedPod["because"] | undefined {
  if (place === undefined || place.node !== pod.place) return "not-granted";
  if (occupied.has(pod.component)) return "place-taken";
  return place.isLost && !pod.scheduled ? "machine-lost" : undefined;
}

/** Sorts pods by age; a scheduled pod goes before a waiting one of the same place. */
function byAge(one: BatchPod, other: BatchPod): number {
  const order = Number(other.scheduled) - Number(one.scheduled) || one.createdMs - other.createdMs;
  return order === 0 ? (one.name < other.name ? -1 : 1) : order;
}

/** Finds the pods that their nodes rejected, so that no container started. Kubernetes keeps them until their Job is deleted. */
export function listRejectedPods(pods: readonly BatchPod[]): readonly RejectedPod[] {
  return pods.flatMap(({ uid, component, place, rejectedBecause }): RejectedPod[] =>
    rejectedBecause === undefined || place === undefined
      ? []
      : [{ uid, component, node: place, text: rejectedBecause }],
  );
}
