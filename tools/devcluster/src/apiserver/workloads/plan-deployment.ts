import { type JsonObject, listAt, numberAt, objectAt, put, textAt } from "../json.ts";
import { isDeleting, nameOf } from "../metadata.ts";
import { labelsOf } from "../selectors.ts";
import {
  controllerReference,
  isControlledBy,
  isOver,
  positive,
  replicasOf,
  templateHash,
  withCondition,
} from "./owned-pods.ts";

export type DeploymentStep =
  | { readonly do: "create-set"; readonly set: JsonObject; readonly because: "template-new" }
  | { readonly do: "write-set"; readonly set: JsonObject; readonly because: "scaled" | "template-old" }
  | { readonly do: "delete-set"; readonly set: JsonObject; readonly because: "template-old" };

const HASH_LABEL = "pod-template-hash";

/** All pods of an old template end before the first pod of the new one starts. `sets` are those that the deployment owns, `pods` all of the namespace. */
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
    return running.map((set) => ({ do: "write-set", set: scaled(set, 0), because: "template-old" }));
  if (pods.some((pod) => !isOver(pod) && old.some((set) => isControlledBy(pod, set)))) return [];
  const removals = old
    .filter((set) => !isDeleting(set))
    .map((set): DeploymentStep => ({ do: "delete-set", set, because: "template-old" }));
  if (current === undefined)
    return [...removals, { do: "create-set", set: buildSet(deployment, replicas), because: "template-new" }];
  if (replicasOf(current) === replicas) return removals;
  return [...removals, { do: "write-set", set: scaled(current, replicas), because: "scaled" }];
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
  const word = isAvailable ? "MinimumReplicasAvailable" : "MinimumReplicasUnavailable";
  const availability = {
    type: "Available",
    status: isAvailable ? "True" : "False",
    reason: word,
    message: `Deployment ${isAvailable ? "has" : "does not have"} minimum availability.`,
  };
  const failure = listAt(current, "status", "conditions").find((one) => textAt(one, "type") === "ReplicaFailure");
  const known = listAt(deployment, "status", "conditions").filter((one) => textAt(one, "type") === "Available");
  return {
    observedGeneration: numberAt(deployment, "metadata", "generation") ?? 1,
    ...positive({
      replicas: count("replicas"),
      updatedReplicas: count("replicas", current === undefined ? [] : [current]),
      readyReplicas: count("readyReplicas"),
      availableReplicas: available,
      unavailableReplicas: Math.max(0, replicasOf(deployment) - available),
    }),
    conditions: [...withCondition(known, availability, time), ...(failure === undefined ? [] : [failure])],
  };
}

function scaled(set: JsonObject, replicas: number): JsonObject {
  return put(set, ["spec", "replicas"], replicas);
}

function buildSet(deployment: JsonObject, replicas: number): JsonObject {
  const { template, selector } = objectAt(deployment, "spec");
  const hash = templateHash(deployment);
  const labels = { ...objectAt(template, "metadata", "labels"), [HASH_LABEL]: hash };
  return {
    apiVersion: "apps/v1",
    kind: "ReplicaSet",
    metadata: {
      name: `${nameOf(deployment)}-${hash}`,
      labels,
      ownerReferences: [controllerReference(deployment)],
    },
    spec: {
      replicas,
      selector: put(objectAt(selector), ["matchLabels", HASH_LABEL], hash),
      template: put(objectAt(template), ["metadata", "labels"], labels),
    },
  };
}
