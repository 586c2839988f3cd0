import { type JsonValue, type JsonObject, listAt, objectAt, put, sameJson, textAt, withDefaults } from "../json.ts";
import { finalizersOf } from "../metadata.ts";
import { checkSubdomain } from "../names.ts";
import { defineResource, type Resource } from "../resource.ts";
import { checkDefinition, checkDefinitionName, checkDefinitionChange } from "./check-definition.ts";
import { versionOf } from "./custom-resource.ts";

/** Holds a definition until all its objects are gone. */
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
      storedVersions: [textAt(versionOf(definition), "name")].filter((name) => name !== ""),
    },
  }),
  validate: (definition) => [...checkDefinitionName(definition), ...checkDefinition(definition)],
  validateUpdate: (_before, after) => checkDefinition(after),
  validateChange: checkDefinitionChange,
  // The definition waits for its objects, however long their deletion takes.
  whileDeleting: (definition) => put(definition, ["metadata", "deletionGracePeriodSeconds"], undefined),
  holdDeletion: (definition, time) => {
    const finalizers = finalizersOf(definition);
    const held = finalizers.includes(CLEANUP)
      ? definition
      : put(definition, ["metadata", "finalizers"], [...finalizers, CLEANUP]);
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
  const conditions = listAt(definition, "status", "conditions");
  const index = conditions.findIndex((one) => textAt(one, "type") === textAt(condition, "type"));
  const before = conditions[index];
  const lasts = textAt(before, "status") === textAt(condition, "status");
  const since = lasts ? textAt(before, "lastTransitionTime") : textAt(condition, "lastTransitionTime");
  const next: JsonObject = {
    type: textAt(condition, "type"),
    status: textAt(condition, "status"),
    lastTransitionTime: since,
    reason: textAt(condition, "reason"),
    message: textAt(condition, "message"),
  };
  if (sameJson(before, next)) return definition;
  const list: readonly JsonValue[] = index < 0 ? [...conditions, next] : conditions.with(index, next);
  return put(definition, ["status", "conditions"], list);
}

function defaultDefinition(definition: JsonObject): JsonObject {
  const spec = objectAt(definition, "spec");
  const kind = textAt(spec, "names", "kind");
  const names = withDefaults(
    objectAt(spec, "names"),
    kind === "" ? {} : { singular: kind.toLowerCase(), listKind: `${kind}List` },
  );
  const filled = withDefaults({ ...spec, names }, { conversion: { strategy: "None" } });
  return { ...definition, spec: filled };
}
