import { computeRemainder, computeRollStep, type RollCounts } from "./compute-roll-step.ts";
import { decideMinimum } from "./decide-minimum.ts";
import { byWhom } from "./audit.ts";
import { SHARES_MAX, type AuditEvent, type ReplicaSet } from "./replica-set.ts";
import { minimumOf, type Roll } from "./roll.ts";
import type { Audit } from "./set-plan.ts";

/** A set of a rolling update as it is now. */
export type RolledSet = {
  readonly set: ReplicaSet;
  /** Pods that are ready and made from the set's template; at most one a place. */
  readonly healthy: number;
};

export type RollSnapshot = {
  readonly nowMs: number;
  readonly roll: Roll;
  /** Undefined: the set is not there. Both are read after the update. */
  readonly old: RolledSet | undefined;
  readonly fresh: RolledSet | undefined;
  /** The watcher has been silent: nobody's health is known. */
  readonly blind: boolean;
};

export type RollReason =
  | "sets-marked"
  | "next-step"
  | "has-its-replicas"
  | "set-missing"
  | "set-in-another-update"
  | "minimum-too-high"
  | "finished";

export type RollStep =
  | { readonly kind: "write"; readonly next: Roll; readonly because: RollReason; readonly audits: readonly Audit[] }
  /** Writes a set whose owner may be another farm; it names the revision that was read. */
  | {
      readonly kind: "write-set";
      readonly next: ReplicaSet;
      readonly because: RollReason;
      readonly audits: readonly Audit[];
    }
  /** Only once every set that names the update was written: what it says is needed until then. */
  | {
      readonly kind: "end";
      readonly because: "finished" | "set-missing" | "set-in-another-update" | "minimum-too-high";
      /** Of one that is given up. */
      readonly audits: readonly Audit[];
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
 * The next step of a rolling update: mark both sets as its own, move counts as health allows, and once the new set has its places write what came of it into the sets. Each step can be made again: one that
 * was cut short is found as it was left.
 */
export function planRoll(snapshot: RollSnapshot): RollStep {
  const { roll } = snapshot;
  const [old, fresh] = [presentIn(roll, snapshot.old), presentIn(roll, snapshot.fresh)];
  if (old === undefined || fresh === undefined) return planWithout(roll, old ?? fresh);
  switch (roll.phase) {
    case "CREATING":
      return planMarks(roll, old.set, fresh.set);
    case "PAUSED":
      return { kind: "wait", because: "paused" };
    case "RUNNING":
      return planMove(snapshot, old, fresh);
    case "FINISHING":
      return planFinish(snapshot, old.set, fresh.set);
  }
}

/** Undefined also for a set that has left the update, because it was deleted by force; perhaps it was made anew since. */
function presentIn({ id, phase }: Roll, rolled: RolledSet | undefined): RolledSet | undefined {
  if (phase === "CREATING") return rolled?.set.deletion === undefined ? rolled : undefined;
  return phase === "FINISHING" || rolled?.set.roll === id ? rolled : undefined;
}

/** A set that was deleted by force ends its update, and what is left keeps what it has. After the end of a finished update the old set is not there either. */
function planWithout(roll: Roll, left: RolledSet | undefined): RollStep {
  const because = roll.phase === "FINISHING" ? "finished" : "set-missing";
  if (left?.set.roll !== roll.id) return because === "finished" ? END : abandoned(roll, because);
  const moved = left.set.name === roll.oldSet ? roll.oldDesired : roll.newDesired;
  // It may have been scaled between the request and its being marked.
  const desired = roll.phase === "CREATING" ? left.set.spec.replicasDesired : moved;
  const audits = [completion(roll, { succeeded: true, canceled: because === "set-missing" })];
  return { kind: "write-set", next: freed(left.set, desired), because, audits };
}

function planMarks(roll: Roll, old: ReplicaSet, fresh: ReplicaSet): RollStep {
  const sets = [old, fresh].toSorted((a, b) => (a.name < b.name ? -1 : 1));
  const isOthers = (set: ReplicaSet): boolean => set.roll !== undefined && set.roll !== roll.id;
  if (sets.some(isOthers)) {
    const marked = sets.find((set) => set.roll === roll.id);
    if (marked === undefined) return abandoned(roll, "set-in-another-update");
    return givenUp(roll, marked, "set-in-another-update");
  }
  // Counts may have changed until both sets are marked. A disabled set gets no more than it has.
  const oldDesired = old.disabled ? old.placements.length : old.spec.replicasDesired;
  const newDesired = fresh.spec.replicasDesired;
  const next: Roll = {
    ...roll,
    phase: "RUNNING",
    oldDesired,
    newDesired,
    undoTarget: oldDesired + newDesired,
    newBefore: newDesired,
  };
  const isMinimumKept =
    next.newDesired >= next.target || decideMinimum(next, next.oldDesired + next.newDesired) === undefined;
  if (!isMinimumKept) return planRefusal(roll, sets);
  const unmarked = sets.find((set) => set.roll === undefined);
  if (unmarked !== undefined) {
    const disabled = unmarked === old && old.disabled;
    // The new set comes to stand beside those that the old one stands beside.
    const sharesWith = unmarked === fresh ? sharedBy(fresh, ...old.sharesWith) : old.sharesWith;
    const next = { ...unmarked, disabled, roll: roll.id, sharesWith };
    return { kind: "write-set", next, because: "sets-marked", audits: [] };
  }
  // One that began before the mark: its set has a place more than it should, and gives one up.
  if (sets.some(({ transfer }) => transfer !== undefined)) return { kind: "wait", because: "transfer-there" };
  return {
    kind: "write",
    next,
    because: "sets-marked",
    audits: [record("ROLLING_UPDATE_CREATION", next, byWhom(roll.by))],
  };
}

/** The old set has become so small that nothing could ever be moved: both are as they were. */
function planRefusal(roll: Roll, sets: readonly ReplicaSet[]): RollStep {
  const marked = sets.find((set) => set.roll === roll.id);
  if (marked === undefined) return abandoned(roll, "minimum-too-high");
  return givenUp(roll, marked, "minimum-too-high");
}

const END: RollStep = { kind: "end", because: "finished", audits: [] };

/** The end of an update whose sets are not its own, or not any more. */
function abandoned(roll: Roll, because: Exclude<Extract<RollStep, { kind: "end" }>["because"], "finished">): RollStep {
  return { kind: "end", because, audits: [completion(roll, { succeeded: false, canceled: true, reason: because })] };
}

function givenUp(roll: Roll, marked: ReplicaSet, because: "set-in-another-update" | "minimum-too-high"): RollStep {
  const audits = [completion(roll, { succeeded: false, canceled: true, reason: because })];
  return { kind: "write-set", next: { ...marked, roll: undefined }, because, audits };
}

function planMove({ roll, nowMs, blind }: RollSnapshot, old: RolledSet, fresh: RolledSet): RollStep {
  if (blind) return { kind: "wait", because: "blind" };
  // Which of them go the set decides, by more than their health: until they are gone nobody knows how many healthy ones stay.
  if (old.set.placements.length > roll.oldDesired || fresh.set.placements.length > roll.newDesired)
    return { kind: "wait", because: "surplus-there" };
  const counts: RollCounts = {
    newHealthy: fresh.healthy,
    oldDesired: roll.oldDesired,
    newDesired: roll.newDesired,
    target: roll.target,
    minimum: minimumOf(roll),
  };
  if (roll.newDesired >= roll.target) return planRemainder(roll, counts, fresh.set);
  if (roll.newDesired > 0 && nowMs < roll.lastStepAtMs + roll.delayMs) return { kind: "wait", because: "delay" };
  const { add, remove } = computeRollStep(counts);
  if (add === 0) return { kind: "wait", because: "minimum-healthy" };
  const next = {
    ...roll,
    newDesired: roll.newDesired + add,
    oldDesired: roll.oldDesired - remove,
    lastStepAtMs: nowMs,
  };
  return { kind: "write", next, because: "next-step", audits: [] };
}

function planRemainder(roll: Roll, counts: RollCounts, fresh: ReplicaSet): RollStep {
  if (fresh.placements.length < roll.target) return { kind: "wait", because: "places-missing" };
  const remove = roll.leaveOld ? 0 : computeRemainder(counts);
  if (remove > 0) {
    const next = { ...roll, oldDesired: roll.oldDesired - remove };
    return { kind: "write", next, because: "next-step", audits: [] };
  }
  if (!roll.leaveOld && roll.oldDesired > 0) return { kind: "wait", because: "minimum-healthy" };
  return { kind: "write", next: { ...roll, phase: "FINISHING" }, because: "has-its-replicas", audits: [] };
}

/** The old set first: as long as the new one is marked, the update is found again. */
function planFinish({ roll, nowMs }: RollSnapshot, old: ReplicaSet, fresh: ReplicaSet): RollStep {
  const isUndone = roll.undone % 2 === 1;
  if (old.roll === roll.id) {
    if (roll.leaveOld) {
      const given = isUndone ? roll.newBefore : roll.oldDesired;
      const desired = old.disabled ? old.spec.replicasDesired : given;
      const next = { ...freed(old, desired), sharesWith: sharedBy(old, fresh.name) };
      return { kind: "write-set", next, because: "finished", audits: [] };
    }
    if (old.placements.length > 0) return { kind: "wait", because: "old-pods-there" };
    const next = { ...freed(old, 0), deletion: old.deletion ?? { keepPods: false, atMs: nowMs } };
    const details = {
      pod_id: old.spec.podId,
      keep_pods: false,
      roll_id: roll.id,
      reason: "its rolling update has ended",
    };
    return { kind: "write-set", next, because: "finished", audits: [{ eventType: "DELETED", details }] };
  }
  if (fresh.roll !== roll.id) return END;
  const audits = [completion(roll, { succeeded: !isUndone, canceled: isUndone })];
  const sharesWith = roll.leaveOld ? sharedBy(fresh, old.name) : fresh.sharesWith;
  const next = { ...freed(fresh, roll.target), sharesWith };
  return { kind: "write-set", next, because: "finished", audits };
}

/** What a set shares its nodes with, and these. */
function sharedBy({ name, sharesWith }: ReplicaSet, ...others: readonly string[]): readonly string[] {
  return [...new Set([...sharesWith, ...others])].filter((other) => other !== name).slice(-SHARES_MAX);
}

/** Out of the update, with a number of its own again. */
function freed(set: ReplicaSet, replicasDesired: number): ReplicaSet {
  return { ...set, roll: undefined, spec: { ...set.spec, replicasDesired } };
}

function completion(
  roll: Roll,
  outcome: { readonly succeeded: boolean; readonly canceled: boolean; readonly reason?: RollReason },
): Audit {
  return record("ROLLING_UPDATE_COMPLETION", roll, outcome);
}

function record(eventType: AuditEvent, roll: Roll, rest: Readonly<Record<string, unknown>>): Audit {
  const { id, oldSet, newSet, target, minimum, leaveOld } = roll;
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
