import { type JsonObject, listAt, numberAt, objectAt, put, textAt } from "../json.ts";
import { isDeleting, nameOf } from "../metadata.ts";
import { labelsOf } from "../selectors.ts";
import { withCondition, withoutCondition } from "./conditions.ts";
import { availableAtMs, isActive, isOver, isReady, podOfTemplate, readySinceMs } from "./dependents.ts";

export type ReplicaStep =
  | { readonly do: "create-pod"; readonly pod: JsonObject; readonly because: "too-few" }
  | { readonly do: "delete-pod"; readonly pod: JsonObject; readonly because: "too-many" };

/** What brings the pods of a set to the number that it wants; one that has ended or is being deleted counts no more. */
export function planReplicaSet(set: JsonObject, pods: readonly JsonObject[]): ReplicaStep[] {
  if (isDeleting(set)) return [];
  const active = pods.filter(isActive);
  const missing = (numberAt(set, "spec", "replicas") ?? 1) - active.length;
  if (missing >= 0) {
    const template = podOfTemplate(objectAt(set, "spec", "template"), set);
    const pod = put(template, ["metadata", "generateName"], `${nameOf(set)}-`);
    return Array.from({ length: missing }, () => ({ do: "create-pod", pod, because: "too-few" }));
  }
  return rankForDeletion(active)
    .slice(0, -missing)
    .map((pod) => ({ do: "delete-pod", pod, because: "too-many" }));
}

const PHASES = ["Pending", "Unknown", "Running"];
const COST = "controller.kubernetes.io/pod-deletion-cost";

/** Whoever is missed least comes first. */
export function rankForDeletion(pods: readonly JsonObject[]): JsonObject[] {
  const node = (pod: JsonObject): string => textAt(pod, "spec", "nodeName");
  const neighbours = (pod: JsonObject): number =>
    pods.filter((other) => isReady(other) && node(other) === node(pod)).length;
  const ranks = new Map(
    pods.map((pod) => [
      pod,
      [
        node(pod) === "" ? 0 : 1,
        PHASES.indexOf(textAt(pod, "status", "phase")),
        isReady(pod) ? 1 : 0,
        Number(textAt(pod, "metadata", "annotations", COST)) || 0,
        -neighbours(pod),
        -readySinceMs(pod),
        -restartsOf(pod),
        -Date.parse(textAt(pod, "metadata", "creationTimestamp")),
      ],
    ]),
  );
  return pods.toSorted((one, other) => {
    const [first = [], second = []] = [ranks.get(one), ranks.get(other)];
    const differing = first.findIndex((value, index) => value !== second[index]);
    return (first[differing] ?? 0) - (second[differing] ?? 0);
  });
}

export type ReplicaSetReport = {
  readonly status: JsonObject;
  /** When the status changes though nothing else does. */
  readonly dueAtMs: number;
};

/** What a set comes to with its pods. `failure` is why a step has just failed. */
export function buildReplicaSetStatus(
  set: JsonObject,
  pods: readonly JsonObject[],
  now: { readonly failure: string | undefined; readonly nowMs: number; readonly time: string },
): ReplicaSetReport {
  const active = pods.filter(isActive);
  const labels = Object.entries(objectAt(set, "spec", "template", "metadata", "labels"));
  const ready = active.filter(isReady);
  const availableAt = ready.map((pod) => availableAtMs(pod, set));
  const known = listAt(set, "status", "conditions");
  const isShort = active.length < (numberAt(set, "spec", "replicas") ?? 1);
  const conditions =
    now.failure === undefined
      ? withoutCondition(known, "ReplicaFailure")
      : withCondition(
          known,
          {
            type: "ReplicaFailure",
            status: "True",
            reason: isShort ? "FailedCreate" : "FailedDelete",
            message: now.failure,
          },
          now.time,
        );
  const counts = {
    fullyLabeledReplicas: active.filter((pod) => labels.every(([key, value]) => labelsOf(pod)[key] === value)).length,
    readyReplicas: ready.length,
    availableReplicas: availableAt.filter((atMs) => atMs <= now.nowMs).length,
  };
  return {
    status: {
      replicas: active.length,
      ...positive(counts),
      terminatingReplicas: pods.filter((pod) => isDeleting(pod) && !isOver(pod)).length,
      observedGeneration: numberAt(set, "metadata", "generation") ?? 1,
      ...(conditions.length === 0 ? {} : { conditions }),
    },
    dueAtMs: Math.min(Infinity, ...availableAt.filter((atMs) => atMs > now.nowMs)),
  };
}

/** Numbers that are 0 are left out, as Go leaves them out. */
export function positive(counts: Readonly<Record<string, number>>): JsonObject {
  return Object.fromEntries(Object.entries(counts).filter(([, count]) => count > 0));
}

function restartsOf(pod: JsonObject): number {
  return Math.max(
    0,
    ...listAt(pod, "status", "containerStatuses").map((status) => numberAt(status, "restartCount") ?? 0),
  );
}
