import { type JsonObject, findNumber, getObject, setAt, isSameJson, withDefaults } from "../json.ts";
import { checkSubdomain } from "../names.ts";
import { defineResource, type Resource } from "../resource.ts";
import { invalidValue, type Problem } from "../status.ts";
import { AGE, NAME } from "../table.ts";
import { checkWorkload, buildCountColumn, defaultWorkload, buildReadyColumn } from "./workload.ts";

/** Strategy of all deployments here: a new template takes effect after all pods of the old one have ended. */
const RECREATE = { type: "Recreate" };

export const deployments: Resource = defineResource({
  group: "apps",
  kind: "Deployment",
  plural: "deployments",
  shortNames: ["deploy"],
  categories: ["all"],
  subresources: ["status"],
  checkName: checkSubdomain,
  counted: true,
  columns: [
    NAME,
    buildReadyColumn(),
    { ...buildCountColumn("Up-to-date", "status", "updatedReplicas"), type: "string" },
    { ...buildCountColumn("Available", "status", "availableReplicas"), type: "string" },
    AGE,
  ],
  defaults: (deployment) => {
    const filled = defaultWorkload(deployment, { revisionHistoryLimit: 10 });
    return setAt(filled, ["spec", "strategy"], withDefaults(getObject(deployment, "spec", "strategy"), RECREATE));
  },
  withoutStatus: (deployment) => ({ ...deployment, status: {} }),
  validate: (deployment) =>
    checkWorkload(deployment, "deployment", {
      "spec.strategy": [RECREATE],
      "spec.paused": [false],
      "spec.minReadySeconds": [0],
      "spec.progressDeadlineSeconds": [],
    }),
  validateChange: checkSameSelector,
});

export const replicaSets: Resource = defineResource({
  group: "apps",
  kind: "ReplicaSet",
  plural: "replicasets",
  shortNames: ["rs"],
  categories: ["all"],
  subresources: ["status"],
  checkName: checkSubdomain,
  counted: true,
  fields: { "status.replicas": (set) => String(findNumber(set, "status", "replicas") ?? 0) },
  columns: [
    NAME,
    buildCountColumn("Desired", "spec", "replicas"),
    buildCountColumn("Current", "status", "replicas"),
    buildCountColumn("Ready", "status", "readyReplicas"),
    AGE,
  ],
  defaults: (set) => defaultWorkload(set, {}),
  withoutStatus: (set) => ({ ...set, status: { replicas: 0 } }),
  validate: (set) => checkWorkload(set, "deployment", { "spec.minReadySeconds": [0] }),
  validateChange: checkSameSelector,
});

function checkSameSelector(before: JsonObject, after: JsonObject): Problem[] {
  const selector = getObject(after, "spec")["selector"];
  if (isSameJson(getObject(before, "spec")["selector"], selector)) return [];
  return [invalidValue("spec.selector", selector ?? null, "field is immutable")];
}
