import { isObject, numberAt, textAt, type Json } from "./json.ts";
import { badRequest, fail } from "./status.ts";
import type { Entry } from "./store.ts";

/** Where a list goes on: after a key, in the state of a revision; -1 for whatever is now. */
export type Position = { readonly revision: number; readonly after: string };

export type Page = {
  readonly entries: readonly Entry[];
  /** Where the next page begins; undefined on the last. */
  readonly next: string | undefined;
  readonly remaining: number;
};

/** One page of entries that are sorted by key. A limit of 0 or less is no limit. */
export function pageOf(entries: readonly Entry[], limit: number, after: string | undefined): Page {
  const start = after === undefined ? 0 : firstAfter(entries, after);
  const end = limit > 0 ? Math.min(entries.length, start + limit) : entries.length;
  const page = entries.slice(start, end);
  const last = page.at(-1)?.[0];
  return { entries: page, next: end < entries.length ? last : undefined, remaining: entries.length - end };
}

/** The opaque text that clients hand back; the same form as Kubernetes' own. */
export function encodePosition({ revision, after }: Position): string {
  const json = JSON.stringify({ v: "meta.k8s.io/v1", rv: revision, start: `${after}\u0000` });
  return Buffer.from(json).toString("base64url");
}

export function decodePosition(token: string): Position {
  const parsed = parse(Buffer.from(token, "base64url").toString("utf8"));
  const revision = numberAt(parsed, "rv");
  const start = textAt(parsed, "start");
  if (!isObject(parsed) || revision === undefined || start === "" || textAt(parsed, "v") !== "meta.k8s.io/v1") {
    return fail(badRequest("invalid continue token: continue key is not valid"));
  }
  return { revision, after: start.endsWith("\u0000") ? start.slice(0, -1) : start };
}

function parse(text: string): Json | undefined {
  try {
    const parsed: unknown = JSON.parse(text);
    return isObject(parsed) ? parsed : undefined;
  } catch {
    return undefined;
  }
}

function firstAfter(entries: readonly Entry[], key: string): number {
  const index = entries.findIndex(([candidate]) => candidate > key);
  return index < 0 ? entries.length : index;
}
