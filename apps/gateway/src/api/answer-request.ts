import { throwFault } from "@muster/faults";
import { type FieldPath, type Route, getShape, toJson, getTypeName } from "@muster/gateway-api";
import type { Items } from "../domain/plan-changes.ts";
import { nameJobNamespaces } from "./name-job-namespaces.ts";
import { readRequest, type Asked } from "./read-request.ts";

/** Makes one call of a service over the bus. Rejects only with FaultError. */
export type Call = (route: Route, request: Fields, signal: AbortSignal) => Promise<Fields>;

type Fields = Readonly<Record<string, unknown>>;

export type Asking = Asked & {
  readonly signal: AbortSignal;
  /** The name of the user, which the services record. */
  readonly by: string;
  /** The id by which a service recognizes a repeated request. */
  readonly requestId: string;
};

/** Maximum pages, of 500 items each, that a search reads. */
const MAX_PAGES = 100;
const PAGE = 500;

/** Calls the service of the route, and returns its answer as JSON. Rejects only with FaultError. */
export async function answerRequest(route: Route, asking: Asking, call: Call): Promise<unknown> {
  const request = { ...readRequest(route, asking), ...ownFields(route, asking) };
  const ask = (more: Fields = {}): Promise<Fields> => call(route, { ...request, ...more }, asking.signal);
  const { answer } = route;
  if (answer.kind === "search") return search(route, answer, asking, ask);
  return answerOf(route, await ask(), request);
}

function readReply(route: Route, reply: object, request: Fields): Fields {
  return nameJobNamespaces(route, toJson(getTypeName(route.method.reply), reply) as Fields, request);
}

/** Converts one reply of the service to JSON. */
export function answerOf(route: Route, reply: object, request: Fields): unknown {
  const { answer, path } = route;
  const json = readReply(route, reply, request);
  switch (answer.kind) {
    case "list":
      return listOf(json, answer, request);
    case "item":
      return json[answer.item];
    case "part": {
      const item = json[answer.item] as Fields;
      return Object.fromEntries(answer.fields.map((name) => [name, item[name]]));
    }
    case "reply":
      return json;
    case "search":
    case "log":
      throw new Error(`${path} has no answer of one reply`);
  }
}

/**
 * Reads every item of a list as JSON text, by its key. Calls `onBytes` after each page with the bytes of all items so far; its FaultError ends the read.
 * Rejects only with FaultError.
 */
export async function readItems(
  route: Route,
  asked: Pick<Asked, "params" | "query">,
  {
    call,
    signal,
    onBytes,
  }: { readonly call: Call; readonly signal: AbortSignal; readonly onBytes: (bytes: number) => void },
): Promise<Items> {
  const { answer } = route;
  if (answer.kind !== "list") throw new Error(`${route.path} is no list`);
  const request = readRequest(route, { ...asked, body: undefined });
  const items = new Map<string, string>();
  let bytes = 0;
  let page = "";
  for (let pages = 0; pages < MAX_PAGES; pages += 1) {
    const reply = readReply(route, await call(route, { ...request, continue: page }, signal), request);
    for (const item of reply[answer.items] as readonly Fields[]) {
      const text = JSON.stringify(item);
      bytes += Buffer.byteLength(text);
      items.set(answer.key.map((path) => nameOf(item, path)).join("/"), text);
    }
    onBytes(bytes);
    page = typeof reply["continue"] === "string" ? reply["continue"] : "";
    if (page === "") return items;
  }
  return tooLong(route);
}

function tooLong({ resource }: Route): never {
  return throwFault({
    code: "limit_exceeded",
    what: `the list of ${resource.path}`,
    limit: MAX_PAGES * PAGE,
    retryAfterMs: 0,
  });
}

/** Returns the user and the request id, in the fields that the request provides for them. */
function ownFields({ method }: Route, { by, requestId }: Asking): Fields {
  const { fields } = getShape(getTypeName(method.request));
  const own = { requestId, by, requestedBy: by };
  return Object.fromEntries(Object.entries(own).filter(([name]) => name in fields));
}

type Listing = { readonly items: string; readonly nameAt: FieldPath | undefined };

/** Returns the items under one name, which differs between replies. */
function listOf(reply: Fields, { items, nameAt = [] }: Listing, request: Fields): Fields {
  const { [items]: all, ...rest } = reply;
  const found = all as readonly Fields[];
  if ("continue" in rest) return { items: found, ...rest };
  return { ...cut(found, nameAt, request), ...rest };
}

/** Cuts a page from a list that its service returns in one reply, sorted by name, from the item after the last page on. */
function cut(all: readonly Fields[], nameAt: FieldPath, request: Fields): Fields {
  const { limit = PAGE, continue: from = "" } = request as { readonly limit?: number; readonly continue?: string };
  const named = all.map((item) => ({ item, name: nameOf(item, nameAt) })).filter(({ name }) => name > from);
  const page = named.toSorted((one, other) => (one.name < other.name ? -1 : 1)).slice(0, limit);
  const last = page.length < named.length ? page.at(-1)?.name : undefined;
  return { items: page.map(({ item }) => item), continue: last ?? "" };
}

function nameOf(item: Fields, nameAt: readonly string[]): string {
  const value = nameAt.reduce<unknown>((at, field) => (at as Fields | undefined)?.[field], item);
  return typeof value === "string" ? value : "";
}

/** Finds one item of a list that its service filters by the name. A service of an earlier version, and a service with few items, returns the whole list. */
async function search(
  route: Route,
  { items, nameAt }: { readonly items: string; readonly nameAt: FieldPath },
  { params }: Asked,
  ask: (more: Fields) => Promise<Fields>,
): Promise<unknown> {
  const { resource } = route;
  const name = params[resource.name[0] ?? ""] ?? "";
  let page = "";
  for (let pages = 0; pages < MAX_PAGES; pages += 1) {
    const reply = readReply(route, await ask({ continue: page }), {});
    const found = (reply[items] as readonly Fields[]).find((item) => nameOf(item, nameAt) === name);
    if (found !== undefined) return found;
    page = typeof reply["continue"] === "string" ? reply["continue"] : "";
    if (page === "") return throwFault({ code: "not_found", kind: resource.noun, id: name });
  }
  return tooLong(route);
}
