import { isRejecting } from "@muster/health";
import { listCommonTolerations, isCrowdedOut, type Toleration, type Requests } from "@muster/resources";
import { buildComponentName, buildOwnerId } from "./build-units.ts";
import { canRun, listPods } from "./job-pods.ts";
import type { JobStatus } from "./job-status.ts";
import { canHoldRequests } from "./requests.ts";
import type { PodFact, Snapshot, UnitSeen } from "./snapshot.ts";

export type GrantedUnit = Extract<UnitSeen, { readonly state: "granted" }>;

/** The machine of a member. With `isShared` the member has only a part of it. */
export type GrantedMachine = { readonly node: string; readonly isShared: boolean };

/**
 * Returns the machine on which each member may run: that of its own unit, or else of the gang's. A member has no machine while it waits for a replacement of a
 * lost one, or while it requests more than its part of a machine.
 */
export function listMemberMachines(snapshot: Snapshot, status: JobStatus): ReadonlyMap<string, GrantedMachine> {
  const gangId = buildOwnerId(snapshot.job);
  const machines = new Map<string, GrantedMachine>();
  const needs = buildNeeds(snapshot.spec);
  // The gang's unit is first, so that a unit of a single member overrides it.
  const granted = snapshot.units.filter((unit) => unit.state === "granted");
  const gang = granted.find(({ id }) => id === gangId);
  for (const unit of [...granted.filter(({ id }) => id === gangId), ...granted.filter(({ id }) => id !== gangId)]) {
    for (const [component, node] of unit.nodes) {
      const isReplaced = status.replaced.includes(component);
      if (unit.id === gangId && isReplaced) continue;
      // Skips the unit of a single member that is about to be released.
      if (unit.id !== gangId && !isReplaced && gang?.nodes.has(component) === true) continue;
      // The machine of the unit is preempted, and the member waits for another one.
      if (unit.id !== gangId && unit.preemption !== undefined) continue;
      if (isLostTo(snapshot, component, node) || isPartTooSmall(unit, component, needs)) continue;
      machines.set(component, { node, isShared: unit.shares?.has(component) === true });
    }
  }
  return machines;
}

/** The machines on which the job's pods may run. */
export type MachinePlaces = {
  /** The machines of each member, as `listMemberMachines` returns them. */
  readonly machines: ReadonlyMap<string, GrantedMachine>;
  /** All grants of the ledger to the job; undefined while they are unknown. */
  readonly held: HeldMachines | undefined;
};

/** Maps a node to "whole" if the job has the whole node, or to the members that have parts of it. */
export type HeldMachines = ReadonlyMap<string, "whole" | ReadonlySet<string>>;

/** Returns all machines of the job; undefined before the ledger has answered. */
export function findHeldMachines({ units }: Pick<Snapshot, "units">): HeldMachines | undefined {
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
 * Whether the pod may run on a machine that its job no longer holds, or holds only for other members. A frozen process can create such a pod after it has lost
 * the lead.
 */
export function isStray(pod: PodFact, held: MachinePlaces["held"]): boolean {
  const place = pod.node ?? pod.pinned;
  // A pod without a member's label is not ours, and has no reserved machine.
  return (
    canRun(pod) &&
    held !== undefined &&
    place !== undefined &&
    pod.component !== "" &&
    !isOnOwnMachine(pod, place, held)
  );
}

/** Whether the job has this machine for the pod's member. */
export function isOnOwnMachine({ component }: PodFact, place: string, held: HeldMachines): boolean {
  const there = held.get(place);
  return there === "whole" || there?.has(component) === true;
}

/**
 * Whether a pod runs, or would be placed, where its member must not run: the machine is lost, or the job does not have it for the member. A pod without a node
 * must also not be bound to a machine other than its member's. Only recreation helps, because a pod stays bound to the machine for which it was created. False
 * before the ledger has answered.
 */
export function isMisplaced(snapshot: Snapshot, pod: PodFact, { machines, held }: MachinePlaces): boolean {
  const place = pod.node ?? pod.pinned;
  if (place === undefined || !canRun(pod)) return false;
  if (snapshot.nodesLost.includes(place)) return true;
  if (pod.node === undefined && snapshot.nodesUnschedulable?.includes(place) === true) return true;
  if (pod.node === undefined && isCrowdedOut(snapshot.crowded ?? [], pod.component, place)) return true;
  const gang = snapshot.units.find(({ id }) => id === buildOwnerId(snapshot.job));
  if (gang?.state !== "granted") return false;
  const own = machines.get(pod.component);
  return (pod.node === undefined && own !== undefined && own.node !== place) || isStray(pod, held);
}

/** Whether the member cannot use its machine. Kubernetes places no pod on an unschedulable node, but a running pod stays on it. */
export function isLostTo(snapshot: Snapshot, component: string, node: string): boolean {
  const { nodesLost, nodesUnschedulable = [], crowded = [], rejections, nowMs } = snapshot;
  if (nodesLost.includes(node) || isCrowdedOut(crowded, component, node)) return true;
  if (isRejecting(rejections, { component, node }, nowMs)) return true;
  if (!nodesUnschedulable.includes(node)) return false;
  return !listPods(snapshot).some((pod) => pod.component === component && pod.node === node && canRun(pod));
}

/** Whether the member's part of a machine is smaller than its current requests. */
export function isPartTooSmall({ shares }: GrantedUnit, component: string, needs: Needs): boolean {
  return needs.has(component) && !canHoldRequests(shares?.get(component), needs.get(component));
}

/** Whether a member needs more than its part while the job has no pod. The member's new request would wait for parts that the job itself has. */
export function isGangGrantTooSmall(snapshot: Snapshot): boolean {
  const gang = snapshot.units.find(({ id }) => id === buildOwnerId(snapshot.job));
  if (gang?.state !== "granted" || !snapshot.podsSettled || listPods(snapshot).length > 0) return false;
  const needs = buildNeeds(snapshot.spec);
  return [...gang.nodes.keys()].some((component) => isPartTooSmall(gang, component, needs));
}

/** The requests of each member; undefined: a whole machine. */
type Needs = ReadonlyMap<string, Requests | undefined>;

export function buildNeeds(spec: Snapshot["spec"]): Needs {
  if ("problems" in spec) return new Map();
  return new Map(
    spec.replicas.flatMap(({ type, replicas, shared }) =>
      Array.from({ length: replicas }, (_, index) => [buildComponentName({ type, index }), shared] as const),
    ),
  );
}

/** Returns nodes that members share. A running pod of one member does not show that pods of other members can be placed on the node. */
export function listSharedNodes(units: readonly UnitSeen[]): ReadonlySet<string> {
  return new Set(
    units.flatMap((unit) => {
      if (unit.state !== "granted" || unit.shares === undefined) return [];
      const { nodes, shares } = unit;
      return [...nodes].flatMap(([component, node]) => (shares.has(component) ? [node] : []));
    }),
  );
}

/** Returns, by granted node, the tolerations that all members of the node have. */
export function groupTolerationsByNode(
  spec: Snapshot["spec"],
  units: readonly UnitSeen[],
): ReadonlyMap<string, readonly Toleration[]> {
  if ("problems" in spec || spec.replicas.every(({ selection }) => selection === undefined)) return new Map();
  const byComponent = new Map(
    spec.replicas.flatMap(({ type, replicas, selection }) =>
      Array.from(
        { length: replicas },
        (_, index) => [buildComponentName({ type, index }), selection?.tolerations] as const,
      ),
    ),
  );
  const machines = units.flatMap((unit) => (unit.state === "granted" ? [...unit.nodes] : []));
  return listCommonTolerations(
    machines.map(([component, node]) => ({ node, tolerations: byComponent.get(component) ?? [] })),
  );
}
