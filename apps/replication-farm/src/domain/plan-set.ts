import { isAvailable } from "./decide-available.ts";
import { countDesired, isFrozen } from "./count-desired.ts";
import {
  compareNodes,
  countPlaced,
  findCandidateNodes,
  isReady,
  placeReplica,
  findReplicaPod,
  auditNodes,
} from "./places.ts";
import { findMachineTrouble, planSetMachines } from "./plan-set-machines.ts";
import { planObsoleteTransfer, planTransfer } from "./plan-transfer.ts";
import { countDesiredInRollout } from "./rollout.ts";
import { buildPodName, type ReplicaPlacement, type ReplicaSet, type SetTrouble } from "./replica-set.ts";
import { buildSetWait, type SetPlan, type SetWait } from "./set-plan.ts";
import type { SetPolicy, SetSnapshot } from "./set-snapshot.ts";
import { isTroubleWorse } from "./troubles.ts";

const MAX_NODES_NAMED = 3;
/** Maximum number of nodes that one write adds, removes or renews. */
export const GROUP_NODES = 5;

/**
 * Plans the next record of a set: first towards the desired number of placements, then away from nodes that are no longer eligible, then towards its template.
 * Each change covers at most GROUP_NODES nodes, ordered by name. A set in its desired state gets no change.
 */
export function planSet(snapshot: SetSnapshot, policy: SetPolicy): SetPlan {
  const plan = planPlaces(snapshot, policy);
  return plan.change === undefined ? withTrouble(snapshot, plan.waits) : plan;
}

function planPlaces(snapshot: SetSnapshot, policy: SetPolicy): SetPlan {
  const { set, nodes, rollout } = snapshot;
  if (set.deletion !== undefined) return planDeletion(set);
  if (nodes === undefined) return buildSetWait("nodes-unknown");
  const waits: SetWait[] = [];
  const isStill = isFrozen(set, rollout);
  const steps = isStill
    ? [planObsoleteTransfer, planSetMachines, planTransfer]
    : set.spec.daemon
      ? [planSetMachines, planYield, planDaemon, planTemplate]
      : [planObsoleteTransfer, planSetMachines, planYield, planLost, planCount, planTransfer, planTemplate];
  for (const step of steps) {
    const plan = step(snapshot, policy);
    waits.push(...plan.waits);
    if (plan.change !== undefined) return { change: plan.change, waits };
  }
  return { change: undefined, waits: isStill ? ["disabled", ...waits] : waits };
}

function planDeletion(set: ReplicaSet): SetPlan {
  const { placements, transfer, machines } = set;
  if (placements.length === 0 && transfer === undefined && machines.length === 0) return buildSetWait();
  // All placements are removed in one write, so that no further pod is created; pods and machines follow.
  const next = { ...set, placements: [], transfer: undefined, machines: [] };
  return { change: { next, because: "deleted", audits: [auditNodes(next)] }, waits: [] };
}

/** Leaves nodes to older sets, and does not return to them while those sets exist. */
function planYield(snapshot: SetSnapshot): SetPlan {
  const { set, contest } = snapshot;
  const places = set.placements.filter(({ node }) => contest.yields.has(node));
  return removePlaces(snapshot, places.slice(0, GROUP_NODES), "overlap");
}

/**
 * In a rolling update no transfers run. A placement of the new set is replaced immediately if its node is no longer eligible and its pod is not ready on it.
 */
function planLost(snapshot: SetSnapshot): SetPlan {
  const { set, rollout, nodes } = snapshot;
  if (rollout?.newSet !== set.name || set.transfer !== undefined) return buildSetWait();
  if (set.spec.allocationStrategy === "static" || countDesiredInRollout(rollout, set.name) === undefined)
    return buildSetWait();
  const isLost = (each: ReplicaPlacement): boolean =>
    nodes?.eligible.has(each.node) === false && !isReady(snapshot, each);
  const candidates = findCandidateNodes(snapshot).slice(0, GROUP_NODES);
  const lost = set.placements.filter(isLost).slice(0, candidates.length);
  if (lost.length === 0) return buildSetWait();
  if (snapshot.failsafe) return buildSetWait("failsafe");
  const left = { ...set, placements: set.placements.filter((each) => !lost.includes(each)) };
  const next = candidates
    .slice(0, lost.length)
    .reduce<ReplicaSet>((placed, node) => placeReplica(snapshot, placed, node), left);
  return { change: { next, because: "node-ineligible", audits: [auditNodes(next)] }, waits: [] };
}

function planCount(snapshot: SetSnapshot): SetPlan {
  const { set, rollout } = snapshot;
  const desired = countDesired(set, rollout, undefined);
  const current = countPlaced(set);
  if (desired > current) return planAdd(snapshot, desired - current, findCandidateNodes(snapshot));
  return desired < current ? planRemove(snapshot, current - desired) : buildSetWait();
}

/**
 * Plans one placement on each eligible node. If no node is eligible, it removes no placement, because a mistake in the selector or the labels is more likely.
 */
function planDaemon(snapshot: SetSnapshot): SetPlan {
  const { set, nodes } = snapshot;
  if (nodes === undefined) return buildSetWait();
  if (nodes.eligible.size === 0)
    return set.placements.length === 0 ? buildSetWait() : buildSetWait("no-eligible-nodes");
  const surplus = set.placements.filter(({ node }) => !nodes.eligible.has(node));
  if (surplus.length > 0) return removePlaces(snapshot, surplus.slice(0, GROUP_NODES));
  const candidates = findCandidateNodes(snapshot);
  return candidates.length === 0 ? buildSetWait() : planAdd(snapshot, candidates.length, candidates);
}

function planAdd(snapshot: SetSnapshot, missing: number, candidates: readonly string[]): SetPlan {
  const { set } = snapshot;
  const nodes = candidates.slice(0, Math.min(missing, GROUP_NODES));
  if (nodes.length === 0) return buildSetWait("too-few-nodes");
  const next = nodes.reduce((placed, node) => placeReplica(snapshot, placed, node), set);
  return {
    change: { next, because: "too-few", audits: [auditNodes(next)] },
    waits: candidates.length < missing ? ["too-few-nodes"] : [],
  };
}

function planRemove(snapshot: SetSnapshot, surplus: number): SetPlan {
  const { set, nodes, rollout } = snapshot;
  const { oldNode, newNode } = set.transfer ?? {};
  const rank = (placement: ReplicaPlacement): number => {
    const isLeaving = nodes?.eligible.has(placement.node) === false;
    // A rolling update relies on the removal of unavailable replicas first.
    const pod = findReplicaPod(set, snapshot.pods, placement);
    const isHealthy = isAvailable(pod, set.spec, snapshot.nowMs) && placement.templateHash === snapshot.templateHash;
    if (rollout !== undefined) return (isHealthy ? 2 : 0) + (isLeaving ? 0 : 1);
    if (isLeaving) return 0;
    return isReady(snapshot, placement) ? 2 : 1;
  };
  const order = set.placements
    .filter(({ node }) => node !== oldNode && node !== newNode)
    .toSorted((a, b) => rank(a) - rank(b) || compareNodes(b, a));
  return removePlaces(snapshot, order.slice(0, Math.min(surplus, GROUP_NODES)));
}

function removePlaces(
  snapshot: SetSnapshot,
  placements: readonly ReplicaPlacement[],
  because: "too-many" | "overlap" = "too-many",
): SetPlan {
  if (placements.length === 0) return buildSetWait();
  if (snapshot.failsafe) return buildSetWait("failsafe");
  const gone = new Set(placements);
  const next = { ...snapshot.set, placements: snapshot.set.placements.filter((each) => !gone.has(each)) };
  return { change: { next, because, audits: [auditNodes(next)] }, waits: [] };
}

/** Recreates pods of an earlier template, with at most one group not ready at a time. */
function planTemplate(snapshot: SetSnapshot): SetPlan {
  const { set, nodes, rollout, templateHash } = snapshot;
  if (rollout?.oldSet === set.name) return buildSetWait();
  const stale = set.placements.filter(
    ({ node, templateHash: hash }) => hash !== templateHash && nodes?.eligible.has(node),
  );
  if (stale.length === 0) return buildSetWait();
  const starting = set.placements.filter(
    (placement) => placement.templateHash === templateHash && !isReady(snapshot, placement),
  );
  const renewed = stale.slice(0, Math.max(0, GROUP_NODES - starting.length));
  if (renewed.length === 0) return buildSetWait("earlier-group-starting");
  const without = { ...set, placements: set.placements.filter((each) => !renewed.includes(each)) };
  const next = renewed.reduce<ReplicaSet>((placed, { node }) => placeReplica(snapshot, placed, node), without);
  return { change: { next, because: "template-changed", audits: [] }, waits: [] };
}

function withTrouble(snapshot: SetSnapshot, waits: readonly SetWait[]): SetPlan {
  const { set, nowMs } = snapshot;
  if (waits.includes("nodes-unknown")) return { change: undefined, waits };
  const found = findTrouble(snapshot, waits);
  if (found?.code === set.trouble?.code && found?.message === set.trouble?.message) return { change: undefined, waits };
  const isHidden = set.trouble !== undefined && (found === undefined || isTroubleWorse(set.trouble.code, found.code));
  if (isHidden && lasts(snapshot, set.trouble)) return { change: undefined, waits };
  const trouble = found && { ...found, sinceMs: nowMs };
  return { change: { next: { ...set, trouble }, because: "trouble-changed", audits: [] }, waits };
}

/** Returns whether a known trouble persists although the plan does not find it. */
function lasts({ set, nodes, pods, ...snapshot }: SetSnapshot, { code }: SetTrouble): boolean {
  switch (code) {
    case "TRANSFER_FAILED":
      return set.placements.some(({ node }) => nodes?.eligible.has(node) === false);
    case "POD_REFUSED":
      return set.placements.some(({ ordinal }) => !pods.has(buildPodName(set.name, ordinal)));
    // A new owner has not observed the pods for long enough, so it does not decide.
    case "NOT_HEALTHY":
      return !isAllReady({ set, nodes, pods, ...snapshot });
    default:
      return false;
  }
}

function buildOverlap(
  { spec }: ReplicaSet,
  older: string,
  contested: readonly (readonly [string, string])[],
): Omit<SetTrouble, "sinceMs"> {
  const nodes = contested.slice(0, MAX_NODES_NAMED).map(([node]) => node);
  const message = `replica set ${older}, which is older, runs pod id ${spec.podId} too and has the nodes that both select, such as ${nodes.join(", ")}`;
  return { code: "OVERLAP", message };
}

function isAllReady(snapshot: SetSnapshot): boolean {
  return snapshot.set.placements.every((placement) => isReady(snapshot, placement));
}

function ofHealth(nodes: readonly string[]): Omit<SetTrouble, "sinceMs"> | undefined {
  if (nodes.length === 0) return undefined;
  const named = nodes.slice(0, MAX_NODES_NAMED).join(", ");
  return {
    code: "NOT_HEALTHY",
    message: `pods have been unready for too long on ${nodes.length} nodes, such as ${named}`,
  };
}

function findTrouble(snapshot: SetSnapshot, waits: readonly SetWait[]): Omit<SetTrouble, "sinceMs"> | undefined {
  const { set, rollout, nodes, contest, unhealthy } = snapshot;
  const ofMachines = findMachineTrouble(snapshot);
  if (ofMachines !== undefined) return ofMachines;
  if (waits.includes("no-eligible-nodes"))
    return { code: "NO_ELIGIBLE_NODES", message: "no node is eligible, so its pods stay where they are" };
  const contested = [...contest.nodes].filter(([node]) => nodes?.eligible.has(node)).toSorted();
  const isShort = set.spec.daemon || waits.includes("too-few-nodes");
  const [first] = contested;
  if (isShort && first !== undefined && !set.disabled) return buildOverlap(set, first[1], contested);
  // In a rolling update, the other set's nodes become free one by one.
  if (!waits.includes("too-few-nodes") || rollout !== undefined) return ofHealth(unhealthy);
  const desired = countDesired(set, rollout, nodes?.eligible.size);
  return {
    code: "TOO_FEW_NODES",
    message: `${desired} replicas are wanted, ${set.placements.length} are placed, and no other eligible node is free`,
  };
}
