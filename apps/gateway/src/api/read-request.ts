import { describeUnknownField, describeValue } from "@muster/documents";
import { throwFault } from "@muster/faults";
import {
  findList,
  parseFields,
  parseQueryValue,
  isWatchable,
  listNames,
  MAX_WATCHED_LISTS,
  OWN_FIELDS,
  getShape,
  getTypeName,
  type NamedList,
  type Route,
} from "@muster/gateway-api";
import type { MessageShape } from "@muster/proto";

/** Returns whether the request follows a list. */
export function isWatch(route: Route, query: Asked["query"]): boolean {
  return isWatchable(route) && query["watch"] === "true";
}

/** The parts of an HTTP request that a service may read. */
export type Asked = {
  readonly params: Readonly<Record<string, string>>;
  /** Query parameters. A repeated parameter is a list. */
  readonly query: Readonly<Record<string, string | readonly string[]>>;
  readonly body: unknown;
};

type Fields = Readonly<Record<string, unknown>>;

/** Pattern of the names of Muster and Kubernetes objects; it excludes path separators and control characters. */
const NAME = /^[A-Za-z0-9]([A-Za-z0-9._-]{0,251}[A-Za-z0-9])?$/;
/** Fields that select another namespace than that of the installation, in which the rights are checked. */
const HIDDEN_FIELDS = ["elsewhere"];
const MAX_LIMIT = 500;
/** Maximum depth of a body. Manifests have up to twenty levels. */
const MAX_DEPTH = 100;

/**
 * Reads the request to the service, without the fields that the gateway sets itself. Throws FaultError invalid_request with the name of the invalid parameter
 * or field.
 */
export function readRequest(route: Route, { params, query, body }: Asked): Fields {
  requireNames(params);
  const { watch = false, ...asked } = readQuery(route, query);
  const missing = route.requires?.find((name) => (asked[name] ?? "") === "");
  if (missing !== undefined) refuse(missing, "the query must have a value of it");
  const paged = watch === true ? ["limit", "continue"].find((name) => name in asked) : undefined;
  if (paged !== undefined) refuse(paged, "a list that is watched has no pages");
  const written = route.http === "GET" || route.http === "DELETE" ? {} : readBody(route, body, params);
  return { ...written, ...placeFields(route, { ...asked, ...params }), ...route.change?.sets };
}

/** Reads the lists that a request for several lists watches. Throws FaultError invalid_request for an invalid query. */
export function readWatchedLists(
  routes: readonly Route[],
  { resource, ...others }: Asked["query"],
): readonly (NamedList & Pick<Asked, "query">)[] {
  const [unknown] = Object.keys(others);
  if (unknown !== undefined) refuse(unknown, describeUnknownField(unknown, ["resource"]));
  const names = resource === undefined ? [] : [resource].flat();
  if (names.length === 0 || names.length > MAX_WATCHED_LISTS)
    refuse("resource", `${names.length} lists are named; 1 to ${MAX_WATCHED_LISTS} are needed`);
  const twice = names.find((name, at) => names.indexOf(name) !== at);
  if (twice !== undefined) refuse("resource", `"${twice}" is given more than once`);
  return names.map((name) => {
    const list = findList(routes, name);
    if (list === undefined) {
      const known = listNames(routes).join(", ");
      return refuse("resource", `${describeValue(name)} is no list that can be watched; ${known} are`);
    }
    requireNames(list.params);
    return { ...list, query: { watch: "true" } };
  });
}

/** Throws FaultError invalid_request for a body that is nested too deeply, because its readers are recursive. */
export function requireDepth(body: unknown): void {
  let level: readonly unknown[] = [body];
  for (let depth = 0; level.length > 0; depth += 1) {
    if (depth > MAX_DEPTH) refuse("body", `it is nested over ${MAX_DEPTH} levels deep`);
    level = level.flatMap((each) =>
      typeof each === "object" && each !== null ? (Object.values(each) as unknown[]) : [],
    );
  }
}

/** Throws FaultError invalid_request for a path parameter that cannot be a name. */
export function requireNames(params: Asked["params"]): void {
  const wrong = Object.entries(params).find(([, value]) => !NAME.test(value));
  if (wrong === undefined) return;
  const reason = "letters, digits, `-`, `_` and `.` are needed, at most 253, the first and last a letter or a digit";
  throwFault({ code: "invalid_request", field: wrong[0], reason });
}

function readQuery({ query: known }: Route, query: Asked["query"]): Fields {
  return Object.fromEntries(
    Object.entries(query).map(([name, text]) => {
      const field = Object.hasOwn(known, name) ? known[name] : undefined;
      if (field === undefined) return refuse(name, describeParameter(name, Object.keys(known)));
      if (typeof text !== "string") return refuse(name, "it is given more than once");
      const value = parseQueryValue(field, text, name);
      if (name === "limit" && (value === 0 || (value as number) > MAX_LIMIT))
        return refuse(name, `the number ${text} is not from 1 to ${MAX_LIMIT}`);
      return [name, value];
    }),
  );
}

function describeParameter(name: string, known: readonly string[]): string {
  return known.length === 0 ? "this path takes no query" : describeUnknownField(name, known);
}

/** Moves the fields that identify an item into the field that the request provides for them. */
function placeFields({ resource: { nameIn }, method }: Route, fields: Fields): Fields {
  const inner = nameIn === undefined ? undefined : getShape(getTypeName(method.request)).fields[nameIn];
  if (nameIn === undefined || inner === undefined) return fields;
  const names = Object.keys(getShape(inner.type).fields);
  const entries = Object.entries(fields);
  return {
    ...Object.fromEntries(entries.filter(([name]) => !names.includes(name))),
    [nameIn]: Object.fromEntries(entries.filter(([name]) => names.includes(name))),
  };
}

function readBody(route: Route, body: unknown, params: Asked["params"]): Fields {
  const { change, method } = route;
  if (change?.bodyIn !== undefined) {
    if (!isMapping(body)) return refuse("body", "an object is needed");
    return { [change.bodyIn]: JSON.stringify(inNamespace(body, params["namespace"])) };
  }
  return parseFields(getTypeName(method.request), body ?? {}, "", hiddenFields(route));
}

/** Returns the fields of the request that its body cannot contain, because the path, the method or the gateway sets them. */
function hiddenFields({ params, change, resource }: Route): readonly string[] {
  return [...OWN_FIELDS, ...HIDDEN_FIELDS, ...params, ...Object.keys(change?.sets ?? {}), resource.nameIn ?? ""];
}

/** Returns the fields that the body of a change may have. */
export function bodyFieldsOf(route: Route): MessageShape["fields"] {
  const { fields } = getShape(getTypeName(route.method.request));
  const hidden = hiddenFields(route);
  return Object.fromEntries(Object.entries(fields).filter(([name]) => !hidden.includes(name)));
}

/** Sets the namespace of the manifest to that of the path, for which the rights were checked. */
function inNamespace(manifest: Fields, namespace: string | undefined): Fields {
  if (namespace === undefined) return manifest;
  const metadata = isMapping(manifest["metadata"]) ? manifest["metadata"] : {};
  const written = metadata["namespace"];
  if (written !== undefined && written !== namespace)
    refuse("metadata.namespace", `it differs from the namespace of the path, ${namespace}`);
  return { ...manifest, metadata: { ...metadata, namespace } };
}

function isMapping(value: unknown): value is Fields {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

function refuse(field: string, reason: string): never {
  return throwFault({ code: "invalid_request", field, reason });
}
