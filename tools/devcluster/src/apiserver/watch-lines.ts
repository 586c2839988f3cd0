import { buildWatched, type ObjectForm } from "./encode.ts";
import type { JsonObject } from "./json.ts";
import { formatText } from "./object-text.ts";
import { buildApiVersion } from "./resource.ts";
import type { Change } from "./store.ts";
import { buildBookmark, decideEvent } from "./watch-events.ts";

/** Encodes the lines of one watch. Lines of plain JSON are shared by all watches. */
export type WatchLines = {
  /** Returns undefined for a change that the watch does not select. */
  ofChange(change: Change): Buffer | undefined;
  ofExisting(object: JsonObject): Buffer;
  ofBookmark(revision: number, endOfInitial: boolean): Buffer;
};

type Matches = (key: string, stored: JsonObject) => boolean;

export function makeWatchLines(view: ObjectForm, matches: Matches, nowMs: () => number): WatchLines {
  const { resource, form } = view;
  let isFirst = true;
  const line = (type: string, object: JsonObject): Buffer => {
    const text = buildWatched(view, object, nowMs(), isFirst);
    isFirst = false;
    return buildLine(type, text);
  };
  const sharesLines = form === "json";
  return {
    ofChange: (change) => {
      const event = decideEvent(change, (object) => matches(change.key, object));
      if (event === undefined) return undefined;
      if (!sharesLines) return line(event.type, event.object);
      return sharedLine(change, event.type, event.object);
    },
    ofExisting: (object) => (sharesLines ? sharedLine(object, "ADDED", object) : line("ADDED", object)),
    ofBookmark: (revision, endOfInitial) => {
      const bookmark = buildBookmark(resource.kind, buildApiVersion(resource), revision, endOfInitial);
      return form === "json" ? buildLine("BOOKMARK", bookmark) : line("BOOKMARK", bookmark);
    },
  };
}

export function buildLine(type: string, object: JsonObject): Buffer {
  return Buffer.concat([Buffer.from(`{"type":"${type}","object":`), formatText(object), LINE_END]);
}

const LINE_END = Buffer.from("}\n");

const shared = new WeakMap<object, Map<string, Buffer>>();

/** Caches a line as long as its change or object is kept. */
function sharedLine(source: object, type: string, object: JsonObject): Buffer {
  const lines = shared.get(source) ?? new Map<string, Buffer>();
  if (lines.size === 0) shared.set(source, lines);
  const known = lines.get(type);
  if (known !== undefined) return known;
  const made = buildLine(type, object);
  lines.set(type, made);
  return made;
}
