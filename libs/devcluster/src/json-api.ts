import { Agent, type IncomingMessage, request as httpRequest } from "node:http";
import { Agent as HttpsAgent, request as httpsRequest, type RequestOptions } from "node:https";
import type { KubeConfig } from "@kubernetes/client-node";
import { throwFault } from "@muster/faults";

/** Sends one request and resolves with the JSON of the answer. Rejects with ApiError for any status but 2xx. */
export type JsonApi = {
  readonly send: (method: "GET" | "POST" | "PUT" | "DELETE", path: string, body?: unknown) => Promise<unknown>;
  readonly patch: (kind: "merge" | "strategic-merge", path: string, body: unknown) => Promise<unknown>;
  readonly close: () => void;
};

/** Has the shape that `kubeFault` reads. */
export class ApiError extends Error {
  override readonly name = "ApiError";
  readonly code: number;
  readonly body: string;

  constructor(doing: string, code: number, body: string) {
    super(`${doing}: ${code} ${body.slice(0, 300)}`);
    this.code = code;
    this.body = body;
  }
}

const CONNECTIONS_MAX = 16;
const CREDENTIALS_KEPT_MS = 60_000;

/**
 * An API server's JSON without client-node's models: converting each object twice is most of what thousands of small writes cost. `timeoutMs` is the limit of one request, from when it is sent.
 */
export function jsonApi(config: KubeConfig, options: { readonly timeoutMs: number }): JsonApi {
  const cluster = config.getCurrentCluster();
  if (cluster === null) {
    return throwFault({ code: "invalid_request", field: "kubeconfig", reason: "names no current cluster" });
  }
  const base = cluster.server.replace(/\/$/, "");
  const agents = new Map<string, Agent>();
  let credentials: { readonly options: RequestOptions; readonly sinceMs: number } | undefined;

  const connection = async (url: URL): Promise<RequestOptions> => {
    if (credentials === undefined || performance.now() - credentials.sinceMs > CREDENTIALS_KEPT_MS) {
      const fresh: RequestOptions = {};
      await config.applyToHTTPSOptions(fresh);
      credentials = { options: fresh, sinceMs: performance.now() };
    }
    const { agent: _, ...own } = credentials.options;
    const agent = agents.get(url.protocol) ?? makeAgent(url.protocol);
    agents.set(url.protocol, agent);
    return { ...own, agent };
  };

  const call = async (method: string, path: string, contentType: string, body: unknown): Promise<unknown> => {
    const url = new URL(base + path);
    const own = await connection(url);
    const text = body === undefined ? "" : JSON.stringify(body);
    const headers = {
      ...own.headers,
      accept: "application/json",
      ...(text === "" ? {} : { "content-type": contentType, "content-length": Buffer.byteLength(text) }),
    };
    const response = await exchange(url, { ...own, method, headers }, text, options.timeoutMs);
    const answer = await readBody(response);
    const code = response.statusCode ?? 0;
    if (code < 200 || code > 299) throw new ApiError(`${method} ${path}`, code, answer);
    return JSON.parse(answer) as unknown;
  };
  return {
    send: (method, path, body) => call(method, path, "application/json", body),
    patch: (kind, path, body) => call("PATCH", path, `application/${kind}-patch+json`, body),
    close: () => {
      for (const agent of agents.values()) agent.destroy();
    },
  };
}

function makeAgent(protocol: string): Agent {
  const limits = { keepAlive: true, maxSockets: CONNECTIONS_MAX };
  return protocol === "http:" ? new Agent(limits) : new HttpsAgent(limits);
}

function exchange(url: URL, options: RequestOptions, body: string, timeoutMs: number): Promise<IncomingMessage> {
  return new Promise((resolve, reject) => {
    const request = (url.protocol === "http:" ? httpRequest : httpsRequest)(url, options, resolve);
    request.on("socket", (socket) => {
      socket.setNoDelay(true);
      request.setTimeout(timeoutMs, () => request.destroy(new DOMException("no answer in time", "TimeoutError")));
    });
    request.on("error", (error) => {
      // The server gave up the idle connection at the moment in which it was used again.
      const isStale = request.reusedSocket && "code" in error && error.code === "ECONNRESET";
      if (isStale) exchange(url, options, body, timeoutMs).then(resolve, reject);
      else reject(error);
    });
    request.end(body);
  });
}

async function readBody(response: IncomingMessage): Promise<string> {
  response.setEncoding("utf8");
  const parts: string[] = [];
  for await (const part of response as AsyncIterable<string>) parts.push(part);
  return parts.join("");
}
