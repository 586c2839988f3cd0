import { type JsonObject, objectAt, sameJson, textAt, without, withDefaults } from "../json.ts";
import { checkLabel } from "../names.ts";
import { defineResource, type Resource } from "../resource.ts";
import { forbiddenValue, invalidValue, type Problem } from "../status.ts";
import { AGE, NAME } from "../table.ts";
import { checkWorkload, defaultWorkload, readyColumn } from "./workload.ts";

const CHANGEABLE = ["replicas", "template", "revisionHistoryLimit"];
const UNCHANGEABLE =
  "updates to statefulset spec for fields other than 'replicas', 'ordinals', 'template', 'updateStrategy', 'revisionHistoryLimit', 'persistentVolumeClaimRetentionPolicy' and 'minReadySeconds' are forbidden";
const ROLLING = { type: "RollingUpdate", rollingUpdate: { partition: 0 } };
const RETAIN = { whenDeleted: "Retain", whenScaled: "Retain" };

export const statefulSets: Resource = defineResource({
  group: "apps",
  kind: "StatefulSet",
  plural: "statefulsets",
  shortNames: ["sts"],
  categories: ["all"],
  subresources: ["status"],
  checkName: checkLabel,
  counted: true,
  columns: [NAME, readyColumn(), AGE],
  defaults: defaultStatefulSet,
  withoutStatus: (set) => ({ ...set, status: { replicas: 0, availableReplicas: 0 } }),
  validate: checkStatefulSet,
  validateChange: (before, after) => {
    const fixed = (set: JsonObject): JsonObject => without(objectAt(set, "spec"), ...CHANGEABLE);
    return sameJson(fixed(before), fixed(after)) ? [] : [forbiddenValue("spec", UNCHANGEABLE)];
  },
});

function defaultStatefulSet(set: JsonObject): JsonObject {
  const spec = objectAt(set, "spec");
  const updateStrategy = withDefaults(objectAt(spec, "updateStrategy"), ROLLING);
  const retention = withDefaults(objectAt(spec, "persistentVolumeClaimRetentionPolicy"), RETAIN);
  return defaultWorkload(
    { ...set, spec: { ...spec, updateStrategy, persistentVolumeClaimRetentionPolicy: retention } },
    { podManagementPolicy: "OrderedReady", revisionHistoryLimit: 10 },
  );
}

function checkStatefulSet(set: JsonObject): Problem[] {
  const service = textAt(set, "spec", "serviceName");
  const problem = service === "" ? undefined : checkLabel(service);
  return [
    ...(problem === undefined ? [] : [invalidValue("spec.serviceName", service, problem)]),
    ...checkWorkload(set, "statefulset", {
      "spec.podManagementPolicy": ["OrderedReady"],
      "spec.updateStrategy": [ROLLING],
      "spec.persistentVolumeClaimRetentionPolicy": [RETAIN],
      "spec.volumeClaimTemplates": [[]],
      "spec.ordinals": [{}, { start: 0 }],
      "spec.minReadySeconds": [0],
    }),
  ];
}
