import type { NumberedChange } from "./change-history.ts";
import type { WatchFeed } from "./watch-feed.ts";

/** The list of an event; undefined for a watch of one list, whose events do not name it. */
export type ListName = string | undefined;

/** Events of one list as bytes, which all its watchers share. */
export type WatchEvents = {
  /** Returns the whole list, as `added` events. */
  readonly items: () => readonly Buffer[];
  /** Returns the changes after this number; undefined if some were dropped. */
  readonly after: (number: number) => readonly Buffer[] | undefined;
};

/** Maximum size of one chunk, after which a slow client shows its progress. */
const PIECE_CHARACTERS = 32_768;
/** Maximum number of positions of lagging clients whose events are shared; events for a further position are encoded for one client. */
const MAX_PLACES = 64;

/** Formats one event. JSON contains no line ends, so one data line is sufficient. */
export function eventOf(kind: string, id: string | undefined, data: string): string {
  return `event: ${kind}\n${id === undefined ? "" : `id: ${id}\n`}data: ${data}\n\n`;
}

/** Formats the data of an event; `field` is its content in addition to the name of the list. */
export function dataOf(list: ListName, field: "item" | "problem", json: string): string {
  return list === undefined ? json : `{"resource":${JSON.stringify(list)},"${field}":${json}}`;
}

/** Returns the position of a client in a list, as a part of an id. */
export function placeOf({ id }: WatchFeed, number: number): string {
  return `${id}-${number}`;
}

/** Reads the numbers of an id by their feeds: `<feed>-<number>`, for several lists separated by dots. */
export function placesIn(id: string | undefined): ReadonlyMap<string, number> {
  const places = (id ?? "").split(".").map((part) => /^([0-9a-f]+)-(\d{1,15})$/.exec(part));
  return new Map(places.flatMap((place) => (place === null ? [] : [[place[1] ?? "", Number(place[2])]])));
}

const known = new WeakMap<WatchFeed, Map<ListName, WatchEvents>>();

/** Returns the events of a feed under one name. Each event is encoded once while the list stays unchanged. */
export function eventsOf(feed: WatchFeed, list: ListName): WatchEvents {
  const ofFeed = known.get(feed) ?? new Map<ListName, WatchEvents>();
  known.set(feed, ofFeed);
  const events = ofFeed.get(list) ?? encodeEvents(feed, list);
  ofFeed.set(list, events);
  return events;
}

function encodeEvents(feed: WatchFeed, list: ListName): WatchEvents {
  let last = -1;
  let items: readonly Buffer[] | undefined;
  let changes = new Map<number, readonly Buffer[]>();
  const refresh = (): void => {
    if (last === feed.last) return;
    last = feed.last;
    items = undefined;
    changes = new Map();
  };
  const encode = ({ kind, number, text }: NumberedChange): string =>
    // The id of several lists contains the positions of one client in the others.
    eventOf(kind, list === undefined ? placeOf(feed, number) : undefined, dataOf(list, "item", text));
  return {
    items: () => {
      refresh();
      items ??= piecesOf(
        [...feed.items.values()].map((text) => eventOf("added", undefined, dataOf(list, "item", text))),
      );
      return items;
    },
    after: (number) => {
      refresh();
      const known = changes.get(number);
      if (known !== undefined) return known;
      const encoded = feed.after(number)?.map(encode);
      const pieces = encoded && piecesOf(encoded);
      if (pieces !== undefined && changes.size < MAX_PLACES) changes.set(number, pieces);
      return pieces;
    },
  };
}

function piecesOf(events: readonly string[]): readonly Buffer[] {
  const pieces: Buffer[] = [];
  let piece = "";
  for (const event of events) {
    if (piece !== "" && piece.length + event.length > PIECE_CHARACTERS) {
      pieces.push(Buffer.from(piece));
      piece = "";
    }
    piece += event;
  }
  if (piece !== "") pieces.push(Buffer.from(piece));
  return pieces;
}
