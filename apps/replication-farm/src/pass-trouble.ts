import type { ReplicaSet, SetTrouble } from "./domain/replica-set.ts";
import type { Rollout } from "./domain/rollout.ts";
import type { RolloutStep } from "./domain/plan-rollout.ts";
import type { PassDeps } from "./pass-deps.ts";

/**
 * Raises the alert of the set's trouble on each pass: `Alerts` publishes it once an hour, and again after a restart. Resolves the alert of the former trouble.
 */
export function raiseTrouble({ alerts }: Pick<PassDeps, "alerts">, before: ReplicaSet, after: ReplicaSet): void {
  const { name, trouble } = after;
  if (before.trouble !== undefined && before.trouble.code !== trouble?.code)
    alerts.resolve(buildIncidentKey(before.trouble.code, name));
  if (trouble === undefined) return;
  const { code, message } = trouble;
  alerts.raise({
    incidentKey: buildIncidentKey(code, name),
    description: `replica set ${name}: ${message}`,
    urgency: getUrgency(code),
    details: { code },
    replicaSet: name,
  });
}

/** HIGH: the set has no node for its replicas, and cannot get one by itself. */
export function getUrgency(code: SetTrouble["code"]): "HIGH" | "LOW" {
  return code === "NO_ELIGIBLE_NODES" || code === "MACHINES_GONE" ? "HIGH" : "LOW";
}

/** Raises the alert of a stuck rolling update, and resolves it once the update continues. */
export function raiseRolloutTrouble(
  { alerts }: Pick<PassDeps, "alerts">,
  rollout: Rollout,
  step: RolloutStep,
  trouble: SetTrouble | undefined,
): void {
  const incidentKey = `roll_stuck_${rollout.id}`;
  if (step.kind !== "wait") alerts.resolve(incidentKey);
  if (trouble === undefined) return;
  const { code, message } = trouble;
  const description = `rolling update ${rollout.id}, from ${rollout.oldSet} to ${rollout.newSet}, waits: ${message}`;
  alerts.raise({ incidentKey, description, urgency: "LOW", details: { code }, replicaSet: rollout.newSet });
}

const GIVEN_UP = new Map<string, string>([
  ["set-missing", "does not exist"],
  ["set-in-another-update", "is in another update, which began first"],
  ["minimum-too-high", "has become so small that the minimum could never be kept"],
]);

/** Raises the alert of an abandoned rolling update. */
export function raiseAbandoned({ alerts }: Pick<PassDeps, "alerts">, rollout: Rollout, step: RolloutStep): void {
  const why = step.kind === "wait" ? undefined : GIVEN_UP.get(step.because);
  if (why === undefined) return;
  alerts.raise({
    incidentKey: `roll_given_up_${rollout.id}`,
    description: `rolling update ${rollout.id} is abandoned: set ${rollout.oldSet} or ${rollout.newSet} ${why}`,
    urgency: "LOW",
    details: { old: rollout.oldSet, new: rollout.newSet },
    replicaSet: rollout.newSet,
  });
}

/** Resolves the alert once the update is gone, so that a later abandoned update of the same name raises it again. */
export function resolveAbandoned({ alerts }: Pick<PassDeps, "alerts">, { id }: Pick<Rollout, "id">): void {
  alerts.resolve(`roll_given_up_${id}`);
}

function buildIncidentKey(code: string, set: string): string {
  return `${code.toLowerCase()}_${set}`;
}
