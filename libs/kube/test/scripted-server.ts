import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import { once } from "node:events";
import { KubeConfig } from "@kubernetes/client-node";

export type Asked = { readonly url: URL; readonly watch: boolean };

export type ScriptedServer = AsyncDisposable & {
  readonly config: KubeConfig;
  /** Every request so far, in order. */
  readonly asked: readonly Asked[];
  /** Sets the answers to the next requests of this kind, one each; the last one is repeated. */
  onList(...answers: Answer[]): void;
  onWatch(...answers: Answer[]): void;
};

export type Answer = (response: ServerResponse, request: IncomingMessage) => void;

/** Starts an HTTP server that answers as an API server from a script. */
export async function startScriptedServer(): Promise<ScriptedServer> {
  const asked: Asked[] = [];
  const scripts: { list: Answer[]; watch: Answer[] } = { list: [], watch: [] };
  const server = createServer((request, response) => {
    const url = new URL(request.url ?? "/", "http://server");
    const watch = url.searchParams.get("watch") === "true";
    asked.push({ url, watch });
    const script = watch ? scripts.watch : scripts.list;
    const answer = script.length > 1 ? script.shift() : script[0];
    if (answer === undefined) response.writeHead(501).end();
    else answer(response, request);
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  const address = server.address();
  if (address === null || typeof address === "string") throw new Error("no port");
  return {
    config: configFor(`http://127.0.0.1:${address.port}`),
    asked,
    onList: (...answers) => (scripts.list = answers),
    onWatch: (...answers) => (scripts.watch = answers),
    [Symbol.asyncDispose]: async () => {
      server.close();
      server.closeAllConnections();
      await once(server, "close");
    },
  };
}

function configFor(server: string): KubeConfig {
  const config = new KubeConfig();
  config.loadFromClusterAndUser({ name: "scripted", server, skipTLSVerify: true }, { name: "tester", token: "secret" });
  return config;
}

export type Thing = {
  readonly kind?: string;
  readonly metadata: {
    readonly name: string;
    readonly namespace: string;
    readonly uid: string;
    readonly resourceVersion: string;
  };
};

export function makeThing(name: string, resourceVersion: number, uid = `uid-${name}`): Thing {
  return { metadata: { name, namespace: "ns", uid, resourceVersion: String(resourceVersion) } };
}

export function buildPage(items: readonly Thing[], resourceVersion: number, token?: string): Answer {
  return (response) => {
    response.writeHead(200, { "content-type": "application/json" });
    response.end(
      JSON.stringify({
        kind: "List",
        metadata: { resourceVersion: String(resourceVersion), continue: token ?? "" },
        items,
      }),
    );
  };
}

export function buildRefusal(code: number, reason: string, headers: Record<string, string> = {}): Answer {
  return (response) => {
    response.writeHead(code, { "content-type": "application/json", ...headers });
    response.end(JSON.stringify({ kind: "Status", status: "Failure", code, reason, message: `scripted ${code}` }));
  };
}

export type Line =
  | { readonly type: string; readonly object: unknown }
  /** A line that is sent unchanged. */
  | string;

export function buildBookmark(resourceVersion: number): Line {
  return { type: "BOOKMARK", object: { kind: "Thing", metadata: { resourceVersion: String(resourceVersion) } } };
}

/** A watch that sends these lines and then ends normally, is cut, or stays open in silence. */
export function watch(lines: readonly Line[], then: "end" | "cut" | "stay"): Answer {
  return (response) => {
    response.writeHead(200, { "content-type": "application/json" });
    response.flushHeaders();
    const text = lines.map((line) => (typeof line === "string" ? line : JSON.stringify(line)) + "\n").join("");
    response.write(text === "" ? "\n" : text, () => {
      if (then === "end") response.end();
      if (then === "cut") response.destroy();
    });
  };
}
