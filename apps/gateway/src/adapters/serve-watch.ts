import { makeBell } from "@muster/backoff";
import { findFault } from "@muster/faults";
import type { StreamCheck } from "../api/limit-failed-checks.ts";
import { dataOf, eventOf, eventsOf, placeOf, placesIn, type ListName } from "../api/watch-events.ts";
import type { WatchFeed } from "../api/watch-feed.ts";
import { buildProblem, buildRefusal, type Problem } from "../domain/build-problem.ts";
import type { HttpStream } from "./http-stream.ts";

/** Interval of keep-alive lines. It is shorter than a minute, because proxies close connections that are silent for a minute. */
const SILENCE_MS = 15_000;

export type WatchedList = {
  readonly name: ListName;
  readonly feed: WatchFeed;
  /** Returns the reason why the client may no longer watch the list. Called every `recheckMs`. */
  readonly refusal: StreamCheck;
};

export type WatchOptions = {
  /** The header `Last-Event-ID`. */
  readonly lastEventId: string | undefined;
  readonly recheckMs: number;
  /** The events of lists that the client may not watch. */
  readonly refused: readonly string[];
};

/** The progress of a client through a list. */
type Progress = WatchedList & {
  /** Number of the last change that the client has; undefined if the client has not received this list. */
  cursor: number | undefined;
  shownTrouble: string | undefined;
  checkedAtMs: number;
  /** The reason of the last check why the client may no longer watch the list. */
  refused: Problem | undefined;
};

/**
 * Writes the changes of lists as server-sent events until the client disconnects, may no longer watch any list, or reads too slowly. A client whose last event
 * is known receives every later event. Any other client receives `reset`, the whole list, and `synced`.
 */
export async function serveWatch(
  stream: HttpStream,
  lists: readonly WatchedList[],
  options: WatchOptions,
): Promise<void> {
  try {
    await writeChanges(stream, lists, options);
  } catch (error) {
    if (findFault(error)?.code !== "deadline_exceeded") {
      stream.break();
      throw error;
    }
    const detail = "events were not read for too long; reconnect with the last event id, or read the list again";
    stream.end(closedEvent(undefined, { ...buildRefusal("REQUEST_TIMEOUT", detail), code: "TOO_SLOW" }));
  }
}

async function writeChanges(
  stream: HttpStream,
  lists: readonly WatchedList[],
  { lastEventId, recheckMs, refused }: WatchOptions,
): Promise<void> {
  const bell = makeBell();
  using listening = new DisposableStack();
  for (const { feed } of lists) listening.use(feed.onChange(bell.ring));
  const known = placesIn(lastEventId);
  const beganMs = performance.now();
  const watched = new Set(lists.map((list) => startOf(list, known, beganMs)));
  if (refused.length > 0) await stream.write(`${refused.join("")}${placesEvent(watched)}`);
  while (!stream.closed.aborted) {
    for (const list of watched) {
      // The check is repeated for each list, because the client may have read the previous one slowly.
      await checkDueLists(watched, recheckMs);
      if (list.refused === undefined) await writeList(stream, watched, list);
      const end = list.refused ?? list.feed.end;
      if (end === undefined) continue;
      watched.delete(list);
      // The position in the closed list is dropped, so that a client that may watch it again receives it whole.
      const closed = `${closedEvent(list.name, end)}${list.name === undefined ? "" : placesEvent(watched)}`;
      if (watched.size > 0) await stream.write(closed);
      else {
        stream.end(closed);
        return;
      }
    }
    const isRung = await bell.wait(Math.min(SILENCE_MS, recheckMs), stream.closed);
    if (!isRung) await stream.write(": alive\n\n");
  }
}

/** Checks the due lists concurrently. All get one check time, so that their next checks are due together. */
async function checkDueLists(lists: ReadonlySet<Progress>, recheckMs: number): Promise<void> {
  const nowMs = performance.now();
  const due = [...lists].filter(({ checkedAtMs }) => nowMs - checkedAtMs >= recheckMs);
  await Promise.all(
    due.map(async (list) => {
      list.checkedAtMs = nowMs;
      list.refused = await list.refusal();
    }),
  );
}

function startOf(list: WatchedList, known: ReadonlyMap<string, number>, nowMs: number): Progress {
  const number = known.get(list.feed.id);
  const isKept = number !== undefined && list.feed.after(number) !== undefined;
  const cursor = isKept ? number : undefined;
  return { ...list, cursor, shownTrouble: undefined, checkedAtMs: nowMs, refused: undefined };
}

/** Writes the changes of the list that the client lacks. */
async function writeList(stream: HttpStream, all: ReadonlySet<Progress>, list: Progress): Promise<void> {
  const { feed, name } = list;
  if (feed.isRead) await writeItems(stream, all, list);
  if (feed.trouble === list.shownTrouble) return;
  list.shownTrouble = feed.trouble;
  if (list.shownTrouble !== undefined) await stream.write(staleEvent(name, list.shownTrouble));
  else if (list.cursor !== undefined) await stream.write(syncedEvent(all, name));
}

async function writeItems(stream: HttpStream, all: ReadonlySet<Progress>, list: Progress): Promise<void> {
  const { feed, name, cursor } = list;
  const events = eventsOf(feed, name);
  // All events are of the same moment, although the feed continues while they are written.
  const { last } = feed;
  if (cursor === last) return;
  const changes = cursor === undefined ? undefined : events.after(cursor);
  if (changes !== undefined) {
    for (const piece of changes) await stream.write(piece);
    list.cursor = last;
    if (name !== undefined) await stream.write(placesEvent(all));
    return;
  }
  const items = events.items();
  list.cursor = undefined;
  // The id lacks the position in this list: a client that disconnects halfway receives the whole list again, wherever it reconnects.
  await stream.write(eventOf("reset", idOf(all), dataOfList(name)));
  for (const piece of items) await stream.write(piece);
  list.cursor = last;
  await stream.write(syncedEvent(all, name));
}

/** Returns the client's position in each list. */
function idOf(lists: ReadonlySet<Progress>): string {
  return [...lists].flatMap(({ feed, cursor }) => (cursor === undefined ? [] : [placeOf(feed, cursor)])).join(".");
}

/** Returns an id without data. It is no event, but replaces the client's last id. */
function placesEvent(lists: ReadonlySet<Progress>): string {
  return `id: ${idOf(lists)}\n\n`;
}

function dataOfList(name: ListName): string {
  return name === undefined ? "{}" : JSON.stringify({ resource: name });
}

function syncedEvent(all: ReadonlySet<Progress>, name: ListName): string {
  return eventOf("synced", idOf(all), dataOfList(name));
}

/** Formats the end of a list, or of the whole stream. */
export function closedEvent(name: ListName, problem: Problem): string {
  return eventOf("closed", undefined, dataOf(name, "problem", JSON.stringify(problem)));
}

function staleEvent(name: ListName, trouble: string): string {
  const problem = buildProblem({ code: "unavailable", dependency: "the list", retryAfterMs: 0 });
  const shown = JSON.stringify({ ...problem, detail: trouble, fault: undefined });
  return eventOf("stale", undefined, dataOf(name, "problem", shown));
}
