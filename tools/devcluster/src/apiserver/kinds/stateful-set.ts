import { type JsonObject, getObject, isSameJson, getText, removeKey, withDefaults } from "../json.ts";
import { checkLabel } from "../names.ts";
import { defineResource, type Resource } from "../resource.ts";
import { forbiddenValue, invalidValue, type Problem } from "../status.ts";
import { AGE, NAME } from "../table.ts";
import { checkWorkload, defaultWorkload, buildReadyColumn } from "./workload.ts";

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
  columns: [NAME, buildReadyColumn(), AGE],
  defaults: defaultStatefulSet,
  withoutStatus: (set) => ({ ...set, status: { replicas: 0, availableReplicas: 0 } }),
  validate: checkStatefulSet,
  validateChange: (before, after) => {
    const fixed = (set: JsonObject): JsonObject => removeKey(getObject(set, "spec"), ...CHANGEABLE);
    return isSameJson(fixed(before), fixed(after)) ? [] : [forbiddenValue("spec", UNCHANGEABLE)];
  },
});

function defaultStatefulSet(set: JsonObject): JsonObject {
  const spec = getObject(set, "spec");
  const updateStrategy = withDefaults(getObject(spec, "updateStrategy"), ROLLING);
  const retention = withDefaults(getObject(spec, "persistentVolumeClaimRetentionPolicy"), RETAIN);
  return defaultWorkload(
    { ...set, spec: { ...spec, updateStrategy, persistentVolumeClaimRetentionPolicy: retention } },
    { podManagementPolicy: "OrderedReady", revisionHistoryLimit: 10 },
  );
}

function checkStatefulSet(set: JsonObject): Problem[] {
  const service = getText(set, "spec", "serviceName");
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
