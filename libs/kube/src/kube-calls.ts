import type { KubeConfig } from "@kubernetes/client-node";
import { MalformedAnswerError } from "./kube-error.ts";
import { makeKubeConnections, type HttpRequest } from "./kube-connections.ts";
import type { Query } from "./kube-http.ts";
import { parsePage, type KubeObject, type ListPage } from "./list-watch.ts";

/** A resource of the API: `{ apiVersion: "batch/v1", plural: "jobs", namespace: "default" }`. */
export type KubeResource = {
  readonly apiVersion: string;
  readonly plural: string;
  /** Undefined for cluster-scoped resources; in `list` also for all namespaces. */
  readonly namespace?: string | undefined;
};

export type CallOptions = {
  readonly signal?: AbortSignal;
  /** Time limit of the whole call, including the wait for a connection; default: that of `makeKubeCalls`. */
  readonly timeoutMs?: number;
  /** Name of a subresource: `status`, `scale`, `eviction`. */
  readonly subresource?: string;
  /** Query parameters: `fieldManager`, `dryRun`, `force`, `labelSelector`. */
  readonly query?: Query;
};

type CreateOptions = CallOptions & {
  /** The caller needs only the creation: the server's answer is not read, and the call resolves with the object that was sent. */
  readonly isAnswerUnread?: boolean;
};

/** `apply` is server-side apply and needs the query `fieldManager`. */
type PatchKind = "merge" | "json" | "strategic" | "apply";

type DeleteOptions = CallOptions & {
  readonly gracePeriodSeconds?: number;
  readonly propagationPolicy?: "Background" | "Foreground" | "Orphan";
  /** Rejects with conflict if the name now belongs to another object. */
  readonly preconditions?: { readonly uid?: string; readonly resourceVersion?: string };
};

/**
 * Calls to the API server for any resource, as plain JSON. Objects are the server's JSON: times are strings, whatever client-node's types state. Every call
 * rejects with an error that `toKubeFault` reads: KubeError for a refusal, TimeoutError, the signal's reason, or a network error. No call is retried, except
 * once after an expired token. Cluster-scoped objects are created without a namespace.
 */
export type KubeCalls = AsyncDisposable & {
  create<Object extends KubeObject>(resource: KubeResource, object: Object, options?: CreateOptions): Promise<Object>;
  get<Object extends KubeObject>(resource: KubeResource, name: string, options?: CallOptions): Promise<Object>;
  /** Lists one page, or everything if the query has no `limit`. */
  list<Object extends KubeObject>(resource: KubeResource, options?: CallOptions): Promise<ListPage<Object>>;
  /** Replaces the whole object; rejects with conflict if its resource version is not the newest. */
  replace<Object extends KubeObject>(resource: KubeResource, object: Object, options?: CallOptions): Promise<Object>;
  patch<Object extends KubeObject>(
    resource: KubeResource,
    name: string,
    patch: { readonly kind: PatchKind; readonly body: unknown },
    options?: CallOptions,
  ): Promise<Object>;
  /** Resolves when the deletion is accepted: the object may stay for its grace period and its finalizers. */
  delete(resource: KubeResource, name: string, options?: DeleteOptions): Promise<void>;
};

const CONTENT_TYPE: Readonly<Record<PatchKind, string>> = {
  merge: "application/merge-patch+json",
  json: "application/json-patch+json",
  strategic: "application/strategic-merge-patch+json",
  apply: "application/apply-patch+yaml",
};

const TIMEOUT_MS = 30_000;
/** Limit of requests in flight. A kube-apiserver in its default configuration serves some hundreds of concurrent requests of all its clients. */
const MAX_IN_FLIGHT = 64;

/** Calls that take about a third of the processor time of client-node's typed calls, over shared connections. Disposing cuts the calls in flight. */
export function makeKubeCalls(
  config: KubeConfig,
  defaults: { readonly timeoutMs?: number; readonly maxInFlight?: number } = {},
): KubeCalls {
  const { timeoutMs: defaultTimeoutMs = TIMEOUT_MS, maxInFlight = MAX_IN_FLIGHT } = defaults;
  const connections = makeKubeConnections(config, maxInFlight);

  function send(
    method: "GET" | "POST" | "PUT" | "PATCH" | "DELETE",
    path: string,
    options: CallOptions,
    content: Pick<HttpRequest, "body" | "contentType" | "isAnswerUnread"> = {},
  ): Promise<string> {
    const full = withQuery(path, options.query);
    return connections.send({ method, path: full, ...content }, options.timeoutMs ?? defaultTimeoutMs, options.signal);
  }

  return {
    create: async (resource, object, options = {}) => {
      const path = buildPath(resource, options.subresource === undefined ? undefined : getName(object), options);
      const { isAnswerUnread = false } = options;
      const answer = await send("POST", path, options, { body: JSON.stringify(object), isAnswerUnread });
      return isAnswerUnread ? object : parseObject(path, answer);
    },
    get: async (resource, name, options = {}) => {
      const path = buildPath(resource, name, options);
      return parseObject(path, await send("GET", path, options));
    },
    list: async (resource, options = {}) => {
      const path = buildPath(resource, undefined, options);
      return parsePage(path, await send("GET", path, options));
    },
    replace: async (resource, object, options = {}) => {
      const path = buildPath(resource, getName(object), options);
      return parseObject(path, await send("PUT", path, options, { body: JSON.stringify(object) }));
    },
    patch: async (resource, name, { kind, body }, options = {}) => {
      const path = buildPath(resource, name, options);
      const content = { body: JSON.stringify(body), contentType: CONTENT_TYPE[kind] };
      return parseObject(path, await send("PATCH", path, options, content));
    },
    delete: async (resource, name, options = {}) => {
      const { gracePeriodSeconds, propagationPolicy, preconditions } = options;
      const body = { kind: "DeleteOptions", apiVersion: "v1", gracePeriodSeconds, propagationPolicy, preconditions };
      const content = { body: JSON.stringify(body), isAnswerUnread: true };
      await send("DELETE", buildPath(resource, name, options), options, content);
    },
    [Symbol.asyncDispose]: () => connections[Symbol.asyncDispose](),
  };
}

/** Returns the path of all objects of the resource, in its namespace or in all. */
export function buildResourcePath({ apiVersion, plural, namespace }: KubeResource): string {
  const parts = [
    apiVersion.includes("/") ? `apis/${apiVersion}` : `api/${apiVersion}`,
    ...(namespace === undefined ? [] : ["namespaces", encodeURIComponent(namespace)]),
    plural,
  ];
  return `/${parts.join("/")}`;
}

function buildPath(resource: KubeResource, name: string | undefined, options: CallOptions): string {
  // An empty name would turn a call for one object into a call for all of them.
  if (name === "") throw new Error(`a call for one of the ${resource.plural} without a name`);
  const parts = [
    buildResourcePath(resource),
    ...(name === undefined ? [] : [encodeURIComponent(name)]),
    ...(options.subresource === undefined ? [] : [options.subresource]),
  ];
  return parts.join("/");
}

function getName(object: KubeObject): string {
  return object.metadata?.name ?? "";
}

function withQuery(path: string, query: Query | undefined): string {
  if (query === undefined) return path;
  const search = new URLSearchParams();
  for (const [name, value] of Object.entries(query)) {
    if (value !== undefined) search.set(name, String(value));
  }
  return search.size === 0 ? path : `${path}?${search.toString()}`;
}

// eslint-disable-next-line @typescript-eslint/no-unnecessary-type-parameters -- the caller states the type of the JSON
function parseObject<Object extends KubeObject>(path: string, text: string): Object {
  try {
    // JSON of the API server becomes the type that the caller states, as in a watch.
    return JSON.parse(text) as Object;
  } catch (cause) {
    throw new MalformedAnswerError(`${path}: no JSON: ${text.slice(0, 100)}`, { cause });
  }
}
