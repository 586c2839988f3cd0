import type { ReplicaSet, Trouble } from "./domain/replica-set.ts";
import type { Roll } from "./domain/roll.ts";
import type { RollStep } from "./domain/plan-roll.ts";
import type { Owned, PassDeps } from "./pass-deps.ts";

/** Raises the alert of the trouble that a set has, on each pass: who could not be told hears of it again. Ends that of the one it had. */
export function tellTrouble({ alerts }: Pick<PassDeps, "alerts">, before: ReplicaSet, after: ReplicaSet): void {
  const { name, trouble } = after;
  if (before.trouble !== undefined && before.trouble.code !== trouble?.code)
    alerts.resolve(incidentOf(before.trouble.code, name));
  if (trouble === undefined) return;
  const { code, message } = trouble;
  alerts.raise({
    incidentKey: incidentOf(code, name),
    description: `replica set ${name}: ${message}`,
    urgency: urgencyOf(code),
    details: { code },
    replicaSet: name,
  });
}

/** HIGH: the set has no place for its replicas, and nothing that it does by itself gives it one. */
export function urgencyOf(code: Trouble["code"]): "HIGH" | "LOW" {
  return code === "NO_ELIGIBLE_NODES" || code === "MACHINES_GONE" ? "HIGH" : "LOW";
}

/** The set says that its rolling update is missing, and until that is there nothing is done: how many replicas it should have stands nowhere else. */
export function withMissingRoll(set: ReplicaSet, nowMs: number): ReplicaSet {
  const message = `rolling update ${set.roll ?? ""}, in which it is, is not there or cannot be read`;
  if (set.trouble?.code === "ROLL_SET_MISSING" && set.trouble.message === message) return set;
  return { ...set, trouble: { code: "ROLL_SET_MISSING", message, sinceMs: nowMs } };
}

type StuckContext = {
  readonly nowMs: number;
  readonly unhealthyMs: number;
  /** Of the update. */
  readonly sets: readonly Pick<ReplicaSet, "spec">[];
};

const STUCK: Readonly<Record<string, string>> = {
  "minimum-healthy": "no replica can be moved without too few that are healthy",
  "places-missing": "the new set does not get its places",
  "surplus-there": "the places that a set has to give up do not go",
  "old-pods-there": "the places of the old set do not go",
};

/**
 * The trouble of a rolling update that has waited for one thing for `unhealthyMs`, and for as long as its sets ask their pods to have been ready, as far as this farm has seen; undefined: it goes on, or
 * somebody has paused it.
 */
export function findStuck(
  owned: Pick<Owned, "rollWait">,
  roll: Roll,
  step: RollStep,
  { nowMs, unhealthyMs, sets }: StuckContext,
): Trouble | undefined {
  const why = step.kind === "wait" ? STUCK[step.because] : undefined;
  if (why === undefined) {
    owned.rollWait = undefined;
    return undefined;
  }
  const { oldSet, newSet, oldDesired, newDesired } = roll;
  const at = `${step.because} ${oldSet} ${newSet} ${oldDesired} ${newDesired}`;
  if (owned.rollWait?.at !== at) owned.rollWait = { at, sinceMs: nowMs };
  const provingMs = 1000 * Math.max(0, ...sets.map(({ spec }) => spec.minReadySeconds));
  if (nowMs - owned.rollWait.sinceMs < unhealthyMs + provingMs) return undefined;
  return { code: "ROLL_STUCK", message: `${why} (${newDesired} of ${roll.target} moved)`, sinceMs: nowMs };
}

/** Raises the alert of a rolling update that is stuck, and ends it once that goes on. */
export function tellRollTrouble(
  { alerts }: Pick<PassDeps, "alerts">,
  roll: Roll,
  step: RollStep,
  trouble: Trouble | undefined,
): void {
  const incidentKey = `roll_stuck_${roll.id}`;
  if (step.kind !== "wait") alerts.resolve(incidentKey);
  if (trouble === undefined) return;
  const { code, message } = trouble;
  const description = `rolling update ${roll.id}, from ${roll.oldSet} to ${roll.newSet}, waits: ${message}`;
  alerts.raise({ incidentKey, description, urgency: "LOW", details: { code }, replicaSet: roll.newSet });
}

const GIVEN_UP = new Map<string, string>([
  ["set-missing", "does not exist"],
  ["set-in-another-update", "is in another update, which was faster"],
  ["minimum-too-high", "has become so small that the minimum could never be kept"],
]);

/** Alerts of a rolling update that ends without having come to its end. */
export function tellGivenUp({ alerts }: Pick<PassDeps, "alerts">, roll: Roll, step: RollStep): void {
  const why = step.kind === "wait" ? undefined : GIVEN_UP.get(step.because);
  if (why === undefined) return;
  alerts.raise({
    incidentKey: `roll_given_up_${roll.id}`,
    description: `rolling update ${roll.id} is given up: set ${roll.oldSet} or ${roll.newSet} ${why}`,
    urgency: "LOW",
    details: { old: roll.oldSet, new: roll.newSet },
    replicaSet: roll.newSet,
  });
}

/** It is over with the update: one of the same name that is given up after it is told, too. */
export function endGivenUp({ alerts }: Pick<PassDeps, "alerts">, { id }: Pick<Roll, "id">): void {
  alerts.resolve(`roll_given_up_${id}`);
}

function incidentOf(code: string, set: string): string {
  return `${code.toLowerCase()}_${set}`;
}
