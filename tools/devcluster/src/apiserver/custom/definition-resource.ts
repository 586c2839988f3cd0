import {
  type JsonValue,
  type JsonObject,
  getList,
  getObject,
  setAt,
  isSameJson,
  getText,
  withDefaults,
} from "../json.ts";
import { listFinalizers } from "../metadata.ts";
import { checkSubdomain } from "../names.ts";
import { defineResource, type Resource } from "../resource.ts";
import { checkDefinition, checkDefinitionName, checkDefinitionChange } from "./check-definition.ts";
import { getStoredVersion } from "./custom-resource.ts";

/** Holds a definition until all of its objects are removed. */
export const CLEANUP = "customresourcecleanup.apiextensions.k8s.io";

export const definitionResource: Resource = defineResource({
  group: "apiextensions.k8s.io",
  kind: "CustomResourceDefinition",
  plural: "customresourcedefinitions",
  shortNames: ["crd", "crds"],
  categories: ["api-extensions"],
  namespaced: false,
  subresources: ["status"],
  checkName: checkSubdomain,
  counted: true,
  deleteReturnsObject: true,
  unconditionalUpdate: false,
  defaults: defaultDefinition,
  withoutStatus: (definition) => ({
    ...definition,
    status: {
      conditions: null,
      acceptedNames: { plural: "", kind: "" },
      storedVersions: [getText(getStoredVersion(definition), "name")].filter((name) => name !== ""),
    },
  }),
  validate: (definition) => [...checkDefinitionName(definition), ...checkDefinition(definition)],
  validateUpdate: (_before, after) => checkDefinition(after),
  validateChange: checkDefinitionChange,
  // The definition waits for its objects, however long their deletion takes.
  whileDeleting: (definition) => setAt(definition, ["metadata", "deletionGracePeriodSeconds"], undefined),
  holdDeletion: (definition, time) => {
    const finalizers = listFinalizers(definition);
    const held = finalizers.includes(CLEANUP)
      ? definition
      : setAt(definition, ["metadata", "finalizers"], [...finalizers, CLEANUP]);
    return withCondition(held, {
      type: "Terminating",
      status: "True",
      reason: "InstanceDeletionPending",
      message: "CustomResourceDefinition marked for deletion; CustomResource deletion will begin soon",
      lastTransitionTime: time,
    });
  },
});

/** Replaces the condition of its type; the transition time of an unchanged status stays. */
export function withCondition(definition: JsonObject, condition: JsonObject): JsonObject {
  const conditions = getList(definition, "status", "conditions");
  const index = conditions.findIndex((one) => getText(one, "type") === getText(condition, "type"));
  const before = conditions[index];
  const lasts = getText(before, "status") === getText(condition, "status");
  const since = lasts ? getText(before, "lastTransitionTime") : getText(condition, "lastTransitionTime");
  const next: JsonObject = {
    type: getText(condition, "type"),
    status: getText(condition, "status"),
    lastTransitionTime: since,
    reason: getText(condition, "reason"),
    message: getText(condition, "message"),
  };
  if (isSameJson(before, next)) return definition;
  const list: readonly JsonValue[] = index < 0 ? [...conditions, next] : conditions.with(index, next);
  return setAt(definition, ["status", "conditions"], list);
}

function defaultDefinition(definition: JsonObject): JsonObject {
  const spec = getObject(definition, "spec");
  const kind = getText(spec, "names", "kind");
  const names = withDefaults(
    getObject(spec, "names"),
    kind === "" ? {} : { singular: kind.toLowerCase(), listKind: `${kind}List` },
  );
  const filled = withDefaults({ ...spec, names }, { conversion: { strategy: "None" } });
  return { ...definition, spec: filled };
}
