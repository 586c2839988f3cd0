import { type JsonObject, getList, findNumber } from "../json.ts";
import { isDeleting, getName } from "../metadata.ts";
import { buildPod, continueCondition, isActive, isReady, positive, getReplicas } from "./owned-pods.ts";

export type PodStep =
  | { readonly kind: "create-pod"; readonly pod: JsonObject; readonly because: "missing" }
  | { readonly kind: "delete-pod"; readonly pod: JsonObject; readonly because: "ended" | "outdated" | "scaled-down" };

/** Creates the one pod of a set, or deletes it at 0 replicas. A pod that has ended or is being deleted does not count. */
export function planReplicaSet(set: JsonObject, pods: readonly JsonObject[]): PodStep[] {
  if (isDeleting(set)) return [];
  const active = pods.filter(isActive);
  if (getReplicas(set) === 0) return active.map((pod) => ({ kind: "delete-pod", pod, because: "scaled-down" }));
  if (active.length > 0) return [];
  return [{ kind: "create-pod", pod: buildPod(set, { generateName: `${getName(set)}-` }), because: "missing" }];
}

/** The status of a replica set. `failure` is the refusal of the last step. */
export function buildReplicaSetStatus(
  set: JsonObject,
  pods: readonly JsonObject[],
  { failure, time }: { readonly failure: string | undefined; readonly time: string },
): JsonObject {
  const active = pods.filter(isActive);
  const ready = active.filter(isReady).length;
  const condition = { type: "ReplicaFailure", status: "True", reason: "FailedCreate", message: failure ?? "" };
  const known = getList(set, "status", "conditions");
  return {
    replicas: active.length,
    ...positive({ fullyLabeledReplicas: active.length, readyReplicas: ready, availableReplicas: ready }),
    observedGeneration: findNumber(set, "metadata", "generation") ?? 1,
    ...(failure === undefined ? {} : { conditions: [continueCondition(known, condition, time)] }),
  };
}
