import { commonTolerations, isCrowdedOut, type Toleration, type Requests } from "@muster/resources";
import { componentOf, ownerIdOf } from "./build-units.ts";
import { mayRun, podsOf } from "./job-pods.ts";
import type { JobStatus } from "./job-status.ts";
import { holds } from "./requests.ts";
import type { PodFact, Snapshot, UnitSeen } from "./snapshot.ts";

export type GrantedUnit = Extract<UnitSeen, { readonly state: "granted" }>;

/** The machine of a member. With `isShared`, the member has a part of it. */
export type GrantedMachine = { readonly node: string; readonly isShared: boolean };

/**
 * The machine that each member may run on: that of its own unit, else that of the gang's. A member whose machine is lost has none until it gets another one.
 * Neither has a member that requests more than its part of a machine holds.
 */
export function machinesOf(snapshot: Snapshot, status: JobStatus): ReadonlyMap<string, GrantedMachine> {
  const gangId = ownerIdOf(snapshot.job);
  const machines = new Map<string, GrantedMachine>();
  const needs = needsOf(snapshot.spec);
  // The gang's first, so that a unit of a single member overrides it.
  const granted = snapshot.units.filter((unit) => unit.state === "granted");
  const gang = granted.find(({ id }) => id === gangId);
  for (const unit of [...granted.filter(({ id }) => id === gangId), ...granted.filter(({ id }) => id !== gangId)]) {
    for (const [component, node] of unit.nodes) {
      const isReplaced = status.replaced.includes(component);
      if (unit.id === gangId && isReplaced) continue;
      // Such a unit of a single member is about to be released.
      if (unit.id !== gangId && !isReplaced && gang?.nodes.has(component) === true) continue;
      // Its machine is taken, and the member waits for another one.
      if (unit.id !== gangId && unit.preemption !== undefined) continue;
      if (isLostTo(snapshot, component, node) || isOutgrown(unit, component, needs)) continue;
      machines.set(component, { node, isShared: unit.shares?.has(component) === true });
    }
  }
  return machines;
}

/** Where the job's pods may be. */
export type Places = {
  /** The machines of each member, as `machinesOf` returns them. */
  readonly machines: ReadonlyMap<string, GrantedMachine>;
  /** Everything that the ledger has granted to the job; undefined while it is unknown. */
  readonly held: HeldMachines | undefined;
};

/** By node: the job holds the whole node, or parts of it for these members. */
export type HeldMachines = ReadonlyMap<string, "whole" | ReadonlySet<string>>;

/** Everything that the job holds; undefined while the ledger has not answered. */
export function heldMachines({ units }: Pick<Snapshot, "units">): HeldMachines | undefined {
  if (units.some(({ state }) => state === "unknown")) return undefined;
  const held = new Map<string, "whole" | Set<string>>();
  for (const unit of units) {
    if (unit.state !== "granted") continue;
    for (const [component, node] of unit.nodes) {
      const there = held.get(node) ?? new Set<string>();
      const isWhole = there === "whole" || unit.shares?.has(component) !== true;
      held.set(node, isWhole ? "whole" : there.add(component));
    }
  }
  return held;
}

/**
 * Whether the pod may run on a machine that the job does not hold, or holds only for other members: a frozen process created it after it had lost the lead.
 */
export function isStray(pod: PodFact, held: Places["held"]): boolean {
  const place = pod.node ?? pod.pinned;
  // A pod without a member's label is not ours, and no machine was reserved for it.
  return mayRun(pod) && held !== undefined && place !== undefined && pod.component !== "" && !isHome(pod, place, held);
}

/** Whether the job holds this place for the member of the pod. */
export function isHome({ component }: PodFact, place: string, held: HeldMachines): boolean {
  const there = held.get(place);
  return there === "whole" || there?.has(component) === true;
}

/**
 * Whether a pod runs, or would be placed, where its member must not run: on a lost machine, on a machine that the job does not hold for it, or, while it has no
 * node, on another machine than its member's. A pod stays bound to the machine that it was created for, so only recreating it helps. False while the ledger
 * has not answered.
 */
export function isMisplaced(snapshot: Snapshot, pod: PodFact, { machines, held }: Places): boolean {
  const place = pod.node ?? pod.pinned;
  if (place === undefined || !mayRun(pod)) return false;
  if (snapshot.nodesLost.includes(place)) return true;
  if (pod.node === undefined && snapshot.nodesUnschedulable?.includes(place) === true) return true;
  if (pod.node === undefined && isCrowdedOut(snapshot.crowded ?? [], pod.component, place)) return true;
  const gang = snapshot.units.find(({ id }) => id === ownerIdOf(snapshot.job));
  if (gang?.state !== "granted") return false;
  const own = machines.get(pod.component);
  return (pod.node === undefined && own !== undefined && own.node !== place) || isStray(pod, held);
}

/** Whether the member cannot use its machine. Kubernetes places no pod on an unschedulable node; a pod that runs there stays. */
export function isLostTo(snapshot: Snapshot, component: string, node: string): boolean {
  const { nodesLost, nodesUnschedulable = [], crowded = [] } = snapshot;
  if (nodesLost.includes(node) || isCrowdedOut(crowded, component, node)) return true;
  if (!nodesUnschedulable.includes(node)) return false;
  return !podsOf(snapshot).some((pod) => pod.component === component && pod.node === node && mayRun(pod));
}

/** Whether the member has a part of a machine that does not hold what it requests now. */
export function isOutgrown({ shares }: GrantedUnit, component: string, needs: Needs): boolean {
  return needs.has(component) && !holds(shares?.get(component), needs.get(component));
}

/** Whether a member needs more than its part while the job has no pod: the new request would wait for the parts that the job itself holds. */
export function isWholeGangOutgrown(snapshot: Snapshot): boolean {
  const gang = snapshot.units.find(({ id }) => id === ownerIdOf(snapshot.job));
  if (gang?.state !== "granted" || !snapshot.podsSettled || podsOf(snapshot).length > 0) return false;
  const needs = needsOf(snapshot.spec);
  return [...gang.nodes.keys()].some((component) => isOutgrown(gang, component, needs));
}

/** The requests of each member; undefined: a whole machine. */
type Needs = ReadonlyMap<string, Requests | undefined>;

export function needsOf(spec: Snapshot["spec"]): Needs {
  if ("problems" in spec) return new Map();
  return new Map(
    spec.replicas.flatMap(({ type, replicas, shared }) =>
      Array.from({ length: replicas }, (_, index) => [componentOf({ type, index }), shared] as const),
    ),
  );
}

/** Nodes that members share: a pod of one member there does not show that the pods of the others can be placed. */
export function sharedNodes(units: readonly UnitSeen[]): ReadonlySet<string> {
  return new Set(
    units.flatMap((unit) => {
      if (unit.state !== "granted" || unit.shares === undefined) return [];
      const { nodes, shares } = unit;
      return [...nodes].flatMap(([component, node]) => (shares.has(component) ? [node] : []));
    }),
  );
}

/** By granted node, the tolerations that all members of the node have. */
export function tolerationsByNode(
  spec: Snapshot["spec"],
  units: readonly UnitSeen[],
): ReadonlyMap<string, readonly Toleration[]> {
  if ("problems" in spec || spec.replicas.every(({ selection }) => selection === undefined)) return new Map();
  const byComponent = new Map(
    spec.replicas.flatMap(({ type, replicas, selection }) =>
      Array.from({ length: replicas }, (_, index) => [componentOf({ type, index }), selection?.tolerations] as const),
    ),
  );
  const machines = units.flatMap((unit) => (unit.state === "granted" ? [...unit.nodes] : []));
  return commonTolerations(
    machines.map(([component, node]) => ({ node, tolerations: byComponent.get(component) ?? [] })),
  );
}
