import { listGroupVersions } from "./discovery.ts";
import { findDefinition, definitions, referTo } from "./definitions.ts";
import { isList, isObject, type JsonValue, type JsonObject, getObject, getText } from "./json.ts";
import { buildApiVersion, type Resource } from "./resource.ts";
import type { Catalogue } from "./resources.ts";

/**
 * Builds the parts of OpenAPI that clients read: the parameters of a patch, and the schema of each kind, for `kubectl explain` and typed clients. Paths of
 * subresources and of lists are omitted.
 */
export function openApiDocument(path: string, catalogue: Catalogue): JsonObject | undefined {
  const resources = catalogue.all();
  if (path === "/openapi/v2") return { swagger: "2.0", info, paths: Object.fromEntries(resources.flatMap(v2Paths)) };
  if (path === "/openapi/v3") {
    const roots = listGroupVersions(resources).map(buildRoot);
    const entries = roots.map((root) => [root, { serverRelativeURL: `/openapi/v3/${root}` }] as const);
    return { paths: Object.fromEntries(entries) };
  }
  const served = resources.filter((resource) => path === `/openapi/v3/${buildRoot(buildApiVersion(resource))}`);
  if (served.length === 0) return undefined;
  const schemas = Object.fromEntries(served.map((resource) => [nameOfKind(resource), buildSchema(resource)]));
  return {
    openapi: "3.0.0",
    info,
    paths: Object.fromEntries(served.flatMap(v3Paths)),
    components: { schemas: withReferences(schemas) },
  };
}

const info = { title: "Kubernetes", version: "1.36" };
const QUERY = ["dryRun", "fieldManager", "fieldValidation", "force"];
const PATCHES = ["application/apply-patch+yaml", "application/json-patch+json", "application/merge-patch+json"];
const STRATEGIC = "application/strategic-merge-patch+json";
const ANY: JsonObject = { type: "object" };

function buildRoot(groupVersion: string): string {
  return groupVersion.includes("/") ? `apis/${groupVersion}` : `api/${groupVersion}`;
}

/** `io.k8s.api.core.v1.Pod`; the reversed group for custom kinds: `com.example.v1.Widget`. */
function nameOfKind(resource: Resource): string {
  const { group, version, kind } = resource;
  const known = findDefinition(buildApiVersion(resource), kind);
  return known ?? [...group.split(".").reverse(), version, kind].join(".");
}

function buildSchema(resource: Resource): JsonObject {
  const { group, version, kind, schema } = resource;
  if (schema === undefined) return getObject(definitions(), nameOfKind(resource));
  return { ...schema, "x-kubernetes-group-version-kind": [{ group, version, kind }] };
}

/** Adds all schemas that these refer to. */
function withReferences(schemas: JsonObject): JsonObject {
  const found = new Map<string, JsonValue>();
  const visit = (value: JsonValue): void => {
    if (isList(value)) value.forEach(visit);
    if (!isObject(value)) return;
    const name = getText(value, "$ref").replace("#/components/schemas/", "");
    const definition = getObject(definitions(), name);
    if (name !== "" && !found.has(name)) {
      found.set(name, definition);
      visit(definition);
    }
    Object.values(value).forEach(visit);
  };
  for (const [name, schema] of Object.entries(schemas)) {
    found.set(name, schema);
    visit(schema);
  }
  return Object.fromEntries([...found].sort(([a], [b]) => (a < b ? -1 : 1)));
}

function collectionPath(resource: Resource): string {
  const middle = resource.namespaced ? "namespaces/{namespace}/" : "";
  return `/${buildRoot(buildApiVersion(resource))}/${middle}${resource.plural}`;
}

function v3Paths(resource: Resource): [string, JsonObject][] {
  const body = (types: readonly string[], schema: JsonObject): JsonObject => ({
    content: Object.fromEntries(types.map((type) => [type, { schema }])),
  });
  const self = referTo(nameOfKind(resource));
  const parameters = QUERY.map((name) => ({
    name,
    in: "query",
    schema: { type: name === "force" ? "boolean" : "string", uniqueItems: true },
  }));
  const act = (action: string, more: JsonObject = {}): JsonObject => ({
    ...operation(resource, action),
    responses: { "200": { description: "OK", ...body(["application/json"], self) } },
    ...more,
  });
  const patches = resource.schema === undefined ? [...PATCHES, STRATEGIC] : PATCHES;
  const written = { parameters: parameters.slice(0, 3), requestBody: body(["application/json"], self) };
  const path = collectionPath(resource);
  if (resource.answer !== undefined) return [[path, { post: act("post", written) }]];
  return [
    [path, { get: operation(resource, "list"), post: act("post", written) }],
    [
      `${path}/{name}`,
      {
        get: act("get"),
        put: act("put", written),
        patch: act("patch", { parameters, requestBody: body(patches, ANY) }),
        delete: operation(resource, "delete"),
      },
    ],
  ];
}

function v2Paths(resource: Resource): [string, JsonObject][] {
  const parameters = QUERY.map((name) => ({ name, in: "query", type: name === "force" ? "boolean" : "string" }));
  return [[`${collectionPath(resource)}/{name}`, { patch: { parameters, ...operation(resource, "patch") } }]];
}

function operation({ group, version, kind }: Resource, action: string): JsonObject {
  return {
    responses: { "200": { description: "OK" } },
    "x-kubernetes-action": action,
    "x-kubernetes-group-version-kind": { group, version, kind },
  };
}
