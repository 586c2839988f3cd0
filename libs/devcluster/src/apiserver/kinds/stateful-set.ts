import {
  isObject,
  type Json,
  type JsonObject,
  listAt,
  numberAt,
  objectAt,
  put,
  sameJson,
  textAt,
  without,
  withDefaults,
} from "../json.ts";
import { controllerOf } from "../metadata.ts";
import { checkLabel, checkSubdomain } from "../names.ts";
import { defineResource, type Resource } from "../resource.ts";
import { forbiddenValue, invalidValue, type Problem, required, unsupported } from "../status.ts";
import { AGE, column, NAME } from "../table.ts";
import { volumeClaims } from "./volume-claim.ts";
import { checkWorkload, CONTAINER_COLUMNS, defaultWorkload, readyColumn, WORKLOAD_SCALE } from "./workload.ts";

const CHANGEABLE = [
  "replicas",
  "ordinals",
  "template",
  "updateStrategy",
  "revisionHistoryLimit",
  "persistentVolumeClaimRetentionPolicy",
  "minReadySeconds",
];
const UNCHANGEABLE =
  "updates to statefulset spec for fields other than 'replicas', 'ordinals', 'template', 'updateStrategy', 'revisionHistoryLimit', 'persistentVolumeClaimRetentionPolicy' and 'minReadySeconds' are forbidden";
const MANAGEMENT = ["OrderedReady", "Parallel"];
const STRATEGIES = ["RollingUpdate", "OnDelete"];
const RETENTION = ["Retain", "Delete"];

export const statefulSets: Resource = defineResource({
  group: "apps",
  kind: "StatefulSet",
  plural: "statefulsets",
  shortNames: ["sts"],
  categories: ["all"],
  subresources: ["status", "scale"],
  scale: WORKLOAD_SCALE,
  checkName: checkLabel,
  counted: true,
  columns: [NAME, readyColumn(), AGE, ...CONTAINER_COLUMNS],
  defaults: defaultStatefulSet,
  withoutStatus: (set) => ({ ...set, status: { replicas: 0, availableReplicas: 0 } }),
  validate: (set) => [
    ...checkStatefulSet(objectAt(set, "spec")),
    ...checkClaims(listAt(set, "spec", "volumeClaimTemplates")),
    ...checkWorkload(set, "statefulset"),
  ],
  validateUpdate: (_before, after) => [
    ...checkStatefulSet(objectAt(after, "spec")),
    ...checkWorkload(after, "statefulset"),
  ],
  validateChange: (before, after) => {
    const fixed = (set: JsonObject): JsonObject => without(objectAt(set, "spec"), ...CHANGEABLE);
    return sameJson(fixed(before), fixed(after)) ? [] : [forbiddenValue("spec", UNCHANGEABLE)];
  },
});

/** A template that a stateful set has had, for those of its pods that still have it and for going back to it. */
export const controllerRevisions: Resource = defineResource({
  group: "apps",
  kind: "ControllerRevision",
  plural: "controllerrevisions",
  checkName: checkSubdomain,
  columns: [
    NAME,
    column("Controller", controllerName),
    column("Revision", (revision) => numberAt(revision, "revision") ?? 0),
    AGE,
  ],
  defaults: (revision) => withDefaults(revision, { revision: 0 }),
  validate: (revision) => [
    ...((numberAt(revision, "revision") ?? 0) < 0
      ? [invalidValue("revision", numberAt(revision, "revision"), "must be greater than or equal to 0")]
      : []),
    ...(isObject(revision["data"]) ? [] : [required("data", "data is mandatory")]),
  ],
  validateChange: (before, after) =>
    sameJson(before["data"], after["data"]) ? [] : [invalidValue("data", after["data"], "field is immutable")],
});

function controllerName(revision: JsonObject): string {
  const owner = controllerOf(revision);
  if (owner === undefined) return "<none>";
  const group = textAt(owner, "apiVersion").split("/");
  const kind = textAt(owner, "kind").toLowerCase();
  return `${kind}${group.length > 1 ? `.${group[0] ?? ""}` : ""}/${textAt(owner, "name")}`;
}

function defaultStatefulSet(set: JsonObject): JsonObject {
  const spec = objectAt(set, "spec");
  const claims = spec["volumeClaimTemplates"];
  const filled = defaultWorkload(set, { podManagementPolicy: "OrderedReady", revisionHistoryLimit: 10 });
  const retention = withDefaults(objectAt(spec, "persistentVolumeClaimRetentionPolicy"), {
    whenDeleted: "Retain",
    whenScaled: "Retain",
  });
  return put(filled, ["spec"], {
    ...objectAt(filled, "spec"),
    updateStrategy: defaultStrategy(objectAt(spec, "updateStrategy")),
    persistentVolumeClaimRetentionPolicy: retention,
    ...(claims === undefined ? {} : { volumeClaimTemplates: listAt(spec, "volumeClaimTemplates").map(defaultClaim) }),
  });
}

function defaultStrategy(strategy: JsonObject): JsonObject {
  const named = textAt(strategy, "type") === "" ? { rollingUpdate: {}, ...strategy, type: "RollingUpdate" } : strategy;
  if (textAt(named, "type") !== "RollingUpdate" || !isObject(named["rollingUpdate"])) return named;
  // More than one at a time is a feature that Kubernetes has turned off.
  const rolling = without(named["rollingUpdate"], "maxUnavailable");
  return { ...named, rollingUpdate: withDefaults(rolling, { partition: 0 }) };
}

function defaultClaim(template: Json): Json {
  if (!isObject(template)) return template;
  const filled = volumeClaims.withoutStatus(volumeClaims.defaults(template));
  return { ...filled, apiVersion: "v1", kind: "PersistentVolumeClaim" };
}

function checkStatefulSet(spec: JsonObject): Problem[] {
  const policy = textAt(spec, "podManagementPolicy");
  const { type = "", rollingUpdate } = objectAt(spec, "updateStrategy");
  const service = textAt(spec, "serviceName");
  const serviceProblem = service === "" ? undefined : checkLabel(service);
  const start = numberAt(spec, "ordinals", "start") ?? 0;
  const partition = numberAt(spec, "updateStrategy", "rollingUpdate", "partition") ?? 0;
  const least = "must be greater than or equal to 0";
  return [
    ...(MANAGEMENT.includes(policy)
      ? []
      : [invalidValue("spec.podManagementPolicy", policy, "must be 'OrderedReady' or 'Parallel'")]),
    ...(type === "OnDelete" && rollingUpdate !== undefined
      ? [
          invalidValue(
            "spec.updateStrategy.rollingUpdate",
            rollingUpdate,
            "only allowed for updateStrategy 'RollingUpdate'",
          ),
        ]
      : []),
    ...(STRATEGIES.some((strategy) => strategy === type)
      ? []
      : [
          invalidValue(
            "spec.updateStrategy",
            { Type: type, RollingUpdate: rollingUpdate ?? null },
            "must be 'RollingUpdate' or 'OnDelete'",
          ),
        ]),
    ...(partition < 0 ? [invalidValue("spec.updateStrategy.rollingUpdate.partition", partition, least)] : []),
    ...["whenDeleted", "whenScaled"].flatMap((field) => checkRetention(spec, field)),
    ...(start < 0 ? [invalidValue("spec.ordinals.start", start, least)] : []),
    ...(serviceProblem === undefined ? [] : [invalidValue("spec.serviceName", service, serviceProblem)]),
  ];
}

function checkRetention(spec: JsonObject, field: string): Problem[] {
  const policy = textAt(spec, "persistentVolumeClaimRetentionPolicy", field);
  if (RETENTION.includes(policy)) return [];
  const path = `spec.persistentVolumeClaimRetentionPolicy.${field}`;
  return [unsupported(path, policy, RETENTION)];
}

function checkClaims(templates: readonly Json[]): Problem[] {
  return templates.flatMap((template, index) =>
    volumeClaims
      .validate(isObject(template) ? template : {})
      .map((problem) => ({ ...problem, field: `spec.volumeClaimTemplates[${index}].${problem.field}` })),
  );
}
