import type { Resource } from "./resource.ts";
import type { Catalogue } from "./resources.ts";
import { decodeSegments } from "./path-segments.ts";

/** The target of a path of the API. */
export type Target = {
  readonly resource: Resource;
  /** "" for all namespaces, and for objects without one. */
  readonly namespace: string;
  /** "" for the collection. */
  readonly name: string;
  readonly subresource: string;
};

/** Parses paths such as `/api/v1/namespaces/a/pods/b/log`; undefined for paths without a served resource. */
export function parseTarget(path: string, catalogue: Catalogue): Target | undefined {
  const segments = decodeSegments(path);
  if (segments === undefined) return undefined;
  const [root, ...rest] = segments;
  if (root === "api") return resolve(catalogue, "", rest);
  return root === "apis" ? resolve(catalogue, rest[0] ?? "", rest.slice(1)) : undefined;
}

function resolve(
  catalogue: Catalogue,
  group: string,
  [version = "", ...segments]: readonly string[],
): Target | undefined {
  const [first = "", namespace = "", plural] = segments;
  const isNamespaced =
    first === "namespaces" && plural !== undefined && catalogue.find(group, version, plural)?.namespaced === true;
  const [type = "", name = "", subresource = "", ...more] = isNamespaced ? segments.slice(2) : segments;
  const resource = catalogue.find(group, version, type);
  if (resource === undefined || more.length > 0) return undefined;
  // An object of a namespaced kind is found only through its namespace.
  if (resource.namespaced && !isNamespaced && name !== "") return undefined;
  return { resource, namespace: isNamespaced ? namespace : "", name, subresource };
}
