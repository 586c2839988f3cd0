import { groupVersions } from "./discovery.ts";
import type { JsonObject } from "./json.ts";
import { apiVersionOf, type Resource } from "./resource.ts";
import type { Catalogue } from "./resources.ts";

/**
 * As much of OpenAPI as kubectl needs before it sends anything: that each kind can be patched, and that the server itself validates fields. It has no schemas, so `kubectl explain`
 * knows nothing.
 */
export function openApiDocument(path: string, catalogue: Catalogue): JsonObject | undefined {
  const resources = catalogue.all();
  if (path === "/openapi/v2") return { swagger: "2.0", info, paths: Object.fromEntries(resources.flatMap(v2Paths)) };
  if (path === "/openapi/v3") {
    const roots = groupVersions(resources).map(rootOf);
    const entries = roots.map((root) => [root, { serverRelativeURL: `/openapi/v3/${root}` }] as const);
    return { paths: Object.fromEntries(entries) };
  }
  const served = resources.filter((resource) => path === `/openapi/v3/${rootOf(apiVersionOf(resource))}`);
  return served.length === 0 ? undefined : { openapi: "3.0.0", info, paths: Object.fromEntries(served.map(v3Path)) };
}

const info = { title: "Kubernetes", version: "v1.36.0" };
const QUERY = ["dryRun", "fieldManager", "fieldValidation", "force"];
const PATCHES = ["application/apply-patch+yaml", "application/json-patch+json", "application/merge-patch+json"];

function rootOf(groupVersion: string): string {
  return groupVersion.includes("/") ? `apis/${groupVersion}` : `api/${groupVersion}`;
}

function itemPath(resource: Resource): string {
  const middle = resource.namespaced ? "namespaces/{namespace}/" : "";
  return `/${rootOf(apiVersionOf(resource))}/${middle}${resource.plural}/{name}`;
}

function v3Path(resource: Resource): [string, JsonObject] {
  const patch = {
    parameters: QUERY.map((name) => ({ name, in: "query", schema: { type: name === "force" ? "boolean" : "string" } })),
    requestBody: { content: Object.fromEntries(PATCHES.map((type) => [type, {}])) },
    ...operation(resource),
  };
  return [itemPath(resource), { patch }];
}

function v2Paths(resource: Resource): [string, JsonObject][] {
  const parameters = QUERY.map((name) => ({ name, in: "query", type: name === "force" ? "boolean" : "string" }));
  return [[itemPath(resource), { patch: { parameters, ...operation(resource) } }]];
}

function operation({ group, version, kind }: Resource): JsonObject {
  return {
    responses: { "200": { description: "OK" } },
    "x-kubernetes-action": "patch",
    "x-kubernetes-group-version-kind": { group, version, kind },
  };
}
