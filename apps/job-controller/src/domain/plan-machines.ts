import { buildUnits, componentOf, memberUnitId, ownerIdOf } from "./build-units.ts";
import type { JobSpec } from "./job.ts";
import type { JobStatus } from "./job-status.ts";
import type { JobStep, ReleaseReason } from "./plan-steps.ts";
import type { JobPolicy, PodFact, Snapshot, UnitSeen } from "./snapshot.ts";
import { mayRun } from "./summarise-replicas.ts";

/** Which machine each member may run on: that of its own unit, else that of the gang's. Members whose machine was lost have none until they get another one. */
export function machinesOf(snapshot: Snapshot, status: JobStatus): ReadonlyMap<string, string> {
  const gangId = ownerIdOf(snapshot.job);
  const machines = new Map<string, string>();
  const lost = new Set(snapshot.nodesLost);
  // The gang's first, so that a unit of a member's own replaces it.
  const granted = snapshot.units.filter((unit) => unit.state === "granted");
  for (const unit of [...granted.filter(({ id }) => id === gangId), ...granted.filter(({ id }) => id !== gangId)]) {
    for (const [component, node] of unit.nodes) {
      if (unit.id === gangId && status.replaced.includes(component)) continue;
      if (!lost.has(node)) machines.set(component, node);
    }
  }
  return machines;
}

/** What tells where the job's pods may be. */
export type Places = {
  /** Of each member, as `machinesOf` has it. */
  readonly machines: ReadonlyMap<string, string>;
  /** Every machine that the ledger has given to the job; undefined while it has not said. */
  readonly held: ReadonlySet<string> | undefined;
};

/** Every machine that the job has; undefined while the ledger has not said which. */
export function heldMachines({ units }: Snapshot): ReadonlySet<string> | undefined {
  if (units.some(({ state }) => state === "unknown")) return undefined;
  return new Set(units.flatMap((unit) => (unit.state === "granted" ? [...unit.nodes.values()] : [])));
}

/** Whether it may run on a machine that is not the job's, and so is somebody else's or nobody's: a leader made it that had been frozen, and was none any more. */
export function isStray(pod: PodFact, held: Places["held"]): boolean {
  const place = pod.node ?? pod.pinned;
  // Without a member's label it was not made by us, and nobody reserved a machine for it.
  return mayRun(pod) && held !== undefined && place !== undefined && pod.component !== "" && !held.has(place);
}

/**
 * Whether a pod is, or would be put, where its member has no business: on a machine that is lost, on none of the job's, or, while it is on none yet, on another one than
 * its member's. A pod is made for one machine and stays bound to it, so that nothing but making it anew helps. Never while the ledger has not said what the job has.
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

/** Members of the gang whose machine is lost, those of earlier passes first: a machine that comes back late is not taken up again. */
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

/** Asks for what is missing and gives back what is not wanted any more; machines only once nothing of this job can run on them. */
export function planMachines(snapshot: Snapshot, spec: JobSpec, status: JobStatus, policy: JobPolicy): JobStep[] {
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

/** Everything that the job has or waits for goes back, as soon as it may. */
export function planReturn(snapshot: Snapshot, because: ReleaseReason): JobStep[] {
  return snapshot.units.flatMap((unit) => planRelease(snapshot, unit, because));
}

/** A member waits for a machine in place of a lost one since then; undefined: none does. */
export function replacementSinceMs(snapshot: Snapshot, status: JobStatus): number | undefined {
  const id = ownerIdOf(snapshot.job);
  const ids = new Set(status.replaced.map((component) => memberUnitId(id, component)));
  const since = snapshot.units.flatMap((unit) =>
    ids.has(unit.id) && (unit.state === "waiting" || unit.state === "refused") ? [unit.sinceMs] : [],
  );
  return since.length === 0 ? undefined : Math.min(...since);
}

/** Every pod that the job has, wherever it was found. */
export function podsOf({ replicas, strangers, unreadable }: Snapshot): PodFact[] {
  return [
    ...replicas.flatMap(({ slots, surplus }) => [
      ...slots.filter((pod) => pod !== undefined),
      ...surplus.map(({ pod }) => pod),
    ]),
    ...strangers,
    ...unreadable,
  ];
}

function planRelease(snapshot: Snapshot, unit: UnitSeen, because: ReleaseReason): JobStep[] {
  if (unit.state === "none" || unit.state === "unknown" || unit.state === "refused") return [];
  if (unit.state === "granted" && isOccupied(snapshot, unit.nodes)) return [];
  return [{ kind: "release", unitId: unit.id, because }];
}

/** By the node where one is known, and by the member where not: a pod without a node may still be put on the machine that it was made for. */
function isOccupied(snapshot: Snapshot, nodes: ReadonlyMap<string, string>): boolean {
  const names = new Set(nodes.values());
  // What was asked for and has not been seen may be running.
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
