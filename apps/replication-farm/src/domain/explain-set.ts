import { formatElapsed } from "@muster/faults";
import { buildReason, type StateReason } from "@muster/ledger-client/explanation";
import { adviseOnNode, adviseOnReplica, adviseOnRollout, adviseOnTrouble } from "./advise-set.ts";
import { describeTransferReason } from "./describe-transfer.ts";
import type { NodeVerdict } from "./explain-nodes.ts";
import type { ReplicaSet, PodTransfer } from "./replica-set.ts";
import type { TroubleCode } from "./troubles.ts";
import { computeMinimum, type Rollout } from "./rollout.ts";

/** A placement of a set with the last observed state of its pod. */
export type ReplicaSeen = {
  readonly node: string;
  readonly pod: string;
  /** READY, NOT_READY, FAILED, SUCCEEDED or UNKNOWN. */
  readonly health: string;
  readonly reason: string;
  readonly message: string;
  /** True if the node of the replica is still eligible. */
  readonly eligible: boolean;
};

/** A rolling update with the state of both sets. */
export type RolloutSeen = {
  readonly rollout: Rollout;
  readonly oldHealthy: number;
  readonly oldCurrent: number;
  readonly newHealthy: number;
  readonly newCurrent: number;
  /** Why the update does not move now, for people; empty: it moves. */
  readonly waitingBecause: string;
};

/** The state of a set for its explanation. */
export type SetSeen = {
  readonly set: ReplicaSet;
  /** The farm that owns the set; empty: no owner. */
  readonly farm: string;
  readonly desired: number;
  readonly healthy: number;
  readonly replicas: readonly ReplicaSeen[];
  /** Undefined: the set is in no update, or the record of the update is missing. */
  readonly rollout: RolloutSeen | undefined;
  /** A verdict for each node; undefined: the watcher is silent. */
  readonly nodes: readonly NodeVerdict[] | undefined;
};

/** Troubles that the replicas explain in more detail. */
const SEEN_IN_PLACES: ReadonlySet<TroubleCode> = new Set(["TOO_FEW_NODES", "NOT_HEALTHY"]);
/** Troubles that block a transfer, a rolling update or a deletion. */
const BLOCKS_CHANGES: ReadonlySet<TroubleCode> = new Set([
  "POD_REFUSED",
  "WAITING_FOR_MACHINE",
  "MACHINE_REFUSED",
  "MACHINES_GONE",
  "LEDGER_AWAY",
]);

/**
 * Explains the state of a set by its first obstacle: DELETING, NO_FARM, IN_ROLL, TRANSFERRING, DISABLED, NODES_UNKNOWN, the code of its trouble, PLACING,
 * TOO_FEW_NODES, REMOVING, NOT_HEALTHY, STATIC, TRANSFERS_HELD, LEAVING, RENEWING, READY or CHANGING.
 */
export function explainSet(seen: SetSeen, nowMs: number): StateReason {
  const state = explainState(seen);
  if (state === undefined) return explainPlaces(seen, nowMs) ?? explainWell(seen);
  const { trouble } = seen.set;
  if (trouble === undefined || !BLOCKS_CHANGES.has(trouble.code)) return state;
  const next = state.next === "" ? adviseOnTrouble(trouble.code, seen, nowMs) : state.next;
  return { ...state, message: `${state.message}; ${trouble.message}`, next };
}

/** The phase of a set and since when; 0: the record does not contain the time. */
export function getSetPhase(seen: Omit<SetSeen, "farm" | "nodes">): {
  readonly phase: string;
  readonly sinceMs: number;
} {
  const { set, rollout } = seen;
  if (set.deletion !== undefined) return { phase: "DELETING", sinceMs: set.deletion.atMs };
  if (set.rollout !== undefined) return { phase: "ROLLING", sinceMs: rollout?.rollout.createdAtMs ?? 0 };
  if (set.disabled) return { phase: "DISABLED", sinceMs: 0 };
  if (set.transfer !== undefined) return { phase: "TRANSFERRING", sinceMs: set.transfer.startedAtMs };
  if (set.trouble !== undefined) return { phase: "TROUBLED", sinceMs: set.trouble.sinceMs };
  return { phase: isSettled(seen) ? "READY" : "CHANGING", sinceMs: 0 };
}

function explainState(seen: SetSeen): StateReason | undefined {
  const { set, farm, replicas, rollout } = seen;
  const { name, deletion, transfer, disabled } = set;
  if (deletion !== undefined) {
    const pods = deletion.keepPods ? "its pods stay" : `${formatCount(replicas.length, "replica")} left`;
    return buildReason("DELETING", `it is being deleted: ${pods}`);
  }
  if (farm === "")
    return {
      code: "NO_FARM",
      message: "no farm owns it now, so it does not change; another farm takes it over within seconds",
      next: "`muster doctor` shows the farms; one with FARM_RC_SELECTOR owns only sets whose labels match",
    };
  if (rollout !== undefined)
    return { code: "IN_ROLL", message: describeRollout(rollout), next: adviseOnRollout(rollout.rollout) };
  if (transfer !== undefined) return explainTransfer(seen, transfer);
  if (disabled)
    return {
      code: "DISABLED",
      message: `it is disabled: no pod is created, replaced or removed (${describeCounts(seen)})`,
      next: `\`muster enable ${name}\` enables it`,
    };
  return undefined;
}

function explainTransfer({ set, replicas, nodes }: SetSeen, transfer: PodTransfer): StateReason {
  const { oldNode, newNode, deadlineMs } = transfer;
  const by = new Date(deadlineMs).toISOString();
  const needsNode = newNode === undefined && set.spec.pool === undefined;
  const isShort = needsNode && nodes?.some(({ code }) => code === "FREE") === false;
  const waiting = replicas.filter(({ node, eligible }) => !eligible && node !== oldNode).map(({ node }) => node);
  const move = newNode === undefined ? `leaves ${oldNode}, and needs another node` : `leaves ${oldNode} for ${newNode}`;
  const parts = [
    `it ${move}: ${describeTransferReason(transfer.because)}`,
    ...(isShort ? [`no eligible node is free (${describeNodes(nodes)})`] : []),
    `the old pod is removed once the new one is ready; otherwise the transfer is rolled back at ${by}`,
    ...(waiting.length > 0 ? [`${waiting.join(", ")} ${waiting.length === 1 ? "is" : "are"} left after that`] : []),
  ];
  return {
    code: "TRANSFERRING",
    message: parts.join("; "),
    next: isShort ? adviseOnNode(set, replicas.length - 1) : "",
  };
}

function explainPlaces(seen: SetSeen, nowMs: number): StateReason | undefined {
  const { set, desired, healthy, replicas, nodes } = seen;
  const { trouble } = set;
  if (nodes === undefined)
    return {
      code: "NODES_UNKNOWN",
      message: "the watcher is silent, so the state of the nodes is unknown, and no replica moves",
      next: "`muster doctor` checks the watcher",
    };
  if (trouble !== undefined && !SEEN_IN_PLACES.has(trouble.code))
    return { code: trouble.code, message: trouble.message, next: adviseOnTrouble(trouble.code, seen, nowMs) };
  const counts = describeCounts(seen);
  if (replicas.length < desired) {
    const missing = desired - replicas.length;
    const free = nodes.filter(({ code }) => code === "FREE").length;
    if (free >= missing) return buildReason("PLACING", `${counts}; the rest follows now`);
    const lacking = `${formatCount(missing, "more node")} ${missing === 1 ? "is" : "are"} needed, and ${free} ${free === 1 ? "is" : "are"} free`;
    const message = `${counts}: ${lacking} (${describeNodes(nodes)})`;
    return { code: "TOO_FEW_NODES", message, next: adviseOnTrouble("TOO_FEW_NODES", seen, nowMs) };
  }
  if (replicas.length > desired) return buildReason("REMOVING", `${counts}; the surplus is removed now`);
  const unhealthy = replicas.filter(({ health, eligible }) => health !== "READY" && eligible);
  const [first] = unhealthy;
  if (first !== undefined) {
    const why = [first.health, first.reason, first.message].filter((each) => each !== "").join(": ");
    const more = unhealthy.length > 1 ? `; ${unhealthy.length - 1} more are not ready` : "";
    const message = `${counts}; ${first.pod} on ${first.node} is ${why}${more}`;
    return { code: "NOT_HEALTHY", message, next: adviseOnReplica(first) };
  }
  const leaving = explainLeaving(set, replicas, nodes, nowMs);
  if (leaving !== undefined || healthy >= desired) return leaving;
  return buildReason("RENEWING", `${counts}: pods of the earlier template are replaced`);
}

/** Explains replicas on nodes that are no longer eligible. */
function explainLeaving(
  set: ReplicaSet,
  replicas: readonly ReplicaSeen[],
  nodes: readonly NodeVerdict[],
  nowMs: number,
): StateReason | undefined {
  const leaving = replicas.filter(({ eligible }) => !eligible).map(({ node }) => node);
  const [first] = leaving;
  if (first === undefined) return undefined;
  const named = leaving.map((node) => {
    const why = nodes.find((each) => each.node === node)?.message ?? "";
    return why === "" ? node : `${node} (${why})`;
  });
  const where = `${named.join(", ")} ${leaving.length === 1 ? "is" : "are"} no longer eligible`;
  if (set.spec.allocationStrategy === "static")
    return {
      code: "STATIC",
      message: `${where}, and a Static set is never moved`,
      next: `\`muster transfer ${set.name} --from ${first}\` moves it once`,
    };
  if (set.transfersHeld !== undefined)
    return {
      code: "TRANSFERS_HELD",
      message: `${where}, and transfers are held by ${set.transfersHeld.by}: ${set.transfersHeld.because}`,
      next: `\`muster transfer ${set.name} --release\` releases them`,
    };
  const pauseMs = set.transferNotBeforeMs - nowMs;
  const when =
    pauseMs > 0 ? `in ${formatElapsed(pauseMs)}, after ${formatCount(set.transferFailures, "failure")}` : "next";
  return buildReason("LEAVING", `${where}; the transfer to another node begins ${when}`);
}

function explainWell(seen: SetSeen): StateReason {
  return buildReason(isSettled(seen) ? "READY" : "CHANGING", describeCounts(seen));
}

/** Returns whether all desired replicas are healthy and no change is in progress. */
function isSettled({ set, desired, healthy, replicas }: Omit<SetSeen, "farm" | "rollout" | "nodes">): boolean {
  return healthy >= desired && replicas.length === desired && set.transfer === undefined;
}

function describeCounts({ desired, replicas, healthy }: SetSeen): string {
  return `${desired} wanted, ${replicas.length} placed, ${healthy} ready`;
}

function describeRollout(seen: RolloutSeen): string {
  const { rollout, newHealthy, newCurrent, oldHealthy, oldCurrent } = seen;
  const { id, phase, oldSet, newSet, target, trouble } = rollout;
  const fresh = `${newSet} has ${newCurrent} of ${target}, ${newHealthy} ready`;
  const old = `${oldSet} has ${oldCurrent}, ${oldHealthy} ready`;
  const why = trouble === undefined ? seen.waitingBecause : `${trouble.code}: ${trouble.message}`;
  const minimum = `at least ${computeMinimum(rollout)} stay ready`;
  return `roll ${id} ${phase}: ${fresh}; ${old}; ${minimum}${why === "" ? "" : ` (${why})`}`;
}

function describeNodes(nodes: readonly NodeVerdict[]): string {
  const counts = new Map<string, number>();
  for (const { code } of nodes) counts.set(code, (counts.get(code) ?? 0) + 1);
  return counts.size === 0 ? "no nodes" : [...counts].map(([code, count]) => `${count} ${code}`).join(", ");
}

function formatCount(count: number, noun: string): string {
  return `${count} ${noun}${count === 1 ? "" : "s"}`;
}
