import { type Exchange } from "./answer.ts";
import { buildWatched, type View } from "./encode.ts";
import type { JsonObject } from "./json.ts";
import { apiVersionOf, bucketOf, shown } from "./resource.ts";
import { expired, fail, failureStatus, tooManyRequests } from "./status.ts";
import type { Change, ObjectStore } from "./store.ts";
import { buildBookmark, decideEvent, type WatchPlan } from "./watch-events.ts";

export type WatchLimits = {
  /** Watches open at the same time. */
  readonly watchesMax: number;
  /** Bytes that may wait for a client that reads slowly, before its watch is dropped. */
  readonly backlogMaxBytes: number;
  readonly bookmarkEveryMs: number;
  /** Longest watch of a client that names no time; some come to half of it, so that they do not all end at once. */
  readonly timeoutMaxMs: number;
};

export type WatchRequest = {
  readonly view: View;
  readonly plan: WatchPlan;
  /** Whether an object, in its stored form and at its key, is in sight. */
  readonly matches: (key: string, stored: JsonObject) => boolean;
  readonly timeoutMs: number | undefined;
  readonly bookmarks: boolean;
};

export type Watches = {
  serve(exchange: Exchange, request: WatchRequest): void;
  count(): number;
  /** Cuts every open watch off, as a broken connection would. */
  close(): void;
};

export type WatchDeps = {
  readonly store: ObjectStore;
  readonly nowMs: () => number;
  readonly random: (below: number) => number;
  readonly limits: WatchLimits;
};

/** All open watches of the server. Events are written within the commit that causes them, so that no client can miss one. */
export function watches(deps: WatchDeps): Watches {
  const open = new Set<() => void>();
  return {
    serve: (exchange, request) => {
      if (open.size >= deps.limits.watchesMax) {
        fail(tooManyRequests(`Too many watches: ${deps.limits.watchesMax} are open, please try again later.`, 1));
      }
      const close = serveWatch(deps, exchange, request);
      open.add(close);
      exchange.response.once("close", () => open.delete(close));
    },
    count: () => open.size,
    close: () => {
      for (const close of [...open]) close();
    },
  };
}

/** Returns the way to cut it off. */
function serveWatch(deps: WatchDeps, { response }: Exchange, request: WatchRequest): () => void {
  const { store, limits } = deps;
  const { view, plan } = request;
  const bucket = bucketOf(view.resource);
  let first = true;
  response.writeHead(200, { "content-type": "application/json", "cache-control": "no-cache, private" });
  response.flushHeaders();

  const write = (type: string, object: JsonObject): void => {
    response.write(`{"type":"${type}","object":${encode(view, object, deps.nowMs(), first)}}\n`);
    first = false;
    if (response.writableLength > limits.backlogMaxBytes) response.destroy();
  };
  const bookmark = (endOfInitial: boolean): void => {
    const { resource, form } = view;
    const object = buildBookmark(resource.kind, apiVersionOf(resource), store.revision(), endOfInitial);
    response.write(
      `{"type":"BOOKMARK","object":${form === "json" ? JSON.stringify(object) : encode(view, object, deps.nowMs(), first)}}\n`,
    );
  };
  const tell = (change: Change): void => {
    const event = decideEvent(change, (object) => request.matches(change.key, object));
    if (event !== undefined) write(event.type, shown(view.resource, event.object));
  };

  const missed = plan.after === undefined ? [] : store.changesAfter(bucket, plan.after);
  if (missed === undefined) {
    const status = failureStatus(expired(`too old resource version: ${plan.after ?? 0} (${store.revision()})`));
    response.end(`{"type":"ERROR","object":${JSON.stringify(status)}}\n`);
    return () => response.destroy();
  }
  if (plan.initial) {
    for (const [key, object] of store.entries(bucket)) {
      if (request.matches(key, object)) write("ADDED", shown(view.resource, object));
    }
    if (plan.initialBookmark) bookmark(true);
  }
  missed.forEach(tell);

  const unsubscribe = store.subscribe((name, change) => {
    // A client may ask for changes after a revision that is still to come.
    if (name === bucket && change.revision > (plan.after ?? 0)) tell(change);
  });
  const bookmarks = request.bookmarks ? setInterval(() => bookmark(false), limits.bookmarkEveryMs) : undefined;
  const timeoutMs = request.timeoutMs ?? limits.timeoutMaxMs / 2 + deps.random(limits.timeoutMaxMs / 2);
  const end = setTimeout(() => {
    if (request.bookmarks) bookmark(false);
    response.end();
  }, timeoutMs);
  response.once("close", () => {
    unsubscribe();
    clearInterval(bookmarks);
    clearTimeout(end);
  });
  return () => response.destroy();
}

const encoded = new WeakMap<JsonObject, string>();

/** Many watches tell of the same object; its text is made once. */
function encode(view: View, object: JsonObject, nowMs: number, first: boolean): string {
  if (view.form !== "json") return JSON.stringify(buildWatched(view, object, nowMs, first));
  const known = encoded.get(object);
  if (known !== undefined) return known;
  const text = JSON.stringify(object);
  encoded.set(object, text);
  return text;
}
