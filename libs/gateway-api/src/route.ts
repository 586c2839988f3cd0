import type { FieldShape, MethodDescriptor } from "@muster/proto";
import { isPlain, getShape, getTypeName } from "./json-messages.ts";
import type { AnyResource, Change, FieldPath, Read } from "./resource.ts";

export type HttpMethod = "GET" | "POST" | "PUT" | "DELETE";

/** A right in the terms of Kubernetes, on a resource of the group muster.dev. */
export type Right = {
  readonly verb: "get" | "list" | "watch" | "create" | "update" | "delete";
  readonly resource: string;
  readonly subresource?: string;
};

/** The form in which the reply of the service becomes the answer. */
export type Answer =
  | {
      readonly kind: "list";
      readonly items: string;
      readonly key: readonly FieldPath[];
      readonly nameAt: FieldPath | undefined;
    }
  | { readonly kind: "search"; readonly items: string; readonly nameAt: FieldPath }
  | { readonly kind: "log" }
  | { readonly kind: "item"; readonly item: string }
  | { readonly kind: "part"; readonly item: string; readonly fields: readonly string[] }
  | { readonly kind: "reply" };

/** One method of one path, derived from a row of the table. */
export type Route = {
  readonly http: HttpMethod;
  /** Path with the names of its parameters: `/v1/jobs/:namespace/:name`. */
  readonly path: string;
  readonly params: readonly string[];
  readonly resource: AnyResource;
  readonly right: Right;
  readonly call: string;
  readonly method: MethodDescriptor;
  readonly answer: Answer;
  /** The parameters of a query: fields of the request, and of the field that names one. */
  readonly query: Readonly<Record<string, FieldShape>>;
  /** Parameters that the query must have; absent: none. */
  readonly requires?: readonly string[];
  /** Undefined if the request has no effect, such as a plan, although it has a body. */
  readonly change?: Change;
};

/** Fields of requests that the gateway sets itself: the user, and the id for deduplication. */
export const OWN_FIELDS = ["requestId", "by", "requestedBy"] as const;

/** Lists without pages of their own are cut here. */
const PAGE_FIELDS: Readonly<Record<string, FieldShape>> = {
  limit: { type: "uint32", doc: "At most this many; absent: 500, which is also the most." },
  continue: { type: "string", doc: "From the previous answer; absent: from the beginning." },
};

/** A list that is followed has no pages. */
const WATCH_FIELD = {
  watch: { type: "bool", doc: "`true`: follow the list as server-sent events." },
} as const satisfies Readonly<Record<string, FieldShape>>;

const FOLLOW_FIELD = {
  follow: { type: "bool", doc: "`true`: until the work is over; otherwise what the log has now." },
} as const satisfies Readonly<Record<string, FieldShape>>;

/** The fields that a stream of a log sets itself. */
const LOG_FIELDS = { waitMs: 0, limitBytes: 0 };

/** Whether a request creates an object, so that it may have an `Idempotency-Key`. */
export function isCreation({ change }: Route): boolean {
  return change?.verb === "create" && change.of !== "plan";
}

/** Derives every method of every path. */
export function buildRoutes(resources: readonly AnyResource[]): readonly Route[] {
  return resources.flatMap((row) => [
    ...readRoutes(row),
    ...(row.changes ?? []).map((change) => changeRoute(row, change)),
  ]);
}

function readRoutes(row: AnyResource): readonly Route[] {
  const { path, plural: resource, name, get, reads = {}, logs } = row;
  const one = { row, params: name, path: `/v1/${path}/${placeholders(name)}` };
  const right = { verb: "get", resource } as const;
  const readOne = ({ call, item, fields, subresource, requires }: Read, path: string): Route =>
    readRoute({
      ...{ ...one, path, call },
      ...(requires !== undefined && { requires }),
      right: subresource === undefined ? right : { ...right, subresource },
      answer: item === undefined ? { kind: "reply" } : fields ? { kind: "part", item, fields } : { kind: "item", item },
    });
  return [
    ...listRoutes(row),
    ...(get === undefined ? [] : "at" in get ? searchRoutes(row, get.at, { ...one, right }) : [readOne(get, one.path)]),
    ...Object.entries(reads).map(([action, read]) => readOne(read, `${one.path}/${action}`)),
    ...(logs === undefined
      ? []
      : [
          readRoute({
            row,
            params: [...name, "component"],
            path: `${one.path}/logs/:component`,
            call: logs.call,
            right: { ...right, subresource: "log" },
            answer: { kind: "log" },
          }),
        ]),
  ];
}

function listRoutes(row: AnyResource): readonly Route[] {
  const { path, plural: resource, scope, list, get } = row;
  if (list === undefined) return [];
  const { call, items, key } = list;
  const nameAt = get !== undefined && "at" in get ? get.at : undefined;
  const listing = {
    row,
    call,
    right: { verb: "list", resource },
    answer: { kind: "list", items, key, nameAt },
  } as const;
  return [
    readRoute({ ...listing, path: `/v1/${path}`, params: [] }),
    ...(scope === "path" ? [readRoute({ ...listing, path: `/v1/${path}/:namespace`, params: ["namespace"] })] : []),
  ];
}

function searchRoutes(row: AnyResource, nameAt: FieldPath, one: Omit<RouteParts, "call" | "answer">): readonly Route[] {
  const { list } = row;
  if (list === undefined) return [];
  return [readRoute({ ...one, call: list.call, answer: { kind: "search", items: list.items, nameAt } })];
}

type RouteParts = Pick<Route, "path" | "params" | "call" | "right" | "answer" | "requires"> & {
  readonly row: AnyResource;
};

function readRoute({ row, ...parts }: RouteParts): Route {
  const method = findMethod(row, parts.call);
  const { kind } = parts.answer;
  const more = listMoreParameters(parts.answer);
  const query = kind === "search" ? {} : buildQuery(row, method, parts.params, more, kind === "log" ? LOG_FIELDS : {});
  return { http: "GET", resource: row, method, query, ...parts };
}

/** The parameters of a query beside the fields of the request. */
function listMoreParameters(answer: Answer): Route["query"] {
  if (answer.kind === "log") return FOLLOW_FIELD;
  if (answer.kind !== "list") return {};
  return answer.key.length === 0 ? PAGE_FIELDS : { ...PAGE_FIELDS, ...WATCH_FIELD };
}

function changeRoute(row: AnyResource, change: Change): Route {
  const { path, plural: resource, scope, name } = row;
  const params = change.of === "one" ? name : scope === "path" ? ["namespace"] : [];
  const parts = [change.of === "plan" ? `/v1/plan/${path}` : `/v1/${path}`, placeholders(params), change.action];
  const method = findMethod(row, change.call);
  return {
    http: change.http,
    path: parts.filter((part) => part !== undefined && part !== "").join("/"),
    params,
    resource: row,
    right: { verb: change.verb, resource },
    call: change.call,
    method,
    answer: { kind: "reply" },
    query:
      change.http === "DELETE" ? buildQuery(row, method, params, {}, change.sets) : queryOfName(row, method, params),
    change,
  };
}

function placeholders(names: readonly string[]): string {
  return names.map((name) => `:${name}`).join("/");
}

function findMethod({ service }: AnyResource, call: string): MethodDescriptor {
  const method = service.methods[call];
  if (method === undefined) throw new Error(`${service.name} has no method ${call}`);
  return method;
}

function buildQuery(
  row: AnyResource,
  method: MethodDescriptor,
  params: readonly string[],
  more: Readonly<Record<string, FieldShape>>,
  sets: object = {},
): Route["query"] {
  const { fields } = getShape(getTypeName(method.request));
  const set = [...params, ...OWN_FIELDS, ...Object.keys(sets)];
  const own = Object.entries(fields).filter(([name, field]) => !set.includes(name) && isPlain(field));
  return { ...more, ...queryOfName(row, method, params), ...Object.fromEntries(own) };
}

/** The fields beside those in the path that name one: the kind of a job. */
function queryOfName({ nameIn }: AnyResource, method: MethodDescriptor, params: readonly string[]): Route["query"] {
  const field = nameIn === undefined ? undefined : getShape(getTypeName(method.request)).fields[nameIn];
  if (field === undefined) return {};
  const beside = Object.entries(getShape(field.type).fields).filter(([name]) => !params.includes(name));
  return Object.fromEntries(beside.filter(([, each]) => isPlain(each)));
}
