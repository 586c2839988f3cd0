import type { HttpExchange } from "./answer.ts";
import type { ObjectForm } from "./encode.ts";
import type { JsonObject } from "./json.ts";
import { buildBucketName } from "./resource.ts";
import { expired, fail, type Failure, buildFailureStatus, futureRevision, tooManyRequests } from "./status.ts";
import type { Change, Entry, ObjectStore } from "./store.ts";
import type { WatchPlan } from "./watch-events.ts";
import { buildLine, makeWatchLines, type WatchLines } from "./watch-lines.ts";
import { makeWatchSink } from "./watch-sink.ts";

export type WatchLimits = {
  /** Maximum open watches. */
  readonly maxWatches: number;
  /** Maximum bytes that wait for a slow client before its watch is dropped. */
  readonly backlogMaxBytes: number;
  readonly bookmarkEveryMs: number;
  /** Maximum duration of a watch without a timeout. Actual durations vary from half of it, so that watches do not all end together. */
  readonly timeoutMaxMs: number;
};

export type WatchRequest = {
  readonly view: ObjectForm;
  readonly plan: WatchPlan;
  /** Returns whether the watch selects an object, by its key and stored form. */
  readonly matches: (key: string, stored: JsonObject) => boolean;
  readonly timeoutMs: number | undefined;
  readonly bookmarks: boolean;
};

export type Watches = {
  serve(exchange: HttpExchange, request: WatchRequest): void;
  count(): number;
  /** Breaks every open watch, as a broken connection would. */
  close(): void;
};

export type WatchDeps = {
  readonly store: ObjectStore;
  readonly nowMs: () => number;
  readonly random: (below: number) => number;
  readonly limits: WatchLimits;
};

/** Serves all watches. Events are queued within the commit that causes them, so no client can miss one. */
export function startWatches(deps: WatchDeps): Watches {
  const open = new Set<() => void>();
  return {
    serve: (exchange, request) => {
      if (open.size >= deps.limits.maxWatches) {
        fail(tooManyRequests(`Too many watches: ${deps.limits.maxWatches} are open, please try again later.`, 1));
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

/** Serves one watch; the returned function breaks it. */
function serveWatch(deps: WatchDeps, { response }: HttpExchange, request: WatchRequest): () => void {
  const { store, limits } = deps;
  const { view, plan, matches } = request;
  const bucket = buildBucketName(view.resource);
  const lines = makeWatchLines(view, matches, deps.nowMs);
  response.writeHead(200, { "content-type": "application/json", "cache-control": "no-cache, private" });
  response.flushHeaders();

  const beginning = planBeginning(store, bucket, plan);
  if ("refused" in beginning) {
    response.end(buildLine("ERROR", buildFailureStatus(beginning.refused)));
    return () => response.destroy();
  }
  const sink = makeWatchSink(response, firstLines(lines, request, beginning), limits.backlogMaxBytes);
  const unsubscribe = store.subscribe((name, change) => {
    // A client may request changes after a future revision.
    if (name !== bucket || change.revision <= (plan.after ?? 0)) return;
    const line = lines.ofChange(change);
    if (line !== undefined) sink.push(line);
  });
  const bookmark = (): void => sink.push(lines.ofBookmark(store.revision(), false));
  const bookmarks = request.bookmarks ? setInterval(bookmark, limits.bookmarkEveryMs) : undefined;
  const timeoutMs = request.timeoutMs ?? limits.timeoutMaxMs / 2 + deps.random(limits.timeoutMaxMs / 2);
  const end = setTimeout(() => {
    if (request.bookmarks) bookmark();
    sink.end();
  }, timeoutMs);
  response.once("close", () => {
    unsubscribe();
    clearInterval(bookmarks);
    clearTimeout(end);
  });
  return () => response.destroy();
}

type Beginning = {
  readonly existing: readonly Entry[];
  readonly missed: readonly Change[];
  readonly revision: number;
};

/** Returns the first events of a watch, or why it cannot begin. */
function planBeginning(store: ObjectStore, bucket: string, plan: WatchPlan): Beginning | { readonly refused: Failure } {
  const revision = store.revision();
  const missed = plan.after === undefined ? [] : store.changesAfter(bucket, plan.after);
  if (missed === undefined) return { refused: expired(`too old resource version: ${plan.after ?? 0} (${revision})`) };
  if (plan.notOlderThan > revision) return { refused: futureRevision(plan.notOlderThan, revision) };
  return { existing: plan.initial ? store.entries(bucket) : [], missed, revision };
}

/** Yields lines as the client takes them, so that a large beginning is never completely in memory. */
function* firstLines(
  lines: WatchLines,
  { plan, matches }: WatchRequest,
  { existing, missed, revision }: Beginning,
): Generator<Buffer, undefined> {
  for (const [key, object] of existing) {
    if (matches(key, object)) yield lines.ofExisting(object);
  }
  if (plan.initialBookmark) yield lines.ofBookmark(revision, true);
  for (const change of missed) {
    const line = lines.ofChange(change);
    if (line !== undefined) yield line;
  }
}
