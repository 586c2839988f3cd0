import { type JsonObject, listAt, numberAt, textAt } from "../json.ts";
import { isDeleting, nameOf } from "../metadata.ts";
import { buildPod, isActive, isReady, positive, replicasOf, withCondition } from "./owned-pods.ts";

export type PodStep =
  | { readonly do: "create-pod"; readonly pod: JsonObject; readonly because: "missing" }
  | { readonly do: "delete-pod"; readonly pod: JsonObject; readonly because: "ended" | "outdated" | "scaled-down" };

/** Brings the pods of a set to their number; a pod that has ended or is being deleted no longer counts. */
export function planReplicaSet(set: JsonObject, pods: readonly JsonObject[]): PodStep[] {
  if (isDeleting(set)) return [];
  const active = pods.filter(isActive);
  const missing = replicasOf(set) - active.length;
  const pod = buildPod(set, { generateName: `${nameOf(set)}-` });
  if (missing >= 0) return Array.from({ length: missing }, () => ({ do: "create-pod", pod, because: "missing" }));
  // Pods that are not ready go first, then the newest.
  return active
    .toSorted((one, other) => Number(isReady(one)) - Number(isReady(other)) || createdMs(other) - createdMs(one))
    .slice(0, -missing)
    .map((extra) => ({ do: "delete-pod", pod: extra, because: "scaled-down" }));
}

/** The status of a replica set. `failure` is why the last step was refused. */
export function buildReplicaSetStatus(
  set: JsonObject,
  pods: readonly JsonObject[],
  { failure, time }: { readonly failure: string | undefined; readonly time: string },
): JsonObject {
  const active = pods.filter(isActive);
  const ready = active.filter(isReady).length;
  const conditions = withCondition(
    listAt(set, "status", "conditions"),
    { type: "ReplicaFailure", status: "True", reason: "FailedCreate", message: failure ?? "" },
    time,
    failure !== undefined,
  );
  return {
    replicas: active.length,
    ...positive({ fullyLabeledReplicas: active.length, readyReplicas: ready, availableReplicas: ready }),
    observedGeneration: numberAt(set, "metadata", "generation") ?? 1,
    ...(conditions.length === 0 ? {} : { conditions }),
  };
}

function createdMs(pod: JsonObject): number {
  return Date.parse(textAt(pod, "metadata", "creationTimestamp"));
}
