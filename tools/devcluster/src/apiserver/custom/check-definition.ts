import { at, isObject, type JsonObject, listAt, objectAt, sameJson, textAt } from "../json.ts";
import { nameOf } from "../metadata.ts";
import { checkSubdomain } from "../names.ts";
import { fail, invalidValue, notServed, type Problem, required, unsupported } from "../status.ts";
import { versionOf } from "./custom-resource.ts";
import { columnPaths, readColumnPath } from "./printer-columns.ts";
import { compileRules } from "./rules.ts";
import { findNotServed } from "./validate-value.ts";

const SCOPES = ["Cluster", "Namespaced"];

/**
 * Checks the parts of a definition that the server relies on. Schemas are accepted unchecked, because a real API server judges them before they are published.
 */
export function checkDefinition(definition: JsonObject): Problem[] {
  const spec = objectAt(definition, "spec");
  const scope = textAt(spec, "scope");
  const group = textAt(spec, "group");
  const versions = listAt(spec, "versions").filter(isObject);
  const groupProblem = group === "" ? undefined : checkSubdomain(group);
  if (versions.length > 1) fail(notServed("several versions of a definition"));
  const isStored = versions.filter((version) => version["storage"] === true).length === 1;
  return [
    ...(group === "" ? [required("spec.group")] : []),
    ...(groupProblem === undefined ? [] : [invalidValue("spec.group", group, groupProblem)]),
    ...(SCOPES.includes(scope) ? [] : [unsupported("spec.scope", scope, SCOPES)]),
    ...["plural", "kind"].flatMap((key) => (textAt(spec, "names", key) === "" ? [required(`spec.names.${key}`)] : [])),
    ...(isStored
      ? []
      : [invalidValue("spec.versions", null, "must have exactly one version marked as storage version")]),
    ...versions.flatMap(checkVersion),
  ];
}

function checkVersion(version: JsonObject, index: number): Problem[] {
  const schema = at(version, "schema", "openAPIV3Schema");
  if (!isObject(schema)) return [required(`spec.versions[${index}].schema.openAPIV3Schema`)];
  if (version["selectableFields"] !== undefined) fail(notServed("selectableFields of a definition"));
  const keyword = findNotServed(schema);
  if (keyword !== undefined) fail(notServed(`${keyword} in the schema of a definition`));
  const path = columnPaths(version).find((one) => readColumnPath(one) === undefined);
  if (path !== undefined) fail(notServed(`the column ${path} of a definition`));
  const [defect] = compileRules(schema).defects;
  if (defect !== undefined) fail(notServed(`the rule ${textAt(defect.rule, "rule")} (${defect.because})`));
  return [];
}

/** A definition is named after its resource. */
export function checkDefinitionName(definition: JsonObject): Problem[] {
  const group = textAt(definition, "spec", "group");
  const plural = textAt(definition, "spec", "names", "plural");
  if (nameOf(definition) === `${plural}.${group}` || group === "" || plural === "") return [];
  return [invalidValue("metadata.name", nameOf(definition), 'must be spec.names.plural+"."+spec.group')];
}

/** Checks the fields that may not change once the names of a definition are in use. */
export function checkDefinitionChange(before: JsonObject, after: JsonObject): Problem[] {
  const isEstablished = listAt(before, "status", "conditions").some(
    (one) => textAt(one, "type") === "Established" && textAt(one, "status") === "True",
  );
  if (textAt(versionOf(after), "name") !== textAt(versionOf(before), "name"))
    fail(notServed("another version of a definition"));
  const fields = ["spec.group", ...(isEstablished ? ["spec.scope", "spec.names.kind"] : []), "spec.names.plural"];
  return fields.flatMap((field) => {
    const value = at(after, ...field.split("."));
    const same = sameJson(value, at(before, ...field.split(".")));
    return same ? [] : [invalidValue(field, value, "field is immutable")];
  });
}
