import { at, type Json, type JsonObject, listAt, numberAt, objectAt, textAt } from "../json.ts";
import { nameOf } from "../metadata.ts";
import { type Condition, findCondition, withCondition, withoutCondition } from "./conditions.ts";
import { findNewSet, isComplete, replicasOf, rollingLimits, sum } from "./plan-deployment.ts";
import { positive } from "./plan-replica-set.ts";

export type DeploymentReport = {
  readonly status: JsonObject;
  /** When the status changes though nothing else does. */
  readonly dueAtMs: number;
};

type Now = {
  /** The set that has just been made. */
  readonly created: string | undefined;
  readonly nowMs: number;
  readonly time: string;
};

/** What a deployment comes to with its replica sets. */
export function buildDeploymentStatus(deployment: JsonObject, sets: readonly JsonObject[], now: Now): DeploymentReport {
  const current = findNewSet(deployment, sets);
  const count = (field: string): number => sum(sets, (set) => numberAt(set, "status", field) ?? 0);
  const available = count("availableReplicas");
  const collisionCount = numberAt(deployment, "status", "collisionCount");
  const counts = {
    replicas: count("replicas"),
    updatedReplicas: current === undefined ? 0 : (numberAt(current, "status", "replicas") ?? 0),
    readyReplicas: count("readyReplicas"),
    availableReplicas: available,
    unavailableReplicas: Math.max(0, sum(sets, replicasOf) - available),
  };
  const status = {
    observedGeneration: numberAt(deployment, "metadata", "generation") ?? 1,
    ...positive(counts),
    terminatingReplicas: count("terminatingReplicas"),
    ...(collisionCount === undefined ? {} : { collisionCount }),
  };
  const isAvailable = available >= replicasOf(deployment) - rollingLimits(deployment).unavailable;
  const conditions = withProgress(
    withCondition(listAt(deployment, "status", "conditions"), availability(isAvailable), now.time, {
      lastUpdateTime: now.time,
    }),
    { deployment, current, status, now },
  );
  const all = withReplicaFailure(conditions, sets, now.time);
  return {
    status: { ...status, ...(all.length === 0 ? {} : { conditions: all }) },
    dueAtMs: deadlineMs(deployment, all),
  };
}

function availability(isAvailable: boolean): Condition {
  return isAvailable
    ? {
        type: "Available",
        status: "True",
        reason: "MinimumReplicasAvailable",
        message: "Deployment has minimum availability.",
      }
    : {
        type: "Available",
        status: "False",
        reason: "MinimumReplicasUnavailable",
        message: "Deployment does not have minimum availability.",
      };
}

type Progress = {
  readonly deployment: JsonObject;
  readonly current: JsonObject | undefined;
  readonly status: JsonObject;
  readonly now: Now;
};

function withProgress(conditions: readonly Json[], { deployment, current, status, now }: Progress): Json[] {
  if (numberAt(deployment, "spec", "progressDeadlineSeconds") === undefined)
    return withoutCondition(conditions, "Progressing");
  const next = (known: readonly Json[], condition: Omit<Condition, "type">): Json[] =>
    withCondition(known, { type: "Progressing", ...condition }, now.time, { lastUpdateTime: now.time });
  const reason = textAt(findCondition(deployment, "Progressing"), "reason");
  const isPaused = at(deployment, "spec", "paused") === true;
  if (isPaused || reason === "DeploymentPaused") {
    if (isPaused && reason === "ProgressDeadlineExceeded") return [...conditions];
    const [word, message] = isPaused
      ? ["DeploymentPaused", "Deployment is paused"]
      : ["DeploymentResumed", "Deployment is resumed"];
    return next(conditions, { status: "Unknown", reason: word, message });
  }
  const subject = current === undefined ? `Deployment "${nameOf(deployment)}"` : `ReplicaSet "${nameOf(current)}"`;
  const begun = begin(conditions, { created: now.created, current, reason, next });
  const isSettled =
    (numberAt(status, "replicas") ?? 0) === (numberAt(status, "updatedReplicas") ?? 0) &&
    reason === "NewReplicaSetAvailable" &&
    now.created === undefined;
  if (isSettled) return begun;
  if (isComplete(deployment, status)) {
    const message = `${subject} has successfully progressed.`;
    return next(begun, { status: "True", reason: "NewReplicaSetAvailable", message });
  }
  if (isProgressing(objectAt(deployment, "status"), status)) {
    // The time is that of the latest progress, also where the words are the same.
    const known = begun.find((one) => textAt(one, "type") === "Progressing");
    const lastTransitionTime = textAt(known, "status") === "True" ? textAt(known, "lastTransitionTime") : now.time;
    const condition = { type: "Progressing", status: "True", reason: "ReplicaSetUpdated" };
    const message = `${subject} is progressing.`;
    const moved = { ...condition, message, lastUpdateTime: now.time, lastTransitionTime };
    return [...withoutCondition(begun, "Progressing"), moved];
  }
  if (now.nowMs < deadlineMs(deployment, begun)) return begun;
  const message = `${subject} has timed out progressing.`;
  return next(begun, { status: "False", reason: "ProgressDeadlineExceeded", message });
}

function begin(
  conditions: readonly Json[],
  {
    created,
    current,
    reason,
    next,
  }: {
    readonly created: string | undefined;
    readonly current: JsonObject | undefined;
    readonly reason: string;
    readonly next: (known: readonly Json[], condition: Omit<Condition, "type">) => Json[];
  },
): Json[] {
  if (created !== undefined) {
    const message = `Created new replica set "${created}"`;
    return next(conditions, { status: "True", reason: "NewReplicaSetCreated", message });
  }
  if (current === undefined || reason !== "") return [...conditions];
  const message = `Found new replica set "${nameOf(current)}"`;
  return next(conditions, { status: "True", reason: "FoundNewReplicaSet", message });
}

function isProgressing(before: JsonObject, after: JsonObject): boolean {
  const count = (status: JsonObject, field: string): number => numberAt(status, field) ?? 0;
  const old = (status: JsonObject): number => count(status, "replicas") - count(status, "updatedReplicas");
  const isMore = (field: string): boolean => count(after, field) > count(before, field);
  return (
    isMore("updatedReplicas") || old(after) < old(before) || isMore("readyReplicas") || isMore("availableReplicas")
  );
}

/** Until when a roll-out has to get on; Infinity when there is none that could be late. */
function deadlineMs(deployment: JsonObject, conditions: readonly Json[]): number {
  const known = conditions.find((one) => textAt(one, "type") === "Progressing");
  const isOver = ["", "NewReplicaSetAvailable", "ProgressDeadlineExceeded", "DeploymentPaused"];
  if (isOver.includes(textAt(known, "reason"))) return Infinity;
  const seconds = numberAt(deployment, "spec", "progressDeadlineSeconds") ?? Infinity;
  return Date.parse(textAt(known, "lastUpdateTime")) + seconds * 1000;
}

/** A set that cannot make its pods is told of. */
function withReplicaFailure(conditions: readonly Json[], sets: readonly JsonObject[], time: string): Json[] {
  const failure = sets.map((set) => findCondition(set, "ReplicaFailure")).find((one) => one !== undefined);
  if (failure === undefined) return withoutCondition(conditions, "ReplicaFailure");
  const [reason, message] = [textAt(failure, "reason"), textAt(failure, "message")];
  return withCondition(conditions, { type: "ReplicaFailure", status: "True", reason, message }, time, {
    lastUpdateTime: time,
  });
}
