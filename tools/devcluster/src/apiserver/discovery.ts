import type { JsonObject } from "./json.ts";
import { compareVersions } from "./versions.ts";
import { buildApiVersion, type Resource, type Subresource } from "./resource.ts";
import type { Catalogue } from "./resources.ts";

/** The Kubernetes version whose behaviour the server reproduces. */
const MINOR = "36";

/** The document at a path of discovery; undefined for other paths. `address` is host and port. */
export function buildDiscoveryDocument(path: string, address: string, catalogue: Catalogue): JsonObject | undefined {
  const resources = catalogue.all();
  const segments = path.split("/").filter((segment) => segment !== "");
  const [root = "", first, second, ...more] = segments;
  if (more.length > 0) return undefined;
  if (segments.length === 0) return { paths: rootPaths(resources) };
  if (root === "version" && first === undefined) return version();
  if (root === "api" && second === undefined)
    return first === undefined ? coreVersions(address) : resourceList(resources, "", first);
  if (root !== "apis") return undefined;
  if (first === undefined)
    return { kind: "APIGroupList", apiVersion: "v1", groups: groups(resources).map((name) => group(resources, name)) };
  if (!groups(resources).includes(first)) return undefined;
  return second === undefined
    ? { kind: "APIGroup", apiVersion: "v1", ...group(resources, first) }
    : resourceList(resources, first, second);
}

/** Every group and version that has resources: `v1`, `coordination.k8s.io/v1`. */
export function listGroupVersions(resources: readonly Resource[]): string[] {
  return [...new Set(resources.map(buildApiVersion))];
}

function groups(resources: readonly Resource[]): string[] {
  return [...new Set(resources.map((resource) => resource.group))].filter((name) => name !== "").sort();
}

function rootPaths(resources: readonly Resource[]): string[] {
  const named = groups(resources).flatMap((name) => [
    `/apis/${name}`,
    ...listVersions(resources, name).map((version) => `/apis/${name}/${version}`),
  ]);
  return [
    "/api",
    "/api/v1",
    "/apis",
    ...named,
    "/healthz",
    "/livez",
    "/openapi/v2",
    "/openapi/v3",
    "/readyz",
    "/version",
  ];
}

function version(): JsonObject {
  return {
    major: "1",
    minor: MINOR,
    gitVersion: `v1.${MINOR}.0+muster`,
    gitCommit: "",
    gitTreeState: "",
    buildDate: "1970-01-01T00:00:00Z",
    goVersion: "",
    compiler: "",
    platform: `${process.platform}/${process.arch}`,
  };
}

function coreVersions(address: string): JsonObject {
  return {
    kind: "APIVersions",
    versions: ["v1"],
    serverAddressByClientCIDRs: [{ clientCIDR: "0.0.0.0/0", serverAddress: address }],
  };
}

function group(resources: readonly Resource[], name: string): JsonObject {
  const versions = listVersions(resources, name).map((version) => ({ groupVersion: `${name}/${version}`, version }));
  return { name, versions, preferredVersion: versions[0] ?? {} };
}

/** Sorts versions, the best first. */
function listVersions(resources: readonly Resource[], name: string): string[] {
  const versions = resources.filter((resource) => resource.group === name).map((resource) => resource.version);
  return [...new Set(versions)].sort(compareVersions);
}

function resourceList(resources: readonly Resource[], groupName: string, versionName: string): JsonObject | undefined {
  const served = resources.filter((resource) => resource.group === groupName && resource.version === versionName);
  const [first] = served;
  if (first === undefined) return undefined;
  return {
    kind: "APIResourceList",
    apiVersion: "v1",
    groupVersion: buildApiVersion(first),
    resources: served.flatMap(describe),
  };
}

function describe(resource: Resource): JsonObject[] {
  const { plural, singular, namespaced, kind, shortNames, categories } = resource;
  const verbs =
    resource.answer === undefined
      ? ["create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"]
      : ["create"];
  const main: JsonObject = {
    name: plural,
    singularName: singular,
    namespaced,
    kind,
    verbs: verbs.filter((verb) => verb !== "deletecollection" || kind !== "Namespace"),
    ...(shortNames.length === 0 ? {} : { shortNames }),
    ...(categories.length === 0 ? {} : { categories }),
  };
  return [
    main,
    ...resource.subresources.map((name) => ({
      ...describeSubresource(kind, name),
      name: `${plural}/${name}`,
      namespaced,
    })),
  ];
}

function describeSubresource(kind: string, name: Subresource): JsonObject {
  const base = { singularName: "" };
  switch (name) {
    case "status":
      return { ...base, kind, verbs: ["get", "patch", "update"] };
    case "log":
      return { ...base, kind, verbs: ["get"] };
    case "finalize":
      return { ...base, kind, verbs: ["update"] };
    case "binding":
      return { ...base, kind: "Binding", verbs: ["create"] };
    case "token":
      return { ...base, group: "authentication.k8s.io", version: "v1", kind: "TokenRequest", verbs: ["create"] };
    case "exec":
      return { ...base, kind: "PodExecOptions", verbs: ["create", "get"] };
    case "attach":
      return { ...base, kind: "PodAttachOptions", verbs: ["create", "get"] };
    case "portforward":
      return { ...base, kind: "PodPortForwardOptions", verbs: ["create", "get"] };
    case "eviction":
      return { ...base, group: "policy", version: "v1", kind: "Eviction", verbs: ["create"] };
  }
}
