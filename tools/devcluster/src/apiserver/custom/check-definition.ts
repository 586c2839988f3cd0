import { at, isObject, type JsonObject, getList, getObject, isSameJson, getText } from "../json.ts";
import { getName } from "../metadata.ts";
import { checkSubdomain } from "../names.ts";
import { fail, invalidValue, notServed, type Problem, required, unsupported } from "../status.ts";
import { getStoredVersion } from "./custom-resource.ts";
import { listColumnPaths, readColumnPath } from "./printer-columns.ts";
import { compileRules } from "./rules.ts";
import { findNotServed } from "./validate-value.ts";

const SCOPES = ["Cluster", "Namespaced"];

/**
 * Checks the parts of a definition that the server relies on. Schemas are accepted unchecked, because a real API server judges them before they are published.
 */
export function checkDefinition(definition: JsonObject): Problem[] {
  const spec = getObject(definition, "spec");
  const scope = getText(spec, "scope");
  const group = getText(spec, "group");
  const versions = getList(spec, "versions").filter(isObject);
  const groupProblem = group === "" ? undefined : checkSubdomain(group);
  if (versions.length > 1) fail(notServed("several versions of a definition"));
  const isStored = versions.filter((version) => version["storage"] === true).length === 1;
  return [
    ...(group === "" ? [required("spec.group")] : []),
    ...(groupProblem === undefined ? [] : [invalidValue("spec.group", group, groupProblem)]),
    ...(SCOPES.includes(scope) ? [] : [unsupported("spec.scope", scope, SCOPES)]),
    ...["plural", "kind"].flatMap((key) => (getText(spec, "names", key) === "" ? [required(`spec.names.${key}`)] : [])),
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
  const path = listColumnPaths(version).find((one) => readColumnPath(one) === undefined);
  if (path !== undefined) fail(notServed(`the column ${path} of a definition`));
  const [defect] = compileRules(schema).defects;
  if (defect !== undefined) fail(notServed(`the rule ${getText(defect.rule, "rule")} (${defect.because})`));
  return [];
}

/** A definition is named after its resource. */
export function checkDefinitionName(definition: JsonObject): Problem[] {
  const group = getText(definition, "spec", "group");
  const plural = getText(definition, "spec", "names", "plural");
  if (getName(definition) === `${plural}.${group}` || group === "" || plural === "") return [];
  return [invalidValue("metadata.name", getName(definition), 'must be spec.names.plural+"."+spec.group')];
}

/** Checks the fields that may not change once the names of a definition are in use. */
export function checkDefinitionChange(before: JsonObject, after: JsonObject): Problem[] {
  const isEstablished = getList(before, "status", "conditions").some(
    (one) => getText(one, "type") === "Established" && getText(one, "status") === "True",
  );
  if (getText(getStoredVersion(after), "name") !== getText(getStoredVersion(before), "name"))
    fail(notServed("another version of a definition"));
  const fields = ["spec.group", ...(isEstablished ? ["spec.scope", "spec.names.kind"] : []), "spec.names.plural"];
  return fields.flatMap((field) => {
    const value = at(after, ...field.split("."));
    const same = isSameJson(value, at(before, ...field.split(".")));
    return same ? [] : [invalidValue(field, value, "field is immutable")];
  });
}
