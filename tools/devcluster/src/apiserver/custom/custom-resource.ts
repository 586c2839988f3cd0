import { decodeDefinition, type DecodedObject } from "../schema.ts";
import { isObject, type JsonObject, getList, getObject, getText, getTexts, removeKey } from "../json.ts";
import { checkSubdomain } from "../names.ts";
import { defineResource, type Resource } from "../resource.ts";
import { definitions, type Schema } from "../definitions.ts";
import { badRequest, fail, invalid, invalidValue, type Problem } from "../status.ts";
import { fillDefaults } from "./fill-defaults.ts";
import { checkListTypes } from "./list-types.ts";
import { buildColumns } from "./printer-columns.ts";
import { pruneFields, withoutNulls } from "./prune.ts";
import { compileRules, type Rules } from "./rules.ts";
import type { StructuralSchema } from "./structural.ts";
import { isBlockingRules, validateValue } from "./validate-value.ts";

const OBJECT_META = "io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta";
const RULES_NOT_CHECKED: Problem = {
  field: "<nil>",
  reason: "FieldValueInvalid",
  message:
    "Invalid value: null: some validation rules were not checked because the object was invalid; correct the existing errors to complete validation",
};
const TERMINATING = "create not allowed while custom resource definition is terminating";

/** The one version of a definition. */
export function getStoredVersion(definition: JsonObject): JsonObject {
  const [version] = getList(definition, "spec", "versions");
  return isObject(version) ? version : {};
}

/** The resource of a definition, whether it is served or not. */
export function buildResource(definition: JsonObject): Resource {
  const version = getStoredVersion(definition);
  const spec = getObject(definition, "spec");
  const names = getObject(definition, "status", "acceptedNames");
  const group = getText(spec, "group");
  const name = getText(version, "name");
  const kind = getText(names, "kind");
  const schema = getObject(version, "schema", "openAPIV3Schema");
  const hasStatus = isObject(getObject(version, "subresources")["status"]);
  const rules = compileRules(schema);
  const check = makeChecks(schema, rules);
  const known = { group, version: name, kind };
  return defineResource({
    ...known,
    plural: getText(names, "plural"),
    singular: getText(names, "singular"),
    shortNames: getTexts(names, "shortNames"),
    categories: getTexts(names, "categories"),
    namespaced: getText(spec, "scope") === "Namespaced",
    subresources: hasStatus ? ["status"] : [],
    schema: publishSchema(schema),
    checkName: checkSubdomain,
    columns: buildColumns(version),
    decode: (body, wrong) => decodeCustom(known, schema, body, wrong),
    defaults: (object) => applyDefaults(schema, object),
    validate: (object) => check(object, undefined),
    validateChange: () => [],
    counted: true,
    desiredOf: (object) => removeKey(object, "metadata", ...(hasStatus ? ["status"] : [])),
    withoutStatus: (object) => (hasStatus ? removeKey(object, "status") : object),
    validateUpdate: (before, after) => check(after, before),
    validateStatus: (before, after) => checkStatus({ schema, rules }, before, applyDefaults(schema, after)),
    unconditionalUpdate: false,
    closed: getText(definition, "metadata", "deletionTimestamp") === "" ? undefined : TERMINATING,
    patchesStrategically: false,
  });
}

function applyDefaults(schema: StructuralSchema, object: JsonObject): JsonObject {
  const filled = fillDefaults(schema, object);
  return isObject(filled) ? filled : object;
}

type Known = { readonly group: string; readonly version: string; readonly kind: string };

/** Takes the fields of the schema; metadata is decoded as that of any other object. */
function decodeCustom(
  known: Known,
  schema: StructuralSchema,
  body: JsonObject,
  wrong: (because: string) => never,
): DecodedObject {
  refuseOtherKind(known, body);
  const { object, unknown } = pruneFields(schema, body);
  const warnings = unknown.map((path) => `unknown field "${path}"`);
  const cleaned = withoutNulls(schema, object);
  const root = decodeMetadata(isObject(cleaned) ? cleaned : {}, wrong, warnings);
  return { object: root, warnings: warnings.sort() };
}

function refuseOtherKind({ group, version, kind }: Known, body: JsonObject): void {
  const given = getText(body, "kind");
  const apiVersion = getText(body, "apiVersion");
  if (given === "" || apiVersion === "") {
    const text = JSON.stringify(body);
    const missing = given === "" ? "Kind" : "apiVersion";
    const what = `the object provided is unrecognized (must be of type ${kind})`;
    fail(badRequest(`${what}: Object '${missing}' is missing in '${text}' (${text.slice(0, 29)} ...)`));
  }
  if (apiVersion !== `${group}/${version}`) {
    const because = `the API version in the data (${apiVersion}) does not match the expected API version (${group}/${version})`;
    fail(badRequest(because));
  }
  if (given !== kind) {
    const problem = invalidValue("kind", given, `must be ${kind}`);
    fail(invalid({ group, kind: given }, getText(body, "metadata", "name"), [problem]));
  }
}

function decodeMetadata(object: JsonObject, wrong: (because: string) => never, warnings: string[]): JsonObject {
  const metadata = object["metadata"];
  if (!isObject(metadata)) {
    if (metadata === undefined || metadata === null) return object;
    return wrong(`metadata: Invalid value: ${JSON.stringify(metadata)}: must be an object`);
  }
  const refuse = (because: string): never => wrong(because.replace("ObjectMeta.metadata.", "ObjectMeta."));
  const decoded = decodeDefinition(OBJECT_META, metadata, "metadata", refuse);
  warnings.push(...decoded.warnings);
  return { ...object, metadata: decoded.object };
}

function makeChecks(
  schema: StructuralSchema,
  rules: Rules,
): (object: JsonObject, old: JsonObject | undefined) => Problem[] {
  // Metadata has been checked like that of any other object.
  const content = (object: JsonObject): JsonObject => removeKey(object, "metadata", "apiVersion", "kind");
  const contentSchema: StructuralSchema = {
    ...schema,
    properties: removeKey(getObject(schema, "properties"), "metadata", "apiVersion", "kind"),
    required: getTexts(schema, "required").filter((key) => !["metadata", "apiVersion", "kind"].includes(key)),
  };
  return (object, old) => {
    const before = old === undefined ? undefined : content(old);
    const wasUnique = before === undefined || checkListTypes(schema, before).length === 0;
    const problems = [
      ...validateValue(contentSchema, content(object), "", before),
      ...(wasUnique ? checkListTypes(schema, content(object)) : []),
    ];
    if (problems.some(isBlockingRules)) return rules.defined ? [...problems, RULES_NOT_CHECKED] : problems;
    return [...problems, ...rules.validate(object, old)];
  };
}

type Checked = { readonly schema: StructuralSchema; readonly rules: Rules };

/** A status is checked by itself; rules may look at the whole object. */
function checkStatus({ schema, rules }: Checked, before: JsonObject, after: JsonObject): Problem[] {
  const status = getObject(schema, "properties")["status"];
  const value = after["status"];
  const found =
    isObject(status) && value !== undefined
      ? validateValue(status, value, "", before["status"]).map((one) => ({ ...one, field: statusField(one.field) }))
      : [];
  const problems = [
    ...found,
    ...(isObject(status) && value !== undefined ? checkListTypes(status, value, "status") : []),
  ];
  if (problems.some(isBlockingRules)) return rules.defined ? [...problems, RULES_NOT_CHECKED] : problems;
  return [...problems, ...rules.validate(after, before)];
}

function statusField(field: string): string {
  return field === "<nil>" ? "status" : `status.${field}`;
}

const IDENTITY = "io.k8s.api.core.v1.Pod";

/** The schema as OpenAPI shows it, with what every object has. */
function publishSchema(schema: StructuralSchema): Schema {
  // Every kind describes these three in the same words.
  const { apiVersion = {}, kind = {}, metadata = {} } = getObject(definitions(), IDENTITY, "properties");
  return { ...schema, properties: { apiVersion, kind, ...getObject(schema, "properties"), metadata } };
}
