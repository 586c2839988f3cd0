import { buildUnits, componentOf, memberUnitId, ownerIdOf, type Unit } from "./build-units.ts";
import type { JobSpec, Requests } from "./job.ts";
import type { JobStatus } from "./job-status.ts";
import type { JobStep, ReleaseReason } from "./plan-steps.ts";
import { holds, sameRequests } from "./requests.ts";
import type { JobPolicy, PodFact, Snapshot, UnitSeen } from "./snapshot.ts";
import { mayRun } from "./summarise-replicas.ts";

type GrantedUnit = Extract<UnitSeen, { readonly state: "granted" }>;

/** The machine of a member, or with `isShared` the one that it has a part of. */
export type GrantedMachine = { readonly node: string; readonly isShared: boolean };

/**
 * The machine that each member may run on: that of its own unit, else that of the gang's. Members whose machine was lost have none until they get another
 * one; so have members that request more by now than their part of a machine holds.
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
      if (isLostTo(snapshot, component, node) || isOutgrown(unit, component, needs)) continue;
      machines.set(component, { node, isShared: unit.shares?.has(component) === true });
    }
  }
  return machines;
}

/** Where the job's pods may be. */
export type Places = {
  /** Of each member, as `machinesOf` returns it. */
  readonly machines: ReadonlyMap<string, GrantedMachine>;
  /** Everything that the ledger has granted to the job; undefined while it is unknown. */
  readonly held: HeldMachines | undefined;
};

/** By node, what is held of it: the whole, or the parts of these members. */
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

function isHome({ component }: PodFact, place: string, held: HeldMachines): boolean {
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
  const gang = snapshot.units.find(({ id }) => id === ownerIdOf(snapshot.job));
  if (gang?.state !== "granted") return false;
  const own = machines.get(pod.component);
  return (pod.node === undefined && own !== undefined && own.node !== place) || isStray(pod, held);
}

/**
 * Members of the gang whose machine is lost, those of earlier passes first: a machine that comes back late is not used again. A member without a pod also
 * needs another one when it requests more than its part of a machine holds; a running pod keeps its part.
 */
export function replacedMembers(snapshot: Snapshot, spec: JobSpec, status: JobStatus): readonly string[] {
  const gang = snapshot.units.find(({ id }) => id === ownerIdOf(snapshot.job));
  if (gang?.state !== "granted") return status.replaced;
  const needs = needsOf(spec);
  const isReplaced = new Set(status.replaced);
  const more = [...gang.nodes]
    .filter(([component]) => needs.has(component) && !isReplaced.has(component))
    .filter(
      ([component, node]) =>
        isLostTo(snapshot, component, node) || (isOutgrown(gang, component, needs) && !hasPod(snapshot, component)),
    )
    .map(([component]) => component)
    .sort();
  return more.length === 0 ? status.replaced : [...status.replaced, ...more];
}

/** Requests missing units and releases unneeded ones; granted machines only once no pod of this job can run on them. */
export function planJobMachines(snapshot: Snapshot, spec: JobSpec, status: JobStatus, policy: JobPolicy): JobStep[] {
  const units = buildUnits(snapshot.job, spec, status, snapshot.units);
  const seen = new Map(snapshot.units.map((unit) => [unit.id, unit]));
  const wanted = new Set(units.map(({ id }) => id));
  const releases = snapshot.units
    .filter(({ id }) => !wanted.has(id))
    .flatMap((unit) => planRelease(snapshot, unit, "scaled-down"));
  const asks = units.flatMap((unit): JobStep[] => {
    const before = seen.get(unit.id);
    const ask: JobStep = { kind: "reserve", unit, priority: spec.priority, because: unit.because };
    switch (before?.state) {
      case undefined:
      case "none":
        return [ask];
      case "unknown":
        return [];
      case "refused":
        return snapshot.nowMs - before.sinceMs >= policy.refusedRetryMs ? [ask] : [];
      case "waiting":
        return sameNeeds(before, unit.needs) ? [] : planRelease(snapshot, before, "needs-changed");
      case "granted":
        return unit.because === "gang" ? [] : planReplacement(snapshot, before, spec);
    }
  });
  return [...releases, ...asks];
}

/** Releases everything that the job holds or waits for, as soon as it may. */
export function planReleases(snapshot: Snapshot, because: ReleaseReason): JobStep[] {
  return snapshot.units.flatMap((unit) => planRelease(snapshot, unit, because));
}

/** Since when a member has waited for a machine in place of a lost one; undefined: none does. */
export function replacementSinceMs(snapshot: Snapshot, status: JobStatus): number | undefined {
  const id = ownerIdOf(snapshot.job);
  const ids = new Set(status.replaced.map((component) => memberUnitId(id, component)));
  const since = snapshot.units.flatMap((unit) =>
    ids.has(unit.id) && (unit.state === "waiting" || unit.state === "refused") ? [unit.sinceMs] : [],
  );
  return since.length === 0 ? undefined : Math.min(...since);
}

/** All pods of the job. */
export function podsOf({ replicas, unknownTypes: untyped, unreadable }: Snapshot): PodFact[] {
  return [
    ...replicas.flatMap(({ slots, surplus }) => [
      ...slots.filter((pod) => pod !== undefined),
      ...surplus.map(({ pod }) => pod),
    ]),
    ...untyped,
    ...unreadable,
  ];
}

function planRelease(snapshot: Snapshot, unit: UnitSeen, because: ReleaseReason): JobStep[] {
  if (unit.state === "none" || unit.state === "unknown" || unit.state === "refused") return [];
  if (unit.state === "granted" && isOccupied(snapshot, unit)) return [];
  return [{ kind: "release", unitId: unit.id, because }];
}

/** Releases the machine of a single member if it cannot use it any more, so that the next pass requests another one. */
function planReplacement(snapshot: Snapshot, unit: GrantedUnit, spec: JobSpec): JobStep[] {
  const components = [...unit.nodes];
  if (components.some(([component, node]) => isLostTo(snapshot, component, node)))
    return planRelease(snapshot, unit, "machine-lost");
  const needs = needsOf(spec);
  return components.some(([component]) => isOutgrown(unit, component, needs))
    ? planRelease(snapshot, unit, "needs-changed")
    : [];
}

/**
 * By the node where it is known, otherwise by the member: a pod without a node may still be placed on the machine that it was created for. On a machine that
 * members share, a pod occupies the part of its member; a pod without a part may use any of them.
 */
function isOccupied(snapshot: Snapshot, unit: GrantedUnit): boolean {
  const [own, all] = [heldMachines({ units: [unit] }), heldMachines(snapshot)];
  // A pod that was created and not yet observed may be running.
  if (!snapshot.podsSettled) return true;
  return [...podsOf(snapshot), ...snapshot.released].filter(mayRun).some((pod) => {
    if (pod.node === undefined) return unit.nodes.has(pod.component);
    if (own?.has(pod.node) !== true) return false;
    return isHome(pod, pod.node, own) || all === undefined || !isHome(pod, pod.node, all);
  });
}

function sameNeeds(
  { components, shares, ignoresShares = false }: Extract<UnitSeen, { readonly components: readonly string[] }>,
  needs: Unit["needs"],
): boolean {
  if (components.length !== needs.length) return false;
  return needs.every(
    ({ component, shared }) =>
      components.includes(component) && (ignoresShares || sameRequests(shares?.get(component), shared)),
  );
}

/** Whether the member cannot use its machine. No pod is placed on an unschedulable node; one that runs there stays. */
function isLostTo(snapshot: Snapshot, component: string, node: string): boolean {
  const { nodesLost, nodesUnschedulable = [] } = snapshot;
  if (nodesLost.includes(node)) return true;
  if (!nodesUnschedulable.includes(node)) return false;
  return !podsOf(snapshot).some((pod) => pod.component === component && pod.node === node && mayRun(pod));
}

/** What each member requests; undefined: a whole machine. */
type Needs = ReadonlyMap<string, Requests | undefined>;

function needsOf(spec: Snapshot["spec"]): Needs {
  if ("problems" in spec) return new Map();
  return new Map(
    spec.replicas.flatMap(({ type, replicas, shared }) =>
      Array.from({ length: replicas }, (_, index) => [componentOf({ type, index }), shared] as const),
    ),
  );
}

/** Whether the member has a part of a machine that does not hold what it requests now. */
function isOutgrown({ shares }: GrantedUnit, component: string, needs: Needs): boolean {
  return needs.has(component) && !holds(shares?.get(component), needs.get(component));
}

function hasPod(snapshot: Snapshot, component: string): boolean {
  return podsOf(snapshot).some((pod) => pod.component === component && mayRun(pod));
}
