import { type JsonObject, listAt, numberAt, objectAt, put, textAt } from "../json.ts";
import { isDeleting, nameOf } from "../metadata.ts";
import { labelsOf } from "../selectors.ts";
import {
  continueCondition,
  controllerReference,
  isControlledBy,
  isOver,
  positive,
  replicasOf,
  templateHash,
} from "./owned-pods.ts";

export type DeploymentStep =
  | { readonly kind: "create-set"; readonly set: JsonObject; readonly because: "template-new" }
  | { readonly kind: "write-set"; readonly set: JsonObject; readonly because: "scaled" | "template-old" }
  | { readonly kind: "delete-set"; readonly set: JsonObject; readonly because: "template-old" };

const HASH_LABEL = "pod-template-hash";

/** All pods of an old template end before the pod of the new one starts. `sets` are those that the deployment owns, `pods` all of the namespace. */
export function planDeployment(
  deployment: JsonObject,
  sets: readonly JsonObject[],
  pods: readonly JsonObject[],
): DeploymentStep[] {
  if (isDeleting(deployment)) return [];
  const replicas = replicasOf(deployment);
  const current = findCurrentSet(deployment, sets);
  const old = sets.filter((set) => set !== current);
  const running = old.filter((set) => replicasOf(set) > 0);
  if (running.length > 0)
    return running.map((set) => ({ kind: "write-set", set: withReplicas(set, 0), because: "template-old" }));
  if (pods.some((pod) => !isOver(pod) && old.some((set) => isControlledBy(pod, set)))) return [];
  const steps = old
    .filter((set) => !isDeleting(set))
    .map((set): DeploymentStep => ({ kind: "delete-set", set, because: "template-old" }));
  if (current === undefined) steps.push({ kind: "create-set", set: buildSet(deployment), because: "template-new" });
  else if (replicasOf(current) !== replicas)
    steps.push({ kind: "write-set", set: withReplicas(current, replicas), because: "scaled" });
  return steps;
}

/** The replica set of the present template. */
function findCurrentSet(deployment: JsonObject, sets: readonly JsonObject[]): JsonObject | undefined {
  const hash = templateHash(deployment);
  return sets.find((set) => labelsOf(set)[HASH_LABEL] === hash);
}

/** The status of a deployment, from the replica sets that it owns. */
export function buildDeploymentStatus(deployment: JsonObject, sets: readonly JsonObject[], time: string): JsonObject {
  const current = findCurrentSet(deployment, sets);
  const count = (field: string, of = sets): number =>
    of.reduce((sum, set) => sum + (numberAt(set, "status", field) ?? 0), 0);
  const available = count("availableReplicas");
  const isAvailable = available >= replicasOf(deployment);
  const condition = {
    type: "Available",
    status: isAvailable ? "True" : "False",
    reason: isAvailable ? "MinimumReplicasAvailable" : "MinimumReplicasUnavailable",
    message: `Deployment ${isAvailable ? "has" : "does not have"} minimum availability.`,
  };
  const known = listAt(deployment, "status", "conditions");
  const failures = listAt(current, "status", "conditions").filter((one) => textAt(one, "type") === "ReplicaFailure");
  return {
    observedGeneration: numberAt(deployment, "metadata", "generation") ?? 1,
    ...positive({
      replicas: count("replicas"),
      updatedReplicas: count("replicas", current === undefined ? [] : [current]),
      readyReplicas: count("readyReplicas"),
      availableReplicas: available,
      unavailableReplicas: Math.max(0, replicasOf(deployment) - available),
    }),
    conditions: [continueCondition(known, condition, time), ...failures],
  };
}

function withReplicas(set: JsonObject, replicas: number): JsonObject {
  return put(set, ["spec", "replicas"], replicas);
}

function buildSet(deployment: JsonObject): JsonObject {
  const { template, selector } = objectAt(deployment, "spec");
  const hash = templateHash(deployment);
  const labels = { ...objectAt(template, "metadata", "labels"), [HASH_LABEL]: hash };
  return {
    apiVersion: "apps/v1",
    kind: "ReplicaSet",
    metadata: { name: `${nameOf(deployment)}-${hash}`, labels, ownerReferences: [controllerReference(deployment)] },
    spec: {
      replicas: replicasOf(deployment),
      selector: put(objectAt(selector), ["matchLabels", HASH_LABEL], hash),
      template: put(objectAt(template), ["metadata", "labels"], labels),
    },
  };
}
