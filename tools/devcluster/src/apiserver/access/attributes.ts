import { type JsonValue, getObject, getText } from "../json.ts";
import { decodeSegments } from "../path-segments.ts";

/** The attributes of a request, as the rules of roles name them. */
export type Attributes =
  | { readonly verb: string; readonly path: string }
  | {
      readonly verb: string;
      readonly group: string;
      readonly resource: string;
      readonly subresource: string;
      /** "" for all namespaces, and for objects without one. */
      readonly namespace: string;
      /** "" for all. */
      readonly name: string;
    };

const VERBS: Readonly<Record<string, string>> = {
  GET: "get",
  HEAD: "get",
  POST: "create",
  PUT: "update",
  PATCH: "patch",
  DELETE: "delete",
};
const SUBRESOURCES_OF_NAMESPACES = ["status", "finalize"];

/** Reads the attributes of a request, even of one for an unknown resource. */
export function buildAttributes(method: string, path: string, query: URLSearchParams): Attributes {
  const segments = (decodeSegments(path) ?? []).filter((segment) => segment !== "");
  const [group = "", first = "", second = "", third, ...rest] =
    segments[0] === "api" ? ["", ...segments.slice(2)] : [segments[1], ...segments.slice(3)];
  if (!["api", "apis"].includes(segments[0] ?? "") || first === "") return { verb: method.toLowerCase(), path };
  const isInside =
    first === "namespaces" && third !== undefined && !SUBRESOURCES_OF_NAMESPACES.includes(third) && second !== "";
  const [resource = "", name = "", subresource = ""] = isInside ? [third, ...rest] : [first, second, third];
  const isCollection = name === "";
  const verb = VERBS[method] ?? "";
  return {
    verb: isCollection ? collectionVerb(verb, query) : verb,
    group,
    resource,
    subresource,
    // A Role may also name its own namespace as a resource.
    namespace: isInside || first === "namespaces" ? second : "",
    name: isCollection ? parseName(query.get("fieldSelector") ?? "") : name,
  };
}

function collectionVerb(verb: string, query: URLSearchParams): string {
  if (verb === "delete") return "deletecollection";
  if (verb !== "get") return verb;
  return ["true", "1", ""].includes(query.get("watch") ?? "false") ? "watch" : "list";
}

/** A request for a collection by one name counts as a request for that object. */
function parseName(selector: string): string {
  return /(?:^|,)metadata\.name==?([^,!=\\]+)(?:,|$)/.exec(selector)?.[1] ?? "";
}

/** Reads the attributes of an access review. */
export function readReviewAttributes(review: JsonValue): Attributes {
  const { nonResourceAttributes } = getObject(review, "spec");
  if (nonResourceAttributes !== undefined)
    return { verb: getText(nonResourceAttributes, "verb"), path: getText(nonResourceAttributes, "path") };
  const text = (field: string): string => getText(review, "spec", "resourceAttributes", field);
  return {
    verb: text("verb"),
    group: text("group"),
    resource: text("resource"),
    subresource: text("subresource"),
    namespace: text("namespace"),
    name: text("name"),
  };
}
