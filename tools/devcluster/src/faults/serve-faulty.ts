import type { IncomingMessage, OutgoingHttpHeaders, ServerResponse } from "node:http";
import { request as httpsRequest } from "node:https";
import { answerFailure, type HttpExchange } from "../apiserver/answer.ts";
import { unauthorized } from "../apiserver/status.ts";
import { buildFaultAnswer } from "./build-fault-answer.ts";
import type { FaultVerdict } from "./decide-fault.ts";
import type { OpenWatches } from "./open-watches.ts";
import { CONNECTION_HEADERS, passAnswer } from "./pass-answer.ts";
import type { RequestFacts } from "./request-facts.ts";
import type { Upstream } from "./upstream.ts";

export type FaultyDeps = {
  readonly upstream: Upstream;
  readonly watches: OpenWatches;
  readonly onUpstreamError: () => void;
};

/** The facts of a request; undefined for an unknown token. */
export type JudgedRequest = { readonly facts: RequestFacts | undefined; readonly verdict: FaultVerdict | undefined };

/** Injects the decided fault into one request. */
export function serveFaulty(
  deps: FaultyDeps,
  request: IncomingMessage,
  response: ServerResponse,
  { facts, verdict }: JudgedRequest,
): void {
  response.on("error", () => request.destroy());
  request.on("error", () => response.destroy());
  if (facts === undefined || verdict === undefined) {
    request.resume();
    answerFailure(makeExchange(request, response), unauthorized());
    return;
  }
  if (verdict.delayMs === 0) {
    act(deps, request, response, { facts, fault: verdict.fault });
    return;
  }
  const later = setTimeout(() => act(deps, request, response, { facts, fault: verdict.fault }), verdict.delayMs);
  response.once("close", () => clearTimeout(later));
}

type Decided = { readonly facts: RequestFacts; readonly fault: FaultVerdict["fault"] };

function act(deps: FaultyDeps, request: IncomingMessage, response: ServerResponse, { facts, fault }: Decided): void {
  switch (fault?.do) {
    case undefined:
      pass(deps, request, response, (incoming) => {
        const passed = passAnswer(incoming, response);
        if (facts.verb === "watch") response.once("close", deps.watches.add({ request: facts, ...passed }));
      });
      return;
    case "lose-answer":
      // The answer arrives only after the API server has executed the request.
      pass(deps, request, response, () => response.destroy());
      return;
    case "drop":
      response.destroy();
      return;
    case "answer":
      request.resume();
      answerFailure(makeExchange(request, response), buildFaultAnswer(fault, facts));
  }
}

/** Forwards the request. When the client disconnects, the request ends; when the API server does, the client's connection breaks. */
function pass(
  { upstream, onUpstreamError }: FaultyDeps,
  request: IncomingMessage,
  response: ServerResponse,
  onAnswer: (incoming: IncomingMessage) => void,
): void {
  const options = upstream.options(request.url ?? "/");
  const headers: OutgoingHttpHeaders = {};
  for (const [name, value] of Object.entries(request.headers)) {
    if (name !== "host" && name !== "authorization" && !CONNECTION_HEADERS.includes(name)) headers[name] = value;
  }
  // A body of unknown length needs chunks, which Node adds by itself only for some methods.
  if (request.headers["transfer-encoding"] !== undefined) headers["transfer-encoding"] = "chunked";
  const forwarded = httpsRequest({
    ...options,
    method: request.method ?? "GET",
    headers: { ...headers, ...options.headers },
  });
  response.once("close", () => forwarded.destroy());
  forwarded.once("response", onAnswer);
  forwarded.on("error", () => {
    if (response.destroyed || response.writableEnded) return;
    onUpstreamError();
    response.destroy();
  });
  request.pipe(forwarded);
}

function makeExchange(request: IncomingMessage, response: ServerResponse): HttpExchange {
  const { pathname, searchParams } = new URL(`https://127.0.0.1${request.url ?? "/"}`);
  return { request, response, path: pathname, query: searchParams };
}
