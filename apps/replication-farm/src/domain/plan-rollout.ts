import { computeRemainder, computeRolloutStep, type RolloutCounts } from "./compute-rollout-step.ts";
import { decideMinimum } from "./decide-minimum.ts";
import { buildClientDetails } from "./audit.ts";
import { MAX_SHARES, type AuditEvent, type ReplicaSet } from "./replica-set.ts";
import { computeMinimum, type Rollout } from "./rollout.ts";
import type { SetAudit } from "./set-plan.ts";

/** The present state of a set in a rolling update. */
export type RolloutSet = {
  readonly set: ReplicaSet;
  /** Ready pods that are built from the set's template; at most one per placement. */
  readonly healthy: number;
};

export type RolloutSnapshot = {
  readonly nowMs: number;
  readonly rollout: Rollout;
  /** Undefined: the set does not exist. Both are read after the update. */
  readonly old: RolloutSet | undefined;
  readonly fresh: RolloutSet | undefined;
  /** The watcher is silent: health is unknown. */
  readonly blind: boolean;
};

type RolloutReason =
  | "sets-marked"
  | "next-step"
  | "has-its-replicas"
  | "set-missing"
  | "set-in-another-update"
  | "minimum-too-high"
  | "finished";

export type RolloutStep =
  | {
      readonly kind: "write";
      readonly next: Rollout;
      readonly because: RolloutReason;
      readonly audits: readonly SetAudit[];
    }
  /** Writes a set whose owner may be another farm; the write names the revision that was read. */
  | {
      readonly kind: "write-set";
      readonly next: ReplicaSet;
      readonly because: RolloutReason;
      readonly audits: readonly SetAudit[];
    }
  /** Written only after every set that names the update: these sets need the update until then. */
  | {
      readonly kind: "end";
      readonly because: "finished" | "set-missing" | "set-in-another-update" | "minimum-too-high";
      /** The audit of an abandoned update. */
      readonly audits: readonly SetAudit[];
    }
  | {
      readonly kind: "wait";
      readonly because:
        | "paused"
        | "delay"
        | "transfer-there"
        | "minimum-healthy"
        | "places-missing"
        | "surplus-there"
        | "old-pods-there"
        | "blind";
    };

/**
 * The next step of a rolling update: mark both sets, move counts as health permits, and write the result into the sets once the new set has its replicas. Each
 * step can be repeated, so an interrupted update continues from its records.
 */
export function planRollout(snapshot: RolloutSnapshot): RolloutStep {
  const { rollout } = snapshot;
  const [old, fresh] = [findPresent(rollout, snapshot.old), findPresent(rollout, snapshot.fresh)];
  if (old === undefined || fresh === undefined) return planWithout(rollout, old ?? fresh);
  switch (rollout.phase) {
    case "CREATING":
      return planMarks(rollout, old.set, fresh.set);
    case "PAUSED":
      return { kind: "wait", because: "paused" };
    case "RUNNING":
      return planMove(snapshot, old, fresh);
    case "FINISHING":
      return planFinish(snapshot, old.set, fresh.set);
  }
}

/** Returns undefined also for a set that has left the update because it was force-deleted, even if it was recreated since. */
function findPresent({ id, phase }: Rollout, rolloutSet: RolloutSet | undefined): RolloutSet | undefined {
  if (phase === "CREATING") return rolloutSet?.set.deletion === undefined ? rolloutSet : undefined;
  return phase === "FINISHING" || rolloutSet?.set.rollout === id ? rolloutSet : undefined;
}

/** A force-deleted set ends its update, and the other set keeps its replicas. After a finished update the old set does not exist either. */
function planWithout(rollout: Rollout, left: RolloutSet | undefined): RolloutStep {
  const because = rollout.phase === "FINISHING" ? "finished" : "set-missing";
  if (left?.set.rollout !== rollout.id) return because === "finished" ? END : abandoned(rollout, because);
  const moved = left.set.name === rollout.oldSet ? rollout.oldDesired : rollout.newDesired;
  // The set may have been scaled between the request and the mark.
  const desired = rollout.phase === "CREATING" ? left.set.spec.replicasDesired : moved;
  const audits = [completion(rollout, { succeeded: true, canceled: because === "set-missing" })];
  return { kind: "write-set", next: freed(left.set, desired), because, audits };
}

function planMarks(rollout: Rollout, old: ReplicaSet, fresh: ReplicaSet): RolloutStep {
  const sets = [old, fresh].toSorted((a, b) => (a.name < b.name ? -1 : 1));
  const isOthers = (set: ReplicaSet): boolean => set.rollout !== undefined && set.rollout !== rollout.id;
  if (sets.some(isOthers)) {
    const marked = sets.find((set) => set.rollout === rollout.id);
    if (marked === undefined) return abandoned(rollout, "set-in-another-update");
    return givenUp(rollout, marked, "set-in-another-update");
  }
  // Counts may change until both sets are marked. A disabled set keeps its present number.
  const oldDesired = old.disabled ? old.placements.length : old.spec.replicasDesired;
  const newDesired = fresh.spec.replicasDesired;
  const next: Rollout = {
    ...rollout,
    phase: "RUNNING",
    oldDesired,
    newDesired,
    undoTarget: oldDesired + newDesired,
    newBefore: newDesired,
  };
  const isMinimumKept =
    next.newDesired >= next.target || decideMinimum(next, next.oldDesired + next.newDesired) === undefined;
  if (!isMinimumKept) return planRefusal(rollout, sets);
  const unmarked = sets.find((set) => set.rollout === undefined);
  if (unmarked !== undefined) {
    const disabled = unmarked === old && old.disabled;
    // The new set shares nodes with the same sets as the old one.
    const sharesWith = unmarked === fresh ? listSharing(fresh, ...old.sharesWith) : old.sharesWith;
    const next = { ...unmarked, disabled, rollout: rollout.id, sharesWith };
    return { kind: "write-set", next, because: "sets-marked", audits: [] };
  }
  // A transfer that began before the mark gave its set an extra placement, which must be removed first.
  if (sets.some(({ transfer }) => transfer !== undefined)) return { kind: "wait", because: "transfer-there" };
  return {
    kind: "write",
    next,
    because: "sets-marked",
    audits: [record("ROLLING_UPDATE_CREATION", next, buildClientDetails(rollout.by))],
  };
}

/** Ends the update because the old set has become so small that no replica could move. Both sets stay unchanged. */
function planRefusal(rollout: Rollout, sets: readonly ReplicaSet[]): RolloutStep {
  const marked = sets.find((set) => set.rollout === rollout.id);
  if (marked === undefined) return abandoned(rollout, "minimum-too-high");
  return givenUp(rollout, marked, "minimum-too-high");
}

const END: RolloutStep = { kind: "end", because: "finished", audits: [] };

/** Ends an update whose sets do not, or no longer, belong to it. */
function abandoned(
  rollout: Rollout,
  because: Exclude<Extract<RolloutStep, { kind: "end" }>["because"], "finished">,
): RolloutStep {
  return { kind: "end", because, audits: [completion(rollout, { succeeded: false, canceled: true, reason: because })] };
}

function givenUp(
  rollout: Rollout,
  marked: ReplicaSet,
  because: "set-in-another-update" | "minimum-too-high",
): RolloutStep {
  const audits = [completion(rollout, { succeeded: false, canceled: true, reason: because })];
  return { kind: "write-set", next: { ...marked, rollout: undefined }, because, audits };
}

function planMove({ rollout, nowMs, blind }: RolloutSnapshot, old: RolloutSet, fresh: RolloutSet): RolloutStep {
  if (blind) return { kind: "wait", because: "blind" };
  // The set chooses the placements to remove, not only by health. Until they are gone, the number of remaining healthy replicas is unknown.
  if (old.set.placements.length > rollout.oldDesired || fresh.set.placements.length > rollout.newDesired)
    return { kind: "wait", because: "surplus-there" };
  const counts: RolloutCounts = {
    newHealthy: fresh.healthy,
    oldDesired: rollout.oldDesired,
    newDesired: rollout.newDesired,
    target: rollout.target,
    minimum: computeMinimum(rollout),
  };
  if (rollout.newDesired >= rollout.target) return planRemainder(rollout, counts, fresh.set);
  if (rollout.newDesired > 0 && nowMs < rollout.lastStepAtMs + rollout.delayMs)
    return { kind: "wait", because: "delay" };
  const { add, remove } = computeRolloutStep(counts);
  if (add === 0) return { kind: "wait", because: "minimum-healthy" };
  const next = {
    ...rollout,
    newDesired: rollout.newDesired + add,
    oldDesired: rollout.oldDesired - remove,
    lastStepAtMs: nowMs,
  };
  return { kind: "write", next, because: "next-step", audits: [] };
}

function planRemainder(rollout: Rollout, counts: RolloutCounts, fresh: ReplicaSet): RolloutStep {
  if (fresh.placements.length < rollout.target) return { kind: "wait", because: "places-missing" };
  const remove = rollout.leaveOld ? 0 : computeRemainder(counts);
  if (remove > 0) {
    const next = { ...rollout, oldDesired: rollout.oldDesired - remove };
    return { kind: "write", next, because: "next-step", audits: [] };
  }
  if (!rollout.leaveOld && rollout.oldDesired > 0) return { kind: "wait", because: "minimum-healthy" };
  return { kind: "write", next: { ...rollout, phase: "FINISHING" }, because: "has-its-replicas", audits: [] };
}

/** Writes the old set first: while the new one is marked, the update can be resumed. */
function planFinish({ rollout, nowMs }: RolloutSnapshot, old: ReplicaSet, fresh: ReplicaSet): RolloutStep {
  const isUndone = rollout.undone % 2 === 1;
  if (old.rollout === rollout.id) {
    if (rollout.leaveOld) {
      const given = isUndone ? rollout.newBefore : rollout.oldDesired;
      const desired = old.disabled ? old.spec.replicasDesired : given;
      const next = { ...freed(old, desired), sharesWith: listSharing(old, fresh.name) };
      return { kind: "write-set", next, because: "finished", audits: [] };
    }
    if (old.placements.length > 0) return { kind: "wait", because: "old-pods-there" };
    const next = { ...freed(old, 0), deletion: old.deletion ?? { keepPods: false, atMs: nowMs } };
    const details = {
      pod_id: old.spec.podId,
      keep_pods: false,
      roll_id: rollout.id,
      reason: "its rolling update has ended",
    };
    return { kind: "write-set", next, because: "finished", audits: [{ eventType: "DELETED", details }] };
  }
  if (fresh.rollout !== rollout.id) return END;
  const audits = [completion(rollout, { succeeded: !isUndone, canceled: isUndone })];
  const sharesWith = rollout.leaveOld ? listSharing(fresh, old.name) : fresh.sharesWith;
  const next = { ...freed(fresh, rollout.target), sharesWith };
  return { kind: "write-set", next, because: "finished", audits };
}

/** Lists the sets that a set shares its nodes with, including `others`. */
function listSharing({ name, sharesWith }: ReplicaSet, ...others: readonly string[]): readonly string[] {
  return [...new Set([...sharesWith, ...others])].filter((other) => other !== name).slice(-MAX_SHARES);
}

/** Returns the set after it has left the rollout, with its own number of replicas. */
function freed(set: ReplicaSet, replicasDesired: number): ReplicaSet {
  return { ...set, rollout: undefined, spec: { ...set.spec, replicasDesired } };
}

function completion(
  rollout: Rollout,
  outcome: { readonly succeeded: boolean; readonly canceled: boolean; readonly reason?: RolloutReason },
): SetAudit {
  return record("ROLLING_UPDATE_COMPLETION", rollout, outcome);
}

function record(eventType: AuditEvent, rollout: Rollout, rest: Readonly<Record<string, unknown>>): SetAudit {
  const { id, oldSet, newSet, target, minimum, leaveOld } = rollout;
  const details = {
    roll_id: id,
    old: oldSet,
    new: newSet,
    replicas_desired: target,
    minimum_replicas: minimum,
    ...(leaveOld && { leave_old: true }),
    ...rest,
  };
  return { eventType, details };
}
