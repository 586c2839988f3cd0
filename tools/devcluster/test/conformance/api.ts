import type { IncomingMessage } from "node:http";
import { request as httpsRequest } from "node:https";
import { createInterface, type Interface } from "node:readline";
import { isObject, type JsonObject, getList, getObject, getText } from "../../src/apiserver/json.ts";
import type { Cluster } from "./clusters.ts";

export type CallOptions = {
  /** Sent as JSON. */
  readonly body?: unknown;
  /** Sent as it is. */
  readonly raw?: string;
  readonly type?: string;
  readonly accept?: string;
  /** "" sends none. */
  readonly token?: string;
};

export type Answer = {
  readonly code: number;
  readonly headers: IncomingMessage["headers"];
  readonly text: string;
  /** {} when the answer is no JSON object. */
  readonly body: JsonObject;
};

export type Event = { readonly type: string; readonly object: JsonObject };

export type OpenWatch = AsyncDisposable & {
  readonly code: number;
  /** The next event; undefined once the server has ended the watch. */
  next(): Promise<Event | undefined>;
  take(count: number): Promise<Event[]>;
  /** All events up to the end of the watch. */
  rest(): Promise<Event[]>;
};

export type Api = {
  readonly cluster: Cluster;
  call(method: string, path: string, options?: CallOptions): Promise<Answer>;
  get(path: string, accept?: string): Promise<Answer>;
  post(path: string, body: unknown): Promise<Answer>;
  put(path: string, body: unknown): Promise<Answer>;
  patch(path: string, kind: PatchKind, body: unknown): Promise<Answer>;
  delete(path: string, body?: unknown): Promise<Answer>;
  watch(path: string, accept?: string): Promise<OpenWatch>;
  /** A namespace for one suite. */
  namespace(): Promise<string>;
};

export type PatchKind = "json" | "merge" | "strategic" | "apply";

const PATCH_TYPES: Readonly<Record<PatchKind, string>> = {
  json: "application/json-patch+json",
  merge: "application/merge-patch+json",
  strategic: "application/strategic-merge-patch+json",
  apply: "application/apply-patch+yaml",
};

/** Raw HTTP to a cluster, so that nothing of a client library stands between a test and the answer. */
export function api(cluster: Cluster): Api {
  let namespaces = 0;
  const call = (method: string, path: string, options: CallOptions = {}): Promise<Answer> =>
    send(cluster, method, path, options);
  const self: Api = {
    cluster,
    call,
    get: (path, accept) => call("GET", path, accept === undefined ? {} : { accept }),
    post: (path, body) => call("POST", path, { body }),
    put: (path, body) => call("PUT", path, { body }),
    patch: (path, kind, body) => call("PATCH", path, { body, type: PATCH_TYPES[kind] }),
    delete: (path, body) => call("DELETE", path, body === undefined ? {} : { body }),
    watch: (path, accept) => openWatch(cluster, path, accept),
    namespace: async () => {
      namespaces += 1;
      const name = `test-${namespaces}`;
      const made = await self.post("/api/v1/namespaces", { metadata: { name } });
      if (made.code !== 201) throw new Error(made.text);
      return name;
    },
  };
  return self;
}

function open(cluster: Cluster, method: string, path: string, options: CallOptions): Promise<IncomingMessage> {
  const { body, raw = body === undefined ? undefined : JSON.stringify(body), accept, token = cluster.token } = options;
  return new Promise((resolve, reject) => {
    const request = httpsRequest(
      `${cluster.url}${path}`,
      {
        method,
        ca: cluster.ca,
        agent: false,
        headers: {
          ...(token === "" ? {} : { authorization: `Bearer ${token}` }),
          ...(raw === undefined
            ? {}
            : { "content-type": options.type ?? "application/json", "content-length": Buffer.byteLength(raw) }),
          ...(accept === undefined ? {} : { accept }),
        },
      },
      resolve,
    );
    request.once("error", reject);
    request.end(raw);
  });
}

async function send(cluster: Cluster, method: string, path: string, options: CallOptions): Promise<Answer> {
  const response = await open(cluster, method, path, options);
  response.setEncoding("utf8");
  let text = "";
  for await (const chunk of response) text += String(chunk);
  return { code: response.statusCode ?? 0, headers: response.headers, text, body: parse(text) };
}

function parse(text: string): JsonObject {
  try {
    const parsed: unknown = JSON.parse(text);
    return isObject(parsed) ? parsed : {};
  } catch {
    return {};
  }
}

async function openWatch(cluster: Cluster, path: string, accept: string | undefined): Promise<OpenWatch> {
  const response = await open(cluster, "GET", path, accept === undefined ? {} : { accept });
  const lines: Interface = createInterface({ input: response });
  const iterator = lines[Symbol.asyncIterator]();
  const next = async (): Promise<Event | undefined> => {
    // A server that breaks off a watch ends it for the reader too; the events before it count.
    const line = await iterator.next().catch(() => undefined);
    if (line === undefined || line.done === true || line.value === "") return undefined;
    const event = parse(line.value);
    return { type: getText(event, "type"), object: getObject(event, "object") };
  };
  const collect = async (count: number): Promise<Event[]> => {
    const events: Event[] = [];
    while (events.length < count) {
      const event = await next();
      if (event === undefined) break;
      events.push(event);
    }
    return events;
  };
  return {
    code: response.statusCode ?? 0,
    next,
    take: collect,
    rest: () => collect(Number.POSITIVE_INFINITY),
    [Symbol.asyncDispose]: () => {
      lines.close();
      response.destroy();
      return Promise.resolve();
    },
  };
}

export function nameIn(object: JsonObject): string {
  return getText(object, "metadata", "name");
}

export function getVersion(object: JsonObject): string {
  return getText(object, "metadata", "resourceVersion");
}

export function listNames(list: JsonObject): string[] {
  return getList(list, "items").map((item) => getText(item, "metadata", "name"));
}

export function pod(name: string, more: { labels?: object; spec?: object; metadata?: object } = {}): object {
  return {
    apiVersion: "v1",
    kind: "Pod",
    metadata: { name, ...(more.labels === undefined ? {} : { labels: more.labels }), ...more.metadata },
    spec: { containers: [{ name: "main", image: "program:1" }], ...more.spec },
  };
}

export function configMap(name: string, more: { data?: object; metadata?: object } = {}): object {
  return {
    apiVersion: "v1",
    kind: "ConfigMap",
    metadata: { name, ...more.metadata },
    data: more.data ?? { key: "value" },
  };
}
