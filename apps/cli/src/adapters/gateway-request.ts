import { parseMessage, OWN_FIELDS, RESOURCES, buildRoutes, toJson, getTypeName, type Route } from "@muster/gateway-api";
import type { MessageOf, MethodDescriptor, ServiceDescriptor } from "@muster/proto";

/** One call of a service as an HTTP request. */
export type GatewayRequest = {
  readonly route: Route;
  readonly path: string;
  readonly query: URLSearchParams;
  /** Absent if the request has no body. */
  readonly body?: unknown;
  /** The gateway recognizes a repeated request by this key. */
  readonly idempotencyKey: string | undefined;
};

type Fields = Readonly<Record<string, unknown>>;

const ROUTES = buildRoutes(RESOURCES);

/** Builds the gateway's request for a call; undefined if the gateway has no route for it. `namespace` is that of jobs, for requests that name none. */
export function buildGatewayRequest(
  service: ServiceDescriptor,
  call: string,
  request: object,
  namespace: string,
): GatewayRequest | undefined {
  const own = ROUTES.filter((route) => route.call === call && route.resource.service.name === service.name);
  const called = own.filter(({ answer }) => !["log", "search", "part"].includes(answer.kind));
  const fields = called[0] && flatFields(called[0], request, namespace);
  if (fields === undefined) return undefined;
  const fitting = called
    .filter((route) => isFor(route, fields))
    .toSorted((one, other) => other.params.length - one.params.length);
  // POST creates and changes; PUT, with more of the name in its path, serves calls that POST cannot express.
  const route = fitting.find(({ http }) => http !== "PUT") ?? fitting[0];
  const { requestId } = request as { readonly requestId?: string };
  return route && { route, idempotencyKey: requestId, ...placeFields(route, fields) };
}

/** Flattens the fields that a client may set, and adds the fields that name the item. */
function flatFields({ method, resource, change }: Route, request: object, namespace: string): Fields {
  const { [resource.nameIn ?? ""]: name, ...rest } = toJson(getTypeName(method.request), request) as Fields;
  const all: Fields = { ...rest, ...(name as Fields | undefined) };
  const fields = Object.fromEntries(Object.entries(all).filter(([field]) => !isOwn(field)));
  if (resource.scope !== "path") return fields;
  const written = change?.bodyIn === undefined ? fields["namespace"] : namespaceIn(fields[change.bodyIn]);
  return { ...fields, namespace: written === undefined || written === "" ? namespace : written };
}

function isOwn(field: string): boolean {
  return (OWN_FIELDS as readonly string[]).includes(field);
}

function namespaceIn(manifestJson: unknown): unknown {
  const { metadata } = JSON.parse(String(manifestJson)) as { readonly metadata?: { readonly namespace?: unknown } };
  return metadata?.namespace;
}

/** Whether the route can carry every value of the request, and adds none. */
function isFor(route: Route, fields: Fields): boolean {
  const { params, change, http, query } = route;
  if (params.some((name) => isZero(fields[name]))) return false;
  const sets = Object.entries(change?.sets ?? {});
  if (!sets.every(([name, value]) => (fields[name] ?? false) === value)) return false;
  if (http === "POST" || http === "PUT") return true;
  return Object.entries(fields).every(([name, value]) => isZero(value) || params.includes(name) || name in query);
}

function isZero(value: unknown): boolean {
  if (Array.isArray(value)) return value.length === 0;
  return value === undefined || value === "" || value === 0 || value === false;
}

function placeFields(
  { path, params, query: known, change, http }: Route,
  fields: Fields,
): Pick<GatewayRequest, "path" | "query" | "body"> {
  const query = new URLSearchParams();
  const body: Record<string, unknown> = {};
  for (const [name, value] of Object.entries(fields)) {
    const field = known[name];
    if (params.includes(name) || name in (change?.sets ?? {})) continue;
    if (field === undefined) body[name] = value;
    else if (!isZero(value) || (field.optional === true && value !== undefined)) query.set(name, String(value));
  }
  const filled = path.replaceAll(/:(\w+)/g, (_, name: string) => encodeURIComponent(String(fields[name])));
  if (http === "GET" || http === "DELETE") return { path: filled, query };
  const { bodyIn } = change ?? {};
  return { path: filled, query, body: bodyIn === undefined ? body : JSON.parse(String(fields[bodyIn])) };
}

/**
 * Builds the reply of the service from the pages of one answer of the gateway. A service that returns its list in one reply has all pages, any other exactly
 * one.
 */
export function readGatewayReply(
  { answer, method }: Pick<Route, "answer" | "method">,
  pages: readonly unknown[],
): MessageOf<MethodDescriptor["reply"]> {
  const [first] = pages;
  switch (answer.kind) {
    case "list": {
      const { items: _, ...rest } = first as Fields;
      return parseMessage(method.reply, { ...rest, [answer.items]: pages.flatMap((page) => itemsOf(page)) });
    }
    case "item":
      return parseMessage(method.reply, { [answer.item]: first });
    default:
      return parseMessage(method.reply, first);
  }
}

function itemsOf(page: unknown): readonly unknown[] {
  const { items } = page as { readonly items?: unknown };
  return Array.isArray(items) ? items : [];
}
