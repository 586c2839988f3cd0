import { type JsonObject, getList, findNumber, getObject, setAt, getText } from "../json.ts";
import { isDeleting, getName } from "../metadata.ts";
import { getLabels } from "../selectors.ts";
import {
  continueCondition,
  buildControllerReference,
  isControlledBy,
  isOver,
  positive,
  getReplicas,
  computeTemplateHash,
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
  const replicas = getReplicas(deployment);
  const current = findCurrentSet(deployment, sets);
  const old = sets.filter((set) => set !== current);
  const running = old.filter((set) => getReplicas(set) > 0);
  if (running.length > 0)
    return running.map((set) => ({ kind: "write-set", set: withReplicas(set, 0), because: "template-old" }));
  if (pods.some((pod) => !isOver(pod) && old.some((set) => isControlledBy(pod, set)))) return [];
  const steps = old
    .filter((set) => !isDeleting(set))
    .map((set): DeploymentStep => ({ kind: "delete-set", set, because: "template-old" }));
  if (current === undefined) steps.push({ kind: "create-set", set: buildSet(deployment), because: "template-new" });
  else if (getReplicas(current) !== replicas)
    steps.push({ kind: "write-set", set: withReplicas(current, replicas), because: "scaled" });
  return steps;
}

/** The replica set of the present template. */
function findCurrentSet(deployment: JsonObject, sets: readonly JsonObject[]): JsonObject | undefined {
  const hash = computeTemplateHash(deployment);
  return sets.find((set) => getLabels(set)[HASH_LABEL] === hash);
}

/** The status of a deployment, from the replica sets that it owns. */
export function buildDeploymentStatus(deployment: JsonObject, sets: readonly JsonObject[], time: string): JsonObject {
  const current = findCurrentSet(deployment, sets);
  const count = (field: string, of = sets): number =>
    of.reduce((sum, set) => sum + (findNumber(set, "status", field) ?? 0), 0);
  const available = count("availableReplicas");
  const isAvailable = available >= getReplicas(deployment);
  const condition = {
    type: "Available",
    status: isAvailable ? "True" : "False",
    reason: isAvailable ? "MinimumReplicasAvailable" : "MinimumReplicasUnavailable",
    message: `Deployment ${isAvailable ? "has" : "does not have"} minimum availability.`,
  };
  const known = getList(deployment, "status", "conditions");
  const failures = getList(current, "status", "conditions").filter((one) => getText(one, "type") === "ReplicaFailure");
  return {
    observedGeneration: findNumber(deployment, "metadata", "generation") ?? 1,
    ...positive({
      replicas: count("replicas"),
      updatedReplicas: count("replicas", current === undefined ? [] : [current]),
      readyReplicas: count("readyReplicas"),
      availableReplicas: available,
      unavailableReplicas: Math.max(0, getReplicas(deployment) - available),
    }),
    conditions: [continueCondition(known, condition, time), ...failures],
  };
}

function withReplicas(set: JsonObject, replicas: number): JsonObject {
  return setAt(set, ["spec", "replicas"], replicas);
}

function buildSet(deployment: JsonObject): JsonObject {
  const { template, selector } = getObject(deployment, "spec");
  const hash = computeTemplateHash(deployment);
  const labels = { ...getObject(template, "metadata", "labels"), [HASH_LABEL]: hash };
  return {
    apiVersion: "apps/v1",
    kind: "ReplicaSet",
    metadata: {
      name: `${getName(deployment)}-${hash}`,
      labels,
      ownerReferences: [buildControllerReference(deployment)],
    },
    spec: {
      replicas: getReplicas(deployment),
      selector: setAt(getObject(selector), ["matchLabels", HASH_LABEL], hash),
      template: setAt(getObject(template), ["metadata", "labels"], labels),
    },
  };
}
