import { request as httpRequest, type IncomingMessage } from "node:http";
import { Agent as HttpsAgent, request as httpsRequest, type RequestOptions } from "node:https";
import type { KubeConfig } from "@kubernetes/client-node";
import { throwFault } from "@muster/faults";
import { recordAnswer } from "./credential.ts";
import { KubeError, MalformedAnswerError, type KubeStatus } from "./kube-error.ts";

/** Time limit for the connection and the headers of the answer. A watch also has its headers immediately. */
const HEADER_TIMEOUT_MS = 30_000;
/** TCP keep-alive, with which the kernel detects a lost host. */
const TCP_KEEPALIVE_MS = 30_000;
/** Maximum length of a line. etcd stores objects of up to 1.5 MiB, and an event carries one object. */
const MAX_LINE_LENGTH = 16 * 1024 * 1024;
const MAX_ERROR_BODY_LENGTH = 64 * 1024;

export type Query = Readonly<Record<string, string | number | boolean | undefined>>;

/**
 * Sends one GET with client-node's connection and credentials, and resolves with the answer once its header has status 200. Rejects with KubeError for any
 * other status, with a network error, or with the signal's reason. Uses node:http, because client-node makes a new connection pool for each fetch. `agents`
 * keep connections for further short answers; a watch has a connection of its own.
 */
export async function openGet(
  config: KubeConfig,
  path: string,
  query: Query,
  signal: AbortSignal,
  agents?: SharedAgents,
): Promise<IncomingMessage> {
  const cluster = config.getCurrentCluster();
  if (cluster === null) {
    return throwFault({ code: "invalid_request", field: "kubeconfig", reason: "names no current cluster" });
  }
  const url = new URL(cluster.server.replace(/\/$/, "") + path);
  for (const [name, value] of Object.entries(query)) {
    if (value !== undefined) url.searchParams.set(name, String(value));
  }
  const response = await send(url, { ...(await (agents?.of(config) ?? access(config))), signal });
  recordAnswer(config, response.statusCode ?? 0);
  if (response.statusCode === 401) agents?.forget(config);
  if (response.statusCode !== 200) throw await readError(path, response);
  return response;
}

/** Reads client-node's connection and credentials for one GET. */
async function access(config: KubeConfig): Promise<RequestOptions> {
  const options: RequestOptions = { method: "GET", headers: { accept: "application/json" } };
  await config.applyToHTTPSOptions(options);
  return options;
}

/** Interval at which connections are replaced, in case client certificates are renewed. */
const AGENT_KEPT_MS = 5 * 60_000;
/** Interval at which tokens are read again; after a refusal they are read immediately. */
const TOKEN_KEPT_MS = 10_000;

/** Credentials that are kept for a while, and agents that keep connections open and share them, one per configuration. */
type SharedAgents = {
  of(config: KubeConfig): Promise<RequestOptions>;
  /** Discards a credential that the API server has refused. */
  forget(config: KubeConfig): void;
};

export function getSharedAgents(nowMs: () => number = () => performance.now()): SharedAgents {
  const agents = new WeakMap<KubeConfig, { readonly agent: HttpsAgent; readonly madeAtMs: number }>();
  const kept = new WeakMap<KubeConfig, { readonly options: RequestOptions; readonly readAtMs: number }>();
  const agentOf = (config: KubeConfig, fresh: HttpsAgent): HttpsAgent => {
    const known = agents.get(config);
    if (known !== undefined && nowMs() - known.madeAtMs < AGENT_KEPT_MS) return known.agent;
    const agent = new HttpsAgent({ ...fresh.options, keepAlive: true });
    agents.set(config, { agent, madeAtMs: nowMs() });
    return agent;
  };
  return {
    of: async (config) => {
      const known = kept.get(config);
      if (known !== undefined && nowMs() - known.readAtMs < TOKEN_KEPT_MS) return known.options;
      const readAtMs = nowMs();
      const options = await access(config);
      if (options.agent instanceof HttpsAgent) options.agent = agentOf(config, options.agent);
      kept.set(config, { options, readAtMs });
      return options;
    },
    forget: (config) => void kept.delete(config),
  };
}

function send(url: URL, options: RequestOptions): Promise<IncomingMessage> {
  return new Promise((resolve, reject) => {
    const request = (url.protocol === "http:" ? httpRequest : httpsRequest)(url, options);
    const late = setTimeout(() => {
      request.destroy(new DOMException(`no answer within ${HEADER_TIMEOUT_MS} ms`, "TimeoutError"));
    }, HEADER_TIMEOUT_MS);
    request.on("socket", (socket) => socket.setKeepAlive(true, TCP_KEEPALIVE_MS));
    request.on("error", (error) => {
      clearTimeout(late);
      reject(error);
    });
    request.on("response", (response) => {
      clearTimeout(late);
      resolve(response);
    });
    request.end();
  });
}

async function readError(path: string, response: IncomingMessage): Promise<KubeError> {
  const text = await readText(response, MAX_ERROR_BODY_LENGTH).catch(() => "");
  const headers = Object.entries(response.headers).map(([name, value]) => [name, String(value)] as const);
  return new KubeError(`GET ${path}`, response.statusCode ?? 0, parseStatus(text), Object.fromEntries(headers));
}

/** Parses the Status in the body of a refusal; any other body becomes a message from its beginning. */
export function parseStatus(text: string): KubeStatus {
  try {
    const parsed: unknown = JSON.parse(text);
    if (typeof parsed === "object" && parsed !== null) return parsed;
  } catch {
    // A proxy in front of the API server answers in another format.
  }
  return { message: text.slice(0, 200) };
}

/** The whole body as text; rejects with MalformedAnswerError once it is longer than `limit` characters. */
export async function readText(response: IncomingMessage, limit: number): Promise<string> {
  response.setEncoding("utf8");
  const chunks: string[] = [];
  let length = 0;
  for await (const chunk of response as AsyncIterable<string>) {
    length += chunk.length;
    if (length > limit) throw new MalformedAnswerError(`the answer is longer than ${limit} characters`);
    chunks.push(chunk);
  }
  return chunks.join("");
}

/** The lines of a streamed body as they arrive. Ends when the server ends the body, rejects when the connection breaks. */
export async function* readLines(response: IncomingMessage): AsyncGenerator<string> {
  response.setEncoding("utf8");
  let rest = "";
  for await (const chunk of response as AsyncIterable<string>) {
    const lines = (rest + chunk).split("\n");
    rest = lines.pop() ?? "";
    if (rest.length > MAX_LINE_LENGTH)
      throw new MalformedAnswerError(`a line is longer than ${MAX_LINE_LENGTH} characters`);
    for (const line of lines) {
      if (line !== "") yield line;
    }
  }
  if (rest !== "") yield rest;
}
