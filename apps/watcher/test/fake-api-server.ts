import { createServer, type ServerResponse } from "node:http";
import { once } from "node:events";
import { KubeConfig, type V1Node, type V1Pod } from "@kubernetes/client-node";

type Resource = "pods" | "nodes";
type Stored = V1Pod | V1Node;
type Event = { readonly type: string; readonly version: number; readonly object: Stored };
type Refusal = { readonly status: number; readonly headers: Readonly<Record<string, string>>; left: number };

/** Events of one resource that are kept for resumed watches; older versions get 410. */
const HISTORY = 4000;

export type Asked = {
  readonly resource: Resource;
  readonly watch: boolean;
  readonly query: URLSearchParams;
  readonly atMs: number;
};

/** The list and watch of pods and nodes over HTTP, in memory, with failures on demand. */
export type FakeApiServer = AsyncDisposable & {
  readonly config: KubeConfig;
  /** All requests so far. */
  readonly asked: readonly Asked[];
  /** Creates or replaces an object; the server sets resource version, uid and creation time. */
  put(resource: Resource, object: Stored): void;
  delete(resource: Resource, name: string, namespace?: string): void;
  /** Answers the next requests with this status. */
  refuse(times: number, status: number, headers?: Readonly<Record<string, string>>): void;
  /** Drops its history: an earlier watch gets 410, inside the watch or as its answer. */
  expire(): void;
  /** Sends this line to open watches. */
  say(resource: Resource, line: unknown): void;
  bookmark(resource: Resource): void;
  /** Ends open watches cleanly, breaks them, or leaves them silent. */
  end(): void;
  cut(): void;
  mute(): void;
  readonly watching: number;
};

type Open = { readonly resource: Resource; readonly response: ServerResponse; muted: boolean };

export async function startFakeApiServer(): Promise<FakeApiServer> {
  const objects: Record<Resource, Map<string, Stored>> = { pods: new Map(), nodes: new Map() };
  const history: Record<Resource, Event[]> = { pods: [], nodes: [] };
  const open = new Set<Open>();
  const asked: Asked[] = [];
  const refusal: Refusal = { status: 0, headers: {}, left: 0 };
  let version = 1;
  let oldest = 0;

  const write = (response: ServerResponse, line: unknown): boolean => response.write(`${JSON.stringify(line)}\n`);
  const notify = (resource: Resource, type: string, object: Stored): void => {
    history[resource].push({ type, version, object });
    if (history[resource].length > HISTORY) {
      history[resource] = history[resource].slice(HISTORY / 2);
      oldest = Math.max(oldest, history[resource][0]?.version ?? 0);
    }
    const line = `${JSON.stringify({ type, object })}\n`;
    for (const each of open) if (each.resource === resource && !each.muted) each.response.write(line);
  };
  const refuse = (response: ServerResponse, code: number, headers: Readonly<Record<string, string>> = {}): void => {
    response.writeHead(code, { "content-type": "application/json", ...headers });
    response.end(JSON.stringify({ kind: "Status", status: "Failure", code, message: `scripted ${code}` }));
  };
  const watch = (resource: Resource, query: URLSearchParams, response: ServerResponse): void => {
    const from = Number(query.get("resourceVersion"));
    if (from < oldest) {
      refuse(response, 410);
      return;
    }
    response.writeHead(200, { "content-type": "application/json" });
    response.flushHeaders();
    for (const { type, object, version: at } of history[resource]) if (at > from) write(response, { type, object });
    const each: Open = { resource, response, muted: false };
    open.add(each);
    response.on("close", () => open.delete(each));
  };

  const leave = (how: (response: ServerResponse) => void): void => {
    for (const { response } of open) how(response);
    open.clear();
  };

  const server = createServer((request, response) => {
    const url = new URL(request.url ?? "/", "http://server");
    const resource = url.pathname.endsWith("/nodes") ? "nodes" : "pods";
    const query = url.searchParams;
    asked.push({ resource, watch: query.get("watch") === "true", query, atMs: performance.now() });
    if (refusal.left > 0) {
      refusal.left -= 1;
      refuse(response, refusal.status, refusal.headers);
    } else if (query.get("watch") === "true") watch(resource, query, response);
    else {
      const items = [...objects[resource].values()];
      response.writeHead(200, { "content-type": "application/json" });
      response.end(JSON.stringify({ kind: "List", metadata: { resourceVersion: String(version) }, items }));
    }
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  const address = server.address();
  if (address === null || typeof address === "string") throw new Error("no port");

  return {
    config: configFor(`http://127.0.0.1:${address.port}`),
    asked,
    put: (resource, object) => {
      version += 1;
      const { name = "", namespace = "" } = object.metadata ?? {};
      const key = `${namespace}/${name}`;
      const before = objects[resource].get(key);
      const metadata = {
        uid: `uid-${version}`,
        creationTimestamp: new Date(),
        ...before?.metadata,
        ...object.metadata,
        resourceVersion: String(version),
      };
      const stored = { ...object, metadata };
      objects[resource].set(key, stored);
      notify(resource, before === undefined ? "ADDED" : "MODIFIED", stored);
    },
    delete: (resource, name, namespace = "") => {
      const key = `${namespace}/${name}`;
      const before = objects[resource].get(key);
      if (before === undefined) return;
      version += 1;
      objects[resource].delete(key);
      notify(resource, "DELETED", { ...before, metadata: { ...before.metadata, resourceVersion: String(version) } });
    },
    refuse: (times, status, headers = {}) => Object.assign(refusal, { left: times, status, headers }),
    expire: () => {
      version += 1;
      oldest = version;
      history.pods = [];
      history.nodes = [];
    },
    say: (resource, line) => {
      for (const each of open) if (each.resource === resource) write(each.response, line);
    },
    bookmark: (resource) => {
      const line = { type: "BOOKMARK", object: { metadata: { resourceVersion: String(version) } } };
      for (const each of open) if (each.resource === resource && !each.muted) write(each.response, line);
    },
    end: () => leave((response) => response.end()),
    cut: () => leave((response) => response.destroy()),
    mute: () => {
      for (const each of open) each.muted = true;
    },
    get watching() {
      return open.size;
    },
    [Symbol.asyncDispose]: async () => {
      server.close();
      server.closeAllConnections();
      await once(server, "close");
    },
  };
}

function configFor(server: string): KubeConfig {
  const config = new KubeConfig();
  config.loadFromClusterAndUser({ name: "fake", server, skipTLSVerify: true }, { name: "tester", token: "secret" });
  return config;
}
