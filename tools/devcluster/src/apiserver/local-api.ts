import { setImmediate as turn } from "node:timers/promises";
import { type CallOptions, KubeError, type KubeCalls, type KubeObject, type ListWatch } from "@muster/kube";
import type { ClusterApi } from "../cluster-api.ts";
import type { ObjectForm } from "./encode.ts";
import { isList, isObject, type JsonValue, type JsonObject, mapEntries, mapItems, getText } from "./json.ts";
import { listObjects, makeMatcher, parseSelectors } from "./list.ts";
import { getRevision } from "./metadata.ts";
import { bindObject, createObject, patchObject, replaceObject, type WriteRequest } from "./write-objects.ts";
import { parsePatchType } from "./patch.ts";
import { parseDeleteOptions } from "./query.ts";
import type { Registry } from "./registry.ts";
import { buildApiVersion, buildBucketName } from "./resource.ts";
import type { Catalogue } from "./resources.ts";
import { expired, fail, FailureError, buildFailureStatus, methodNotAllowed, noSuchResource } from "./status.ts";
import type { Change, ObjectStore } from "./store.ts";
import { parseTarget, type Target } from "./target.ts";
import { buildBookmark, decideEvent } from "./watch-events.ts";

export type LocalApiDeps = {
  readonly registry: Registry;
  readonly store: ObjectStore;
  readonly catalogue: Catalogue;
  readonly nowMs: () => number;
};

/** Client informers treat a watch as dead after 150 s of silence. */
const BOOKMARK_EVERY_MS = 60_000;

/**
 * The API server for callers in its own process, with the checks and answers of HTTP but without connections and copies. Callers never change objects that they
 * pass or receive, because these are stored and shared.
 */
export function makeLocalApi(deps: LocalApiDeps): ClusterApi {
  return {
    calls: () => localCalls(deps),
    listWatch: (path, selectors = {}) => localListWatch(deps, path, new URLSearchParams(selectors)),
  };
}

const PATCH_TYPE = {
  merge: "application/merge-patch+json",
  json: "application/json-patch+json",
  strategic: "application/strategic-merge-patch+json",
  apply: "application/apply-patch+yaml",
} as const;

function localCalls(deps: LocalApiDeps): KubeCalls {
  const { registry, nowMs } = deps;
  let isClosed = false;
  /** Serves each call in its own turn of the event loop, so that callers that answer each other leave time for all others. */
  const serve = async <Value>(doing: string, { signal }: CallOptions, work: () => Value): Promise<Value> => {
    await turn();
    signal?.throwIfAborted();
    if (isClosed) throw new Error(`${doing}: the calls have been closed`);
    return orKubeError(doing, work);
  };
  const writeTo = (target: Target): WriteRequest => ({ registry, target, dryRun: false, fieldValidation: "Ignore" });
  return {
    create: async (resource, object, options = {}) =>
      serve(`creating one of the ${resource.plural}`, options, () => {
        const name = options.subresource === undefined ? "" : (object.metadata?.name ?? "");
        const write = writeTo(buildTarget(deps, resource, name, options));
        if (options.subresource === undefined) return typed(createObject(write, plain(object)).object);
        if (options.subresource !== "binding") return fail(methodNotAllowed());
        bindObject(write, plain(object), nowMs());
        return object;
      }),
    get: async (resource, name, options = {}) =>
      serve(`reading ${resource.plural}/${name}`, options, () =>
        typed(registry.get(buildTarget(deps, resource, name, options))),
      ),
    list: async (resource, options = {}) =>
      serve(`listing ${resource.plural}`, options, () => {
        const query = new URLSearchParams();
        for (const [key, value] of Object.entries(options.query ?? {})) {
          if (value !== undefined) query.set(key, String(value));
        }
        return buildPage(deps, buildTarget(deps, resource, "", options), query);
      }),
    replace: async (resource, object, options = {}) => {
      const name = object.metadata?.name ?? "";
      return serve(`replacing ${resource.plural}/${name}`, options, () => {
        const write = writeTo(buildTarget(deps, resource, name, options));
        return typed(replaceObject(write, plain(object), checkSubresource(options)).object);
      });
    },
    patch: async (resource, name, { kind, body }, options = {}) =>
      serve(`patching ${resource.plural}/${name}`, options, () => {
        const write = writeTo(buildTarget(deps, resource, name, options));
        const type = parsePatchType(PATCH_TYPE[kind], write.target.resource.patchesStrategically);
        return typed(patchObject(write, { type, patch: toJson(body) ?? null }, checkSubresource(options)).object);
      }),
    delete: async (resource, name, options = {}) =>
      serve(`deleting ${resource.plural}/${name}`, options, () => {
        const { gracePeriodSeconds, propagationPolicy, preconditions } = options;
        const body = plain({ gracePeriodSeconds, propagationPolicy, preconditions });
        const { dryRun, ...deletion } = parseDeleteOptions(new URLSearchParams(), body);
        registry.delete(buildTarget(deps, resource, name, options), deletion, dryRun);
      }),
    [Symbol.asyncDispose]: () => {
      isClosed = true;
      return Promise.resolve();
    },
  };
}

function buildTarget(
  { catalogue }: LocalApiDeps,
  { apiVersion, plural, namespace = "" }: Parameters<KubeCalls["get"]>[0],
  name: string,
  { subresource = "" }: CallOptions,
): Target {
  const [version = "", group = ""] = apiVersion.split("/").reverse();
  const resource = catalogue.find(group, version, plural) ?? fail(noSuchResource());
  return { resource, namespace, name, subresource };
}

function checkSubresource({ subresource }: CallOptions): "status" | undefined {
  if (subresource === undefined || subresource === "status") return subresource;
  return fail(methodNotAllowed());
}

function localListWatch<Object extends KubeObject>(
  deps: LocalApiDeps,
  path: string,
  selectors: URLSearchParams,
): ListWatch<Object> {
  const locate = (): Target => parseTarget(path, deps.catalogue) ?? fail(noSuchResource());
  return {
    list: async ({ limit, continue: token, resourceVersion, signal }) => {
      await turn();
      signal.throwIfAborted();
      const query = new URLSearchParams(selectors);
      if (limit > 0) query.set("limit", String(limit));
      if (token !== undefined) query.set("continue", token);
      if (resourceVersion !== undefined) query.set("resourceVersion", resourceVersion);
      return orKubeError(`listing ${path}`, () => buildPage<Object>(deps, locate(), query));
    },
    watch: ({ resourceVersion, timeoutSeconds, signal }) => {
      const target = locate();
      const matches = makeMatcher(target, parseSelectors(target.resource, selectors));
      const options = { after: Number(resourceVersion), timeoutMs: timeoutSeconds * 1000, signal };
      return watchStore<Object>(deps.store, target, matches, options);
    },
  };
}

type PageOf<Object extends KubeObject> = Awaited<ReturnType<ListWatch<Object>["list"]>>;

function buildPage<Object extends KubeObject>(
  deps: LocalApiDeps,
  target: Target,
  query: URLSearchParams,
): PageOf<Object> {
  const view: ObjectForm = { resource: target.resource, form: "json", includeObject: "Metadata" };
  const page = listObjects(deps, target, view, query);
  const items = isList(page["items"]) ? page["items"] : [];
  const token = getText(page, "metadata", "continue");
  return {
    items: items.map((item) => typed<Object>(item)),
    resourceVersion: getRevision(page),
    continue: token === "" ? undefined : token,
  };
}

type WatchEvent<Object extends KubeObject> =
  ReturnType<ListWatch<Object>["watch"]> extends AsyncIterable<infer Event> ? Event : never;

/** Yields the changes of a bucket after a revision, until the time limit or the signal. */
async function* watchStore<Object extends KubeObject>(
  store: ObjectStore,
  { resource }: Target,
  matches: (key: string, stored: JsonObject) => boolean,
  { after, timeoutMs, signal }: { readonly after: number; readonly timeoutMs: number; readonly signal: AbortSignal },
): AsyncGenerator<WatchEvent<Object>, undefined> {
  const bucket = buildBucketName(resource);
  const missed = store.changesAfter(bucket, after);
  if (missed === undefined) {
    yield { type: "ERROR", object: typed(buildFailureStatus(expired(`too old resource version: ${after}`))) };
    return;
  }
  let waiting: Change[] = [...missed];
  const state = { isOver: false, isAborted: signal.aborted, isBookmarkDue: false };
  let wake = Promise.withResolvers<undefined>();
  const wakeUp = (): void => wake.resolve(undefined);
  const unsubscribe = store.subscribe((name, change) => {
    if (name !== bucket) return;
    waiting.push(change);
    wakeUp();
  });
  const end = setTimeout(() => {
    state.isOver = true;
    wakeUp();
  }, timeoutMs);
  const bookmarks = setInterval(() => {
    state.isBookmarkDue = true;
    wakeUp();
  }, BOOKMARK_EVERY_MS);
  const abort = (): void => {
    state.isAborted = true;
    wakeUp();
  };
  signal.addEventListener("abort", abort);
  try {
    for (;;) {
      const changes = waiting;
      waiting = [];
      for (const change of changes) {
        const event = decideEvent(change, (object) => matches(change.key, object));
        if (event !== undefined) yield { type: event.type, object: typed<Object>(event.object) };
      }
      if (state.isAborted) throw signal.reason;
      if (waiting.length > 0) continue;
      if (state.isBookmarkDue || state.isOver) {
        state.isBookmarkDue = false;
        const bookmark = buildBookmark(resource.kind, buildApiVersion(resource), store.revision(), false);
        yield { type: "BOOKMARK", object: typed<Object>(bookmark) };
      }
      if (state.isOver) return;
      await wake.promise;
      wake = Promise.withResolvers();
    }
  } finally {
    signal.removeEventListener("abort", abort);
    unsubscribe();
    clearTimeout(end);
    clearInterval(bookmarks);
  }
}

/** Converts a refusal to the error that HTTP clients receive. */
function orKubeError<Value>(doing: string, work: () => Value): Value {
  try {
    return work();
  } catch (error) {
    if (!(error instanceof FailureError)) throw error;
    throw new KubeError(doing, error.failure.code, typed(buildFailureStatus(error.failure)));
  }
}

/** As its JSON: times become texts, and undefined fields go. A JSON value is returned itself, as callers never change it afterwards. */
function plain(value: object): JsonObject {
  const json = toJson(value);
  return isObject(json) ? json : {};
}

function toJson(value: unknown): JsonValue | undefined {
  if (value instanceof Date) return value.toISOString();
  if (isList(value)) return mapItems(value, (item) => toJson(item) ?? null);
  if (isObject(value)) return mapEntries(value, (_key, field) => toJson(field));
  return value === null || ["string", "number", "boolean"].includes(typeof value) ? typed<JsonValue>(value) : undefined;
}

/** JSON of the API becomes the type that the caller states, as in `makeKubeCalls`. */
// eslint-disable-next-line @typescript-eslint/no-unnecessary-type-parameters -- the caller states the type of the JSON
function typed<Type>(value: unknown): Type {
  return value as Type;
}
