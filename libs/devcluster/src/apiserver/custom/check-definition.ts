import { at, isObject, type Json, type JsonObject, listAt, objectAt, sameJson, textAt, textsAt } from "../json.ts";
import { nameOf } from "../metadata.ts";
import { type Check, checkServiceName, checkSubdomain } from "../names.ts";
import { forbiddenValue, invalidValue, type Problem, required, unsupported } from "../status.ts";
import { checkSchema, leadsSomewhere } from "./check-schema.ts";
import { isFieldPath } from "./json-path.ts";

const SCOPES = ["Cluster", "Namespaced"];
const STRATEGIES = ["None", "Webhook"];
const COLUMN_TYPES = ["boolean", "date", "integer", "number", "string"];
const APPROVAL = "api-approved.kubernetes.io";

/** What is wrong with a CustomResourceDefinition, in the words of Kubernetes. */
export function checkDefinition(definition: JsonObject): Problem[] {
  const spec = objectAt(definition, "spec");
  const group = textAt(spec, "group");
  const versions = listAt(spec, "versions").filter(isObject);
  const hoisted = hoistedKeys(versions);
  return [
    ...checkApproval(definition, group),
    ...checkGroup(group),
    ...choiceOf("spec.scope", textAt(spec, "scope"), SCOPES),
    ...(spec["preserveUnknownFields"] === true
      ? [
          invalidValue(
            "spec.preserveUnknownFields",
            true,
            "cannot set to true, set x-kubernetes-preserve-unknown-fields to true in spec.versions[*].schema instead",
          ),
        ]
      : []),
    ...checkVersions(versions),
    ...checkNames(objectAt(spec, "names")),
    ...versions.flatMap((version, index) => checkVersion(version, index, hoisted)),
    ...checkConversion(objectAt(spec, "conversion")),
  ];
}

/** A definition is named after what it defines. */
export function checkDefinitionName(definition: JsonObject): Problem[] {
  const group = textAt(definition, "spec", "group");
  const plural = textAt(definition, "spec", "names", "plural");
  if (nameOf(definition) === `${plural}.${group}` || group === "" || plural === "") return [];
  return [invalidValue("metadata.name", nameOf(definition), 'must be spec.names.plural+"."+spec.group')];
}

/** What may not change once the names of a definition are in use. */
export function checkDefinitionChange(before: JsonObject, after: JsonObject): Problem[] {
  const isEstablished = listAt(before, "status", "conditions").some(
    (one) => textAt(one, "type") === "Established" && textAt(one, "status") === "True",
  );
  const fields = ["spec.group", ...(isEstablished ? ["spec.scope", "spec.names.kind"] : []), "spec.names.plural"];
  return fields.flatMap((field) => {
    const value = at(after, ...field.split("."));
    const same = sameJson(value, at(before, ...field.split(".")));
    return same ? [] : [invalidValue(field, value, "field is immutable")];
  });
}

function checkApproval(definition: JsonObject, group: string): Problem[] {
  const isProtected = ["k8s.io", "kubernetes.io"].some((one) => group === one || group.endsWith(`.${one}`));
  const given = textAt(definition, "metadata", "annotations", APPROVAL);
  if (!isProtected || given.startsWith("unapproved") || URL.canParse(given)) return [];
  const field = `metadata.annotations[${APPROVAL}]`;
  const see = "see https://github.com/kubernetes/enhancements/pull/1111";
  if (given === "") return [required(field, `protected groups must have approval annotation "${APPROVAL}", ${see}`)];
  const because = `protected groups must have approval annotation "${APPROVAL}" with either a URL or a reason starting with "unapproved", ${see}`;
  return [invalidValue(field, given, because)];
}

function checkGroup(group: string): Problem[] {
  if (group === "") return [required("spec.group")];
  const problem = checkSubdomain(group);
  if (problem !== undefined) return [invalidValue("spec.group", group, problem)];
  return group.includes(".") ? [] : [invalidValue("spec.group", group, "should be a domain with at least one dot")];
}

function choiceOf(field: string, value: string, choice: readonly string[]): Problem[] {
  if (value === "") return [required(field)];
  return choice.includes(value) ? [] : [unsupported(field, value, choice)];
}

function checkVersions(versions: readonly JsonObject[]): Problem[] {
  const names = versions.map((version) => textAt(version, "name"));
  const stored = versions.filter((version) => version["storage"] === true).length;
  const shown = versions.map(goVersion);
  return [
    ...names.flatMap((name, index) => named(`spec.versions[${index}].name`, name, checkServiceName)),
    ...(new Set(names).size < names.length
      ? [invalidValue("spec.versions", shown, "must contain unique version names")]
      : []),
    ...(stored === 1
      ? []
      : [invalidValue("spec.versions", shown, "must have exactly one version marked as storage version")]),
    ...(stored === 0 ? [invalidValue("status.storedVersions", null, "must have at least one stored version")] : []),
  ];
}

/** As Kubernetes' own form of a version prints. */
function goVersion(version: JsonObject): Json {
  return {
    Name: textAt(version, "name"),
    Served: version["served"] === true,
    Storage: version["storage"] === true,
    Deprecated: version["deprecated"] === true,
    DeprecationWarning: version["deprecationWarning"] ?? null,
    Schema: null,
    Subresources: null,
    AdditionalPrinterColumns: null,
    SelectableFields: null,
  };
}

function named(field: string, value: string, check: Check, prefix = ""): Problem[] {
  const problem = check(value);
  return problem === undefined ? [] : [invalidValue(field, value, prefix + problem)];
}

function checkNames(names: JsonObject): Problem[] {
  const mixed = "may have mixed case, but should otherwise match: ";
  const listed = (key: string): Problem[] =>
    textsAt(names, key).flatMap((name, index) => named(`spec.names.${key}[${index}]`, name, checkServiceName));
  const plain = (key: string): Problem[] => {
    const value = textAt(names, key);
    return value === "" ? [required(`spec.names.${key}`)] : named(`spec.names.${key}`, value, checkServiceName);
  };
  const capital = (key: string): Problem[] => {
    const value = textAt(names, key);
    if (value === "") return [required(`spec.names.${key}`)];
    const problem = checkServiceName(value.toLowerCase());
    return problem === undefined ? [] : [invalidValue(`spec.names.${key}`, value, mixed + problem)];
  };
  const kind = textAt(names, "kind");
  const same = kind !== "" && kind === textAt(names, "listKind");
  return [
    ...plain("plural"),
    ...plain("singular"),
    ...capital("kind"),
    ...capital("listKind"),
    ...listed("shortNames"),
    ...(same ? [invalidValue("spec.names.listKind", kind, "kind and listKind may not be the same")] : []),
    ...listed("categories"),
  ];
}

/** What is the same in all versions is shown by Kubernetes as if it stood outside of them. */
function hoistedKeys(versions: readonly JsonObject[]): ReadonlySet<string> {
  const keys = ["schema", "subresources", "additionalPrinterColumns", "selectableFields"];
  return new Set(keys.filter((key) => versions.every((version) => sameJson(version[key], versions[0]?.[key]))));
}

function checkVersion(version: JsonObject, index: number, hoisted: ReadonlySet<string>): Problem[] {
  const place = (key: string, outside = key): string =>
    hoisted.has(key) ? `spec.${outside}` : `spec.versions[${index}].${key}`;
  const once = (key: string): boolean => !hoisted.has(key) || index === 0;
  const schema = at(version, "schema", "openAPIV3Schema");
  const problems: Problem[] = [];
  if (!isObject(schema)) problems.push(required(`spec.versions[${index}].schema.openAPIV3Schema`));
  else if (once("schema")) problems.push(...checkSchema(schema, `${place("schema", "validation")}.openAPIV3Schema`));
  if (once("subresources")) problems.push(...checkSubresources(version, place("subresources")));
  if (once("additionalPrinterColumns")) problems.push(...checkColumns(version, place("additionalPrinterColumns")));
  if (once("selectableFields") && isObject(schema)) {
    problems.push(...checkSelectable(version, schema, place("selectableFields")));
  }
  return problems;
}

function checkSubresources(version: JsonObject, field: string): Problem[] {
  const scale = objectAt(version, "subresources")["scale"];
  if (!isObject(scale)) return [];
  const path = (key: string, first: string, optional = false): Problem[] => {
    const value = textAt(scale, key);
    if (value === "") return optional ? [] : [required(`${field}.scale.${key}`)];
    if (isFieldPath(value, first)) return [];
    const other = optional && isFieldPath(value, "spec");
    const because = optional
      ? "should be a json path under either .status or .spec"
      : `should be a json path under .${first}`;
    return other ? [] : [invalidValue(`${field}.scale.${key}`, value, because)];
  };
  return [
    ...path("specReplicasPath", "spec"),
    ...path("statusReplicasPath", "status"),
    ...path("labelSelectorPath", "status", true),
  ];
}

function checkColumns(version: JsonObject, field: string): Problem[] {
  return listAt(version, "additionalPrinterColumns").flatMap((column, index) => {
    const place = `${field}[${index}]`;
    const type = textAt(column, "type");
    const path = textAt(column, "jsonPath");
    const problems: Problem[] = [];
    if (textAt(column, "name") === "") problems.push(required(`${place}.name`));
    if (type === "") problems.push(required(`${place}.type`, `must be one of ${COLUMN_TYPES.join(",")}`));
    else if (!COLUMN_TYPES.includes(type)) {
      problems.push(invalidValue(`${place}.type`, type, `must be one of ${COLUMN_TYPES.join(",")}`));
    }
    if (path === "") problems.push(required(`${place}.JSONPath`));
    else if (!/^[.[]/.test(path)) {
      problems.push(invalidValue(`${place}.JSONPath`, path, "must be a simple json path starting with ."));
    }
    return problems;
  });
}

function checkSelectable(version: JsonObject, schema: JsonObject, field: string): Problem[] {
  return listAt(version, "selectableFields").flatMap((one, index) => {
    const path = textAt(one, "jsonPath");
    const place = `${field}[${index}].jsonPath`;
    if (path === "") return [required(place)];
    if (leadsSomewhere(schema, path)) return [];
    return [invalidValue(place, path, "is an invalid path: does not refer to a valid field")];
  });
}

function checkConversion(conversion: JsonObject): Problem[] {
  const strategy = textAt(conversion, "strategy");
  const problems = choiceOf("spec.conversion.strategy", strategy, STRATEGIES);
  if (strategy === "None" && conversion["webhook"] !== undefined) {
    const because = "should not be set when strategy is not set to Webhook";
    return [...problems, forbiddenValue("spec.conversion.webhookClientConfig", because)];
  }
  if (strategy !== "Webhook") return problems;
  const webhook = objectAt(conversion, "webhook");
  return [
    ...problems,
    ...(webhook["clientConfig"] === undefined
      ? [required("spec.conversion.webhookClientConfig", "required when strategy is set to Webhook")]
      : []),
    ...(listAt(webhook, "conversionReviewVersions").length === 0
      ? [required("spec.conversion.conversionReviewVersions")]
      : []),
  ];
}
