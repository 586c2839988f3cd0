import type { KubeConfig, V1ObjectMeta } from "@kubernetes/client-node";
import { getField, MalformedAnswerError, type KubeStatus } from "./kube-error.ts";
import { openGet, readLines, readText } from "./kube-http.ts";

/** Time limit of one page of a list. */
const PAGE_TIMEOUT_MS = 60_000;
/** A page of 500 large pods has some 10 MiB; a whole list without pages may have more. */
const MAX_PAGE_LENGTH = 512 * 1024 * 1024;

export type KubeObject = { readonly apiVersion?: string; readonly kind?: string; readonly metadata?: V1ObjectMeta };

export type ListPage<Object> = {
  readonly items: readonly Object[];
  readonly resourceVersion: string;
  readonly continue: string | undefined;
};

/** The two calls that a reflector makes for one resource. */
export type ListWatch<Object extends KubeObject> = {
  /** Lists one page; a limit of 0 requests everything in one answer. */
  list(options: {
    readonly limit: number;
    readonly continue?: string;
    readonly resourceVersion?: string;
    readonly signal: AbortSignal;
  }): Promise<ListPage<Object>>;
  /** Yields raw watch events until the server ends the watch or the signal is aborted; a Status object is yielded as an ERROR event. */
  watch(options: {
    readonly resourceVersion: string;
    readonly timeoutSeconds: number;
    readonly signal: AbortSignal;
  }): AsyncIterable<WatchEvent<Object>>;
};

export type WatchEvent<Object> =
  | { readonly type: "ADDED" | "MODIFIED" | "DELETED" | "BOOKMARK"; readonly object: Object }
  | { readonly type: "ERROR"; readonly object: KubeStatus };

/**
 * List and watch on an API path such as `/api/v1/pods`, with client-node's connection and credentials. Objects are the server's JSON: times are strings,
 * whatever client-node's types state, exactly as with its own watch.
 */
export function listWatch<Object extends KubeObject>(
  config: KubeConfig,
  path: string,
  selectors: { readonly labelSelector?: string; readonly fieldSelector?: string } = {},
): ListWatch<Object> {
  return {
    list: async ({ limit, continue: token, resourceVersion, signal }) => {
      const query = { ...selectors, limit: limit === 0 ? undefined : limit, continue: token, resourceVersion };
      const deadline = AbortSignal.any([signal, AbortSignal.timeout(PAGE_TIMEOUT_MS)]);
      const response = await openGet(config, path, query, deadline);
      return parsePage<Object>(path, await readText(response, MAX_PAGE_LENGTH));
    },
    watch: async function* ({ resourceVersion, timeoutSeconds, signal }) {
      const query = { ...selectors, watch: true, allowWatchBookmarks: true, resourceVersion, timeoutSeconds };
      const response = await openGet(config, path, query, signal);
      try {
        for await (const line of readLines(response)) yield parseEvent<Object>(path, line);
      } finally {
        response.destroy();
      }
    },
  };
}

/** One page of a list; throws MalformedAnswerError for any other text. */
export function parsePage<Object>(path: string, text: string): ListPage<Object> {
  const page = parse(path, text);
  const items = getField(page, "items");
  const metadata = getField(page, "metadata");
  const resourceVersion = getField(metadata, "resourceVersion");
  if (!Array.isArray(items) || typeof resourceVersion !== "string") {
    throw new MalformedAnswerError(`GET ${path}: ${describe(page)} instead of a list`);
  }
  const token = getField(metadata, "continue");
  return { items, resourceVersion, continue: typeof token === "string" && token !== "" ? token : undefined };
}

function parseEvent<Object>(path: string, line: string): WatchEvent<Object> {
  const event = parse(path, line);
  const type = getField(event, "type");
  const object = getField(event, "object");
  if (typeof object !== "object" || object === null) {
    throw new MalformedAnswerError(`watching ${path}: ${describe(event)} instead of an event`);
  }
  if (type === "ERROR" || getField(object, "kind") === "Status") return { type: "ERROR", object };
  switch (type) {
    case "ADDED":
    case "MODIFIED":
    case "DELETED":
    case "BOOKMARK":
      // Assigns the type that the caller states to JSON of the API server, as `parsePage` does.
      return { type, object: object as Object };
    default:
      throw new MalformedAnswerError(`watching ${path}: an event of type ${String(type)}`);
  }
}

function parse(path: string, text: string): unknown {
  try {
    return JSON.parse(text);
  } catch (cause) {
    throw new MalformedAnswerError(`${path}: no JSON: ${text.slice(0, 100)}`, { cause });
  }
}

function describe(value: unknown): string {
  const kind = getField(value, "kind");
  return typeof kind === "string" ? `a ${kind}` : `a ${typeof value}`;
}
