import { listRejectingNodes } from "@muster/health";
import {
  buildUnits,
  listCompletedComponents,
  buildMemberUnitId,
  buildOwnerId,
  type RequestUnit,
} from "./build-units.ts";
import type { JobSpec } from "./job.ts";
import { canRun, listPods } from "./job-pods.ts";
import type { JobStatus } from "./job-status.ts";
import {
  findHeldMachines,
  isOnOwnMachine,
  isLostTo,
  isPartTooSmall,
  buildNeeds,
  type GrantedUnit,
} from "./member-machines.ts";
import { computeRequeueAtMs } from "./plan-ready-timeout.ts";
import type { JobStep, ReleaseReason } from "./plan-steps.ts";
import { findGracePeriod } from "./read-preemptible.ts";
import { QUEUE_UNKNOWN, type QueueChoice } from "@muster/ledger-client/choose-queue";
import { avoidNodes, buildNodeSelectionKey, type NodeSelection } from "@muster/resources";
import { areRequestsEqual } from "./requests.ts";
import type { JobPolicy, Snapshot, UnitSeen } from "./snapshot.ts";

/**
 * Returns members of the gang whose machine is lost, starting with members from earlier passes. A machine that returns is used again only while its member
 * waits for a replacement. A member without a pod also needs another machine if it requests more than its part. A running pod keeps its part.
 */
export function listReplacedMembers(snapshot: Snapshot, spec: JobSpec, status: JobStatus): readonly string[] {
  const gang = snapshot.units.find(({ id }) => id === buildOwnerId(snapshot.job));
  if (gang?.state !== "granted") return status.replaced;
  const needs = buildNeeds(spec);
  const still = status.replaced.filter((component) => !canReuseMachine(snapshot, gang, component, needs));
  const isReplaced = new Set(still);
  const more = [...gang.nodes]
    .filter(([component]) => needs.has(component) && !isReplaced.has(component))
    .filter(
      ([component, node]) =>
        isLostTo(snapshot, component, node) || (isPartTooSmall(gang, component, needs) && !hasPod(snapshot, component)),
    )
    .map(([component]) => component)
    .sort();
  return more.length === 0 && still.length === status.replaced.length ? status.replaced : [...still, ...more];
}

/** Whether a member that waits for a replacement can use its own machine again. The job has kept that machine, and no other machine may ever become free. */
function canReuseMachine(
  snapshot: Snapshot,
  gang: GrantedUnit,
  component: string,
  needs: ReturnType<typeof buildNeeds>,
): boolean {
  const node = gang.nodes.get(component);
  const other = snapshot.units.find(({ id }) => id === buildMemberUnitId(gang.id, component));
  if (node === undefined || (other?.state !== "waiting" && other?.state !== "refused")) return false;
  const isUsable = snapshot.nodesBack?.includes(node) === true && !isLostTo(snapshot, component, node);
  const isCrowded = (snapshot.crowded ?? []).some((each) => each.component === component && each.node === node);
  return isUsable && !isCrowded && !isPartTooSmall(gang, component, needs);
}

/** Requests missing units and releases unneeded ones; releases granted machines only after no pod of this job can run on them. */
export function planJobMachines(snapshot: Snapshot, spec: JobSpec, status: JobStatus, policy: JobPolicy): JobStep[] {
  const gang = grantedGang(snapshot);
  const choice = snapshot.queue ?? NO_QUEUE;
  const queue = gang === undefined ? findQueueName(choice) : gang.queue;
  const units = buildUnits(snapshot.job, spec, status, snapshot.units).map((unit) => ({
    ...(unit.because === "gang" ? unit : avoidRejectingNodes(snapshot, unit)),
    ...(queue && { queue, graceMs: findGracePeriod(spec), ...(spec.notPreemptible && { notPreemptible: true }) }),
  }));
  const isPausing = gang === undefined && computeRequeueAtMs(status, policy, snapshot.nowMs) !== undefined;
  const mayAsk = gang !== undefined || (choice.kind !== "unknown" && choice.kind !== "unlisted" && !isPausing);
  const priority = computePriority(choice, spec.priority);
  const seen = new Map(snapshot.units.map((unit) => [unit.id, unit]));
  const wanted = new Set(units.map(({ id }) => id));
  const completed = listCompletedComponents(status);
  const releases = snapshot.units
    .filter(({ id }) => !wanted.has(id))
    .flatMap((unit) => planRelease(snapshot, unit, "scaled-down"));
  const asks = units.flatMap((unit): JobStep[] => {
    const before = seen.get(unit.id);
    const ask: readonly JobStep[] = mayAsk ? [{ kind: "reserve", unit, ...priority, because: unit.because }] : [];
    switch (before?.state) {
      case undefined:
      case "none":
        return [...ask];
      case "unknown":
        return [];
      case "refused":
        return snapshot.nowMs >= computeRefusedUntilMs(before, policy) ? [...ask] : [];
      case "waiting": {
        if (isPausing) return planRelease(snapshot, before, "ready-timeout");
        const isSame = isSameRequest(before, unit, completed) && (gang !== undefined || isInQueue(before, choice));
        return isSame ? [] : planRelease(snapshot, before, "needs-changed");
      }
      case "granted":
        return unit.because === "gang" || before.preemption !== undefined
          ? []
          : planReplacement(snapshot, before, spec);
    }
  });
  return [...releases, ...asks];
}

function avoidRejectingNodes({ rejections, nowMs }: Snapshot, unit: RequestUnit): RequestUnit {
  const needs = unit.needs.map((need) =>
    avoidNodes(
      need,
      listRejectingNodes(rejections, (component) => component === need.component, nowMs),
    ),
  );
  return { ...unit, needs };
}

const NO_QUEUE: QueueChoice = { kind: "none" };
/** The ledger follows the queues shortly after this controller, so an existing queue may be unknown to it. */
const QUEUE_RETRY_MS = 5000;

export type WaitingUnit = Extract<UnitSeen, { readonly components: readonly string[] }>;

/** Returns when a refused request is repeated. */
export function computeRefusedUntilMs(
  { sinceMs, because }: WaitingUnit,
  { refusedRetryMs }: Pick<JobPolicy, "refusedRetryMs">,
): number {
  return sinceMs + (because.code === QUEUE_UNKNOWN ? Math.min(QUEUE_RETRY_MS, refusedRetryMs) : refusedRetryMs);
}

function grantedGang({ units, job }: Snapshot): GrantedUnit | undefined {
  const gang = units.find(({ id }) => id === buildOwnerId(job));
  return gang?.state === "granted" ? gang : undefined;
}

function findQueueName(choice: QueueChoice): string | undefined {
  return choice.kind === "queue" ? choice.name : undefined;
}

/** Returns the priority of a request in the queue, with `loweredFrom` if the queue lowers the priority. */
export function computePriority(
  choice: QueueChoice,
  priority: number,
): { readonly priority: number; readonly loweredFrom?: number } {
  const maxPriority = choice.kind === "queue" ? (choice.maxPriority ?? Infinity) : Infinity;
  return priority > maxPriority ? { priority: maxPriority, loweredFrom: priority } : { priority };
}

/** Whether a waiting request is in the queue that the job has now. */
function isInQueue({ queue, dropsConstraints = false }: WaitingUnit, choice: QueueChoice): boolean {
  if (choice.kind === "unlisted") return true;
  if (choice.kind === "unknown") return false;
  return dropsConstraints || queue === findQueueName(choice);
}

/** Releases all units that the job has or waits for, each as soon as it may be released. */
export function planReleases(snapshot: Snapshot, because: ReleaseReason): JobStep[] {
  return snapshot.units.flatMap((unit) => planRelease(snapshot, unit, because));
}

/** Returns since when a member has waited for a replacement of its machine; undefined if none waits. */
export function computeReplacementSinceMs(snapshot: Snapshot, status: JobStatus): number | undefined {
  const id = buildOwnerId(snapshot.job);
  const ids = new Set(status.replaced.map((component) => buildMemberUnitId(id, component)));
  const since = snapshot.units.flatMap((unit) =>
    ids.has(unit.id) && (unit.state === "waiting" || unit.state === "refused") ? [unit.sinceMs] : [],
  );
  return since.length === 0 ? undefined : Math.min(...since);
}

/** Releases one unit as soon as it may be released. */
export function planRelease(snapshot: Snapshot, unit: UnitSeen, because: ReleaseReason): JobStep[] {
  if (unit.state === "none" || unit.state === "unknown" || unit.state === "refused") return [];
  if (unit.state === "granted" && isOccupied(snapshot, unit)) return [];
  return [{ kind: "release", unitId: unit.id, because }];
}

/** Releases the machine of a single member that can no longer use it. The next pass requests another one. */
function planReplacement(snapshot: Snapshot, unit: GrantedUnit, spec: JobSpec): JobStep[] {
  const components = [...unit.nodes];
  if (components.some(([component, node]) => isLostTo(snapshot, component, node)))
    return planRelease(snapshot, unit, "machine-lost");
  const needs = buildNeeds(spec);
  return components.some(([component]) => isPartTooSmall(unit, component, needs))
    ? planRelease(snapshot, unit, "needs-changed")
    : [];
}

/**
 * Whether pods may run on the unit's machines. A pod with a node occupies that node. A pod without a node may still be placed on the machine of its member. On
 * a shared machine, a pod occupies the part of its member; a pod without a part may use any of them.
 */
export function isOccupied(snapshot: Snapshot, unit: GrantedUnit): boolean {
  const [own, all] = [findHeldMachines({ units: [unit] }), findHeldMachines(snapshot)];
  // A created pod that the cache does not show yet may be running.
  if (!snapshot.podsSettled) return true;
  return [...listPods(snapshot), ...snapshot.released].filter(canRun).some((pod) => {
    if (pod.node === undefined) return unit.nodes.has(pod.component);
    if (own?.has(pod.node) !== true) return false;
    return isOnOwnMachine(pod, pod.node, own) || all === undefined || !isOnOwnMachine(pod, pod.node, all);
  });
}

/** Whether a waiting request has these needs. `completed` lists members that no longer need a machine. */
export function isSameRequest(
  seen: WaitingUnit,
  { needs, topology }: RequestUnit,
  completed: ReadonlySet<string> = new Set(),
): boolean {
  const { components, shares, selections, otherPools: pools, dropsConstraints = false, isRequeued = false } = seen;
  // A new request without the completed members would lose the position in the queue.
  const kept = isRequeued ? components.filter((each) => !completed.has(each)) : components;
  if (kept.length !== needs.length && components.length !== needs.length) return false;
  if (!dropsConstraints && seen.topology !== topology) return false;
  return needs.every(({ component, otherPools, shared, selection }) => {
    if (!components.includes(component)) return false;
    if (dropsConstraints) return true;
    if (pools?.get(component)?.join() !== otherPools?.join()) return false;
    return areRequestsEqual(shares?.get(component), shared) && sameSelection(selections?.get(component), selection);
  });
}

function sameSelection(one: NodeSelection | undefined, other: NodeSelection | undefined): boolean {
  if (one === undefined || other === undefined) return one === other;
  return buildNodeSelectionKey(one) === buildNodeSelectionKey(other);
}

function hasPod(snapshot: Snapshot, component: string): boolean {
  return listPods(snapshot).some((pod) => pod.component === component && canRun(pod));
}
