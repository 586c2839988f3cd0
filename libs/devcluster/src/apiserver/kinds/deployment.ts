import { type Json, type JsonObject, numberAt, objectAt, put, sameJson, textAt, withDefaults } from "../json.ts";
import { checkSubdomain } from "../names.ts";
import { defineResource, type Resource } from "../resource.ts";
import { forbiddenValue, invalidValue, type Problem, unsupported } from "../status.ts";
import { AGE, NAME } from "../table.ts";
import {
  checkCount,
  checkWorkload,
  CONTAINER_COLUMNS,
  countColumn,
  defaultWorkload,
  readyColumn,
  SELECTOR_COLUMN,
  WORKLOAD_SCALE,
} from "./workload.ts";

const STRATEGIES = ["Recreate", "RollingUpdate"];
const PERCENT = /^[0-9]+%$/;
const NOT_PERCENT =
  "a valid percent string must be a numeric string followed by an ending '%' (e.g. '1%',  or '93%', regex used for validation is '[0-9]+%')";

export const deployments: Resource = defineResource({
  group: "apps",
  kind: "Deployment",
  plural: "deployments",
  shortNames: ["deploy"],
  categories: ["all"],
  subresources: ["status", "scale"],
  scale: WORKLOAD_SCALE,
  checkName: checkSubdomain,
  counted: true,
  // Annotations are handed on to the replica sets, so a change of them is one to act on.
  wishOf: (deployment) => [objectAt(deployment, "spec"), objectAt(deployment, "metadata", "annotations")],
  columns: [
    NAME,
    readyColumn(),
    { ...countColumn("Up-to-date", "status", "updatedReplicas"), type: "string" },
    { ...countColumn("Available", "status", "availableReplicas"), type: "string" },
    AGE,
    ...CONTAINER_COLUMNS,
    SELECTOR_COLUMN,
  ],
  defaults: (deployment) => {
    const filled = defaultWorkload(deployment, { revisionHistoryLimit: 10, progressDeadlineSeconds: 600 });
    return put(filled, ["spec", "strategy"], defaultStrategy(objectAt(deployment, "spec", "strategy")));
  },
  withoutStatus: (deployment) => ({ ...deployment, status: {} }),
  validate: (deployment) => [
    ...checkWorkload(deployment, "deployment"),
    ...checkStrategy(objectAt(deployment, "spec", "strategy")),
    ...checkDeadline(objectAt(deployment, "spec")),
  ],
  validateChange: checkSameSelector,
});

export const replicaSets: Resource = defineResource({
  group: "apps",
  kind: "ReplicaSet",
  plural: "replicasets",
  shortNames: ["rs"],
  categories: ["all"],
  subresources: ["status", "scale"],
  scale: WORKLOAD_SCALE,
  checkName: checkSubdomain,
  counted: true,
  fields: { "status.replicas": (set) => String(numberAt(set, "status", "replicas") ?? 0) },
  columns: [
    NAME,
    countColumn("Desired", "spec", "replicas"),
    countColumn("Current", "status", "replicas"),
    countColumn("Ready", "status", "readyReplicas"),
    AGE,
    ...CONTAINER_COLUMNS,
    SELECTOR_COLUMN,
  ],
  defaults: (set) => defaultWorkload(set, {}),
  withoutStatus: (set) => ({ ...set, status: { replicas: 0 } }),
  validate: (set) => checkWorkload(set, "deployment"),
  validateChange: checkSameSelector,
});

function checkSameSelector(before: JsonObject, after: JsonObject): Problem[] {
  const selector = objectAt(after, "spec")["selector"];
  if (sameJson(objectAt(before, "spec")["selector"], selector)) return [];
  return [invalidValue("spec.selector", selector ?? null, "field is immutable")];
}

function defaultStrategy(strategy: JsonObject): JsonObject {
  const named = textAt(strategy, "type") === "" ? { ...strategy, type: "RollingUpdate" } : strategy;
  if (textAt(named, "type") !== "RollingUpdate") return named;
  const limits = withDefaults(objectAt(named, "rollingUpdate"), { maxUnavailable: "25%", maxSurge: "25%" });
  return { ...named, rollingUpdate: limits };
}

function checkStrategy(strategy: JsonObject): Problem[] {
  const { type = "", rollingUpdate } = strategy;
  if (type === "RollingUpdate") return checkRollingUpdate(objectAt(strategy, "rollingUpdate"));
  if (type !== "Recreate") return [unsupported("spec.strategy", printStrategy(strategy), STRATEGIES)];
  if (rollingUpdate === undefined) return [];
  const because = "may not be specified when strategy `type` is 'Recreate'";
  return [forbiddenValue("spec.strategy.rollingUpdate", because)];
}

/** With the names of Go's fields, as the message has them. */
function printStrategy(strategy: JsonObject): JsonObject {
  return { Type: strategy["type"] ?? "", RollingUpdate: strategy["rollingUpdate"] ?? null };
}

function checkRollingUpdate({ maxUnavailable = 0, maxSurge = 0 }: JsonObject): Problem[] {
  const field = "spec.strategy.rollingUpdate";
  const size = (value: Json): number => (typeof value === "string" ? Number.parseInt(value, 10) : Number(value));
  return [
    ...checkAmount(`${field}.maxUnavailable`, maxUnavailable),
    ...checkAmount(`${field}.maxSurge`, maxSurge),
    ...(size(maxUnavailable) === 0 && size(maxSurge) === 0
      ? [invalidValue(`${field}.maxUnavailable`, maxUnavailable, "may not be 0 when `maxSurge` is 0")]
      : []),
    ...(typeof maxUnavailable === "string" && size(maxUnavailable) > 100
      ? [invalidValue(`${field}.maxUnavailable`, maxUnavailable, "must not be greater than 100%")]
      : []),
  ];
}

function checkAmount(field: string, value: Json): Problem[] {
  if (typeof value === "string") return PERCENT.test(value) ? [] : [invalidValue(field, value, NOT_PERCENT)];
  return Number(value) < 0 ? [invalidValue(field, value, "must be greater than or equal to 0")] : [];
}

function checkDeadline(spec: JsonObject): Problem[] {
  const deadline = numberAt(spec, "progressDeadlineSeconds") ?? 0;
  if (deadline > (numberAt(spec, "minReadySeconds") ?? 0)) return checkCount(spec, "progressDeadlineSeconds");
  const because = "must be greater than minReadySeconds";
  return [
    ...checkCount(spec, "progressDeadlineSeconds"),
    invalidValue("spec.progressDeadlineSeconds", deadline, because),
  ];
}
