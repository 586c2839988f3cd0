import { makeBell } from "@muster/backoff";
import { faultOf } from "@muster/faults";
import type { StreamCheck } from "../api/limit-failed-checks.ts";
import type { WatchFeed } from "../api/watch-feed.ts";
import { buildProblem, buildRefusal, type Problem } from "../domain/build-problem.ts";
import type { HttpStream } from "./http-stream.ts";

/** Proxies close connections that are silent for a minute. */
const SILENCE_MS = 15_000;

export type WatchOptions = {
  /** The header `Last-Event-ID`. */
  readonly lastEventId: string | undefined;
  /** Why the client may not watch any longer. Called every `recheckMs`. */
  readonly refusal: StreamCheck;
  readonly recheckMs: number;
};

/**
 * Writes the changes of a feed as server-sent events until the client is gone, may not watch any longer, or reads too slowly. A client whose last event is
 * known receives everything after it. Any other receives `reset`, the whole list, and `synced`.
 */
export async function serveWatch(stream: HttpStream, feed: WatchFeed, options: WatchOptions): Promise<void> {
  try {
    await writeChanges(stream, feed, options);
  } catch (error) {
    if (faultOf(error)?.code !== "deadline_exceeded") {
      stream.break();
      throw error;
    }
    const detail = "events were not read for too long; reconnect with the last event id, or read the list again";
    stream.end(closedEvent({ ...buildRefusal("REQUEST_TIMEOUT", detail), code: "TOO_SLOW" }));
  }
}

async function writeChanges(
  stream: HttpStream,
  feed: WatchFeed,
  { lastEventId, refusal, recheckMs }: WatchOptions,
): Promise<void> {
  const bell = makeBell();
  using _listening = feed.onChange(() => bell.ring());
  let cursor = cursorOf(feed, lastEventId);
  let shownTrouble: string | undefined;
  let checkedAtMs = performance.now();
  while (!stream.closed.aborted) {
    if (performance.now() - checkedAtMs >= recheckMs) {
      const refused = await refusal();
      if (refused !== undefined) {
        stream.end(closedEvent(refused));
        return;
      }
      checkedAtMs = performance.now();
    }
    if (feed.isRead) cursor = await writeFrom(stream, feed, cursor);
    if (feed.trouble !== shownTrouble) {
      shownTrouble = feed.trouble;
      await stream.write(shownTrouble === undefined ? syncedEvent(feed, cursor ?? 0) : staleEvent(shownTrouble));
    }
    if (feed.end !== undefined) {
      stream.end(closedEvent(feed.end));
      return;
    }
    const isRung = await bell.wait(Math.min(SILENCE_MS, recheckMs), stream.closed);
    if (!isRung) await stream.write(": alive\n\n");
  }
}

/** The number of the last event that the client has; undefined: it has none of this feed, or too old a one. */
function cursorOf(feed: WatchFeed, lastEventId: string | undefined): number | undefined {
  const [, id, number = ""] = /^([0-9a-f]+)-(\d{1,15})$/.exec(lastEventId ?? "") ?? [];
  return id === feed.id && feed.after(Number(number)) !== undefined ? Number(number) : undefined;
}

/** Writes what the client lacks; returns the number that it then has. */
async function writeFrom(stream: HttpStream, feed: WatchFeed, cursor: number | undefined): Promise<number> {
  const changes = cursor === undefined ? undefined : feed.after(cursor);
  if (changes !== undefined) {
    for (const { kind, number, text } of changes) await stream.write(eventOf(kind, idOf(feed, number), text));
    return changes.at(-1)?.number ?? cursor ?? 0;
  }
  // Both of the same moment, although the feed continues while they are written.
  const { items, last } = feed;
  // The empty id replaces that of another list: a client that loses this one halfway receives all of it again, wherever it reconnects.
  await stream.write(eventOf("reset", "", "{}"));
  for (const text of items.values()) {
    if (stream.closed.aborted) break;
    await stream.write(eventOf("added", undefined, text));
  }
  await stream.write(syncedEvent(feed, last));
  return last;
}

function idOf(feed: WatchFeed, number: number): string {
  return `${feed.id}-${number}`;
}

function syncedEvent(feed: WatchFeed, number: number): string {
  return eventOf("synced", idOf(feed, number), "{}");
}

function closedEvent(problem: Problem): string {
  return eventOf("closed", undefined, JSON.stringify(problem));
}

function staleEvent(trouble: string): string {
  const problem = buildProblem({ code: "unavailable", dependency: "the list", retryAfterMs: 0 });
  return eventOf("stale", undefined, JSON.stringify({ ...problem, detail: trouble, fault: undefined }));
}

/** JSON has no line ends, so one line of data suffices. */
function eventOf(kind: string, id: string | undefined, data: string): string {
  return `event: ${kind}\n${id === undefined ? "" : `id: ${id}\n`}data: ${data}\n\n`;
}
