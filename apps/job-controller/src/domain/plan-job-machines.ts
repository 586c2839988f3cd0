import { buildUnits, componentOf, memberUnitId, ownerIdOf } from "./build-units.ts";
import type { JobSpec } from "./job.ts";
import type { JobStatus } from "./job-status.ts";
import type { JobStep, ReleaseReason } from "./plan-steps.ts";
import type { JobPolicy, PodFact, Snapshot, UnitSeen } from "./snapshot.ts";
import { mayRun } from "./summarise-replicas.ts";

/**
 * The machine that each member may run on: that of its own unit, else that of the gang's. Members whose machine was lost have none until they get another
 * one.
 */
export function machinesOf(snapshot: Snapshot, status: JobStatus): ReadonlyMap<string, string> {
  const gangId = ownerIdOf(snapshot.job);
  const machines = new Map<string, string>();
  const lost = new Set(snapshot.nodesLost);
  // The gang's first, so that a unit of a single member overrides it.
  const granted = snapshot.units.filter((unit) => unit.state === "granted");
  for (const unit of [...granted.filter(({ id }) => id === gangId), ...granted.filter(({ id }) => id !== gangId)]) {
    for (const [component, node] of unit.nodes) {
      if (unit.id === gangId && status.replaced.includes(component)) continue;
      if (!lost.has(node)) machines.set(component, node);
    }
  }
  return machines;
}

/** Where the job's pods may be. */
export type Places = {
  /** Of each member, as `machinesOf` returns it. */
  readonly machines: ReadonlyMap<string, string>;
  /** Every machine that the ledger has granted to the job; undefined while it is unknown. */
  readonly held: ReadonlySet<string> | undefined;
};

/** Every machine that the job holds; undefined while the ledger has not answered. */
export function heldMachines({ units }: Snapshot): ReadonlySet<string> | undefined {
  if (units.some(({ state }) => state === "unknown")) return undefined;
  return new Set(units.flatMap((unit) => (unit.state === "granted" ? [...unit.nodes.values()] : [])));
}

/** Whether the pod may run on a machine that the job does not hold: a frozen process created it after it had lost the lead. */
export function isStray(pod: PodFact, held: Places["held"]): boolean {
  const place = pod.node ?? pod.pinned;
  // A pod without a member's label is not ours, and no machine was reserved for it.
  return mayRun(pod) && held !== undefined && place !== undefined && pod.component !== "" && !held.has(place);
}

/**
 * Whether a pod runs, or would be placed, where its member must not run: on a lost machine, on a machine that the job does not hold, or, while it has no
 * node, on another machine than its member's. A pod stays bound to the machine that it was created for, so only recreating it helps. False while the ledger
 * has not answered.
 */
export function isMisplaced(snapshot: Snapshot, pod: PodFact, { machines, held }: Places): boolean {
  const place = pod.node ?? pod.pinned;
  if (place === undefined || !mayRun(pod)) return false;
  if (snapshot.nodesLost.includes(place)) return true;
  const gang = snapshot.units.find(({ id }) => id === ownerIdOf(snapshot.job));
  if (gang?.state !== "granted") return false;
  const own = machines.get(pod.component);
  return (pod.node === undefined && own !== undefined && own !== place) || isStray(pod, held);
}

/** Members of the gang whose machine is lost, those of earlier passes first: a machine that comes back late is not used again. */
export function replacedMembers(snapshot: Snapshot, spec: JobSpec, status: JobStatus): readonly string[] {
  const gang = snapshot.units.find(({ id }) => id === ownerIdOf(snapshot.job));
  if (gang?.state !== "granted") return status.replaced;
  const lost = new Set(snapshot.nodesLost);
  const wanted = new Set(
    spec.replicas.flatMap(({ type, replicas }) =>
      Array.from({ length: replicas }, (_, index) => componentOf({ type, index })),
    ),
  );
  const more = [...gang.nodes]
    .filter(([component, node]) => lost.has(node) && wanted.has(component) && !status.replaced.includes(component))
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
        return sameMembers(before.components, unit.needs) ? [] : planRelease(snapshot, before, "needs-changed");
      case "granted":
        return unit.because !== "gang" && hasLost(before.nodes, snapshot)
          ? planRelease(snapshot, before, "machine-lost")
          : [];
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
  if (unit.state === "granted" && isOccupied(snapshot, unit.nodes)) return [];
  return [{ kind: "release", unitId: unit.id, because }];
}

/** By the node where it is known, otherwise by the member: a pod without a node may still be placed on the machine that it was created for. */
function isOccupied(snapshot: Snapshot, nodes: ReadonlyMap<string, string>): boolean {
  const names = new Set(nodes.values());
  // A pod that was created and not yet observed may be running.
  if (!snapshot.podsSettled) return true;
  return [...podsOf(snapshot), ...snapshot.released]
    .filter(mayRun)
    .some(({ node, component }) => (node === undefined ? nodes.has(component) : names.has(node)));
}

function sameMembers(components: readonly string[], needs: readonly { readonly component: string }[]): boolean {
  return components.length === needs.length && needs.every(({ component }) => components.includes(component));
}

function hasLost(nodes: ReadonlyMap<string, string>, { nodesLost }: Snapshot): boolean {
  return [...nodes.values()].some((node) => nodesLost.includes(node));
}
