import type { CallOptions, Client } from "@muster/bus";
import type { MessageOf, MethodDescriptor, ServiceDescriptor } from "@muster/proto";
import { pause } from "@muster/backoff";
import { findFault } from "@muster/faults";
import { CommandError } from "../command-error.ts";
import { needsNats } from "../domain/decide-gateway.ts";
import { EXIT } from "../domain/decide-exit.ts";
import { isAborted } from "../is-aborted.ts";
import type { ServiceCalls } from "../kinds/kind.ts";
import type { GatewayHttp } from "./gateway-http.ts";
import { buildGatewayRequest, readGatewayReply, type GatewayRequest } from "./gateway-request.ts";

const DEFAULT_TIMEOUT_MS = 5000;
/** Limits the pages of a list that its service returns in one reply. */
const MAX_PAGES = 200;
/** Pause before the client reopens a stream that ended. */
const RECONNECT_MS = 2000;

type Call = (request: object, options?: CallOptions) => Promise<MessageOf<MethodDescriptor["reply"]>>;

/** Calls the services through the gateway. `namespace` is that of jobs, for requests that name none. */
export function makeGatewayCalls(http: GatewayHttp, namespace: string): ServiceCalls {
  return {
    client: <Service extends ServiceDescriptor>(service: Service): Client<Service> => {
      const calls = Object.keys(service.methods).map((call): [string, Call] => [
        call,
        (request, options = {}) => {
          const built = buildGatewayRequest(service, call, request, namespace);
          if (built === undefined) throw unserved(service, call);
          return askGateway(http, built, options);
        },
      ]);
      // The entries have the keys of the descriptor, which Object.fromEntries cannot express.
      return Object.fromEntries(calls) as Client<Service>;
    },
    onSessionEvent: (listener, name) => Promise.resolve(watchSessions(http, listener, name)),
  };
}

function unserved({ area, methods }: ServiceDescriptor, call: string): CommandError {
  const { message, hint } = needsNats(`the call ${methods[call]?.verb ?? call} of ${area}`);
  return new CommandError(EXIT.usage, message, { hint });
}

async function askGateway(
  http: GatewayHttp,
  { route, path, query, body, idempotencyKey }: GatewayRequest,
  { timeoutMs = DEFAULT_TIMEOUT_MS, signal }: CallOptions,
): Promise<MessageOf<MethodDescriptor["reply"]>> {
  const pages: unknown[] = [];
  const isWhole = route.answer.kind === "list" && !("continue" in route.method.request.create());
  for (let page = ""; pages.length < MAX_PAGES;) {
    if (page !== "") query.set("continue", page);
    const search = query.size === 0 ? "" : `?${query.toString()}`;
    const sent = { method: route.http, path: `${path}${search}`, idempotencyKey, ...(body !== undefined && { body }) };
    const answer = await http.ask(sent, { timeoutMs, signal });
    pages.push(answer);
    page = isWhole ? continueOf(answer) : "";
    if (page === "") break;
  }
  return readGatewayReply(route, pages);
}

function continueOf(answer: unknown): string {
  const { continue: page } = answer as { readonly continue?: unknown };
  return typeof page === "string" ? page : "";
}

/**
 * Calls back with the name of each session that changes. With `expected` it also calls back with that name when the list begins, because the session may have
 * changed before. A failure only delays the callback: later calls report the failure.
 */
function watchSessions(http: GatewayHttp, listener: (name: string) => void, expected?: string): AsyncDisposable {
  const over = new AbortController();
  const watch = async (): Promise<void> => {
    while (!isAborted(over.signal)) {
      try {
        for await (const name of readChanges(http, expected, over.signal)) listener(name);
      } catch (error) {
        if (error instanceof CommandError) return;
        if (!isAborted(over.signal) && findFault(error) === undefined) throw error;
      }
      await pause(RECONNECT_MS, over.signal);
    }
  };
  const watching = watch();
  return {
    [Symbol.asyncDispose]: async () => {
      over.abort();
      await watching;
    },
  };
}

async function* readChanges(
  http: GatewayHttp,
  expected: string | undefined,
  signal: AbortSignal,
): AsyncIterable<string> {
  let event = "";
  let isCurrent = false;
  for await (const line of http.lines("/v1/sessions?watch=true", signal)) {
    if (line.startsWith("event: ")) event = line.slice("event: ".length);
    if (event === "synced" || event === "reset") isCurrent = event === "synced";
    if (!line.startsWith("data: ") || (event !== "added" && event !== "modified")) continue;
    const { name } = JSON.parse(line.slice("data: ".length)) as { readonly name?: unknown };
    if (typeof name === "string" && (isCurrent || name === expected)) yield name;
  }
}
