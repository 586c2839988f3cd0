import { isObject, type JsonObject, findNumber, getText } from "./json.ts";
import { badRequest, fail } from "./status.ts";
import type { Entry } from "./store.ts";

/** The start of the next page: after a key, in the state of a revision; -1 for the current state. */
export type Position = { readonly revision: number; readonly after: string };

export type Page = {
  readonly entries: readonly Entry[];
  /** Start of the next page; undefined on the last one. */
  readonly next: string | undefined;
  readonly remaining: number;
};

/** One page of entries that are sorted by key. A limit of 0 or less is no limit. */
export function buildPage(entries: readonly Entry[], limit: number, after: string | undefined): Page {
  const start = after === undefined ? 0 : firstAfter(entries, after);
  const end = limit > 0 ? Math.min(entries.length, start + limit) : entries.length;
  const page = entries.slice(start, end);
  const last = page.at(-1)?.[0];
  return { entries: page, next: end < entries.length ? last : undefined, remaining: entries.length - end };
}

/** The opaque continue token, in Kubernetes' own form. */
export function encodePosition({ revision, after }: Position): string {
  const json = JSON.stringify({ v: "meta.k8s.io/v1", rv: revision, start: `${after}\u0000` });
  return Buffer.from(json).toString("base64url");
}

export function decodePosition(token: string): Position {
  const refuse = (because: string): never =>
    fail(badRequest(`invalid continue token: continue key is not valid${because}`));
  const parsed = parse(Buffer.from(token, "base64url").toString("utf8")) ?? refuse("");
  const version = getText(parsed, "v");
  if (version !== "meta.k8s.io/v1") refuse(`: server does not recognize this encoded version ${version}`);
  const revision = findNumber(parsed, "rv") ?? 0;
  const start = getText(parsed, "start");
  if (revision === 0) refuse(`: incorrect encoded start resourceVersion (version meta.k8s.io/v1)`);
  if (start === "") refuse(": encoded start key empty (version meta.k8s.io/v1)");
  return { revision, after: start.endsWith("\u0000") ? start.slice(0, -1) : start };
}

function parse(text: string): JsonObject | undefined {
  try {
    const parsed: unknown = JSON.parse(text);
    return isObject(parsed) ? parsed : undefined;
  } catch {
    return undefined;
  }
}

/** Binary search, because a bucket may have thousands of entries. */
function firstAfter(entries: readonly Entry[], key: string): number {
  let low = 0;
  let high = entries.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if ((entries[middle]?.[0] ?? "") <= key) low = middle + 1;
    else high = middle;
  }
  return low;
}
