import { once } from "node:events";
import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import { setTimeout as sleep } from "node:timers/promises";
import { describeFault, FaultError } from "@muster/faults";
import { parseJson, readBody } from "../apiserver/body.ts";
import { isAuthorized } from "../apiserver/authenticate.ts";
import { FailureError } from "../apiserver/status.ts";
import type { CallFacts, MachineCall } from "./decide-launch.ts";
import type { Fleet, Refusal } from "./fleet.ts";
import { readMachineCommand, readOrder } from "./read-machines.ts";

type Answer = {
  readonly status: number;
  readonly body: object;
  readonly headers?: Readonly<Record<string, string>>;
};

/** Serves a fleet to clients with the token, as in the table of the README: on loopback, or on all addresses if a host name is given. */
export async function serveMachines(
  fleet: Fleet,
  options: { readonly token: string; readonly port: number; readonly host?: string },
): Promise<AsyncDisposable & { readonly url: string }> {
  const stop = new AbortController();
  const server = createServer((request, response) => {
    serve(fleet, request, response, { token: options.token, signal: stop.signal }).catch(() => response.destroy());
  });
  server.listen(options.port, options.host === undefined ? "127.0.0.1" : "0.0.0.0");
  await once(server, "listening");
  const address = server.address();
  const port = typeof address === "object" && address !== null ? address.port : 0;
  return {
    url: `http://${options.host ?? "127.0.0.1"}:${port}`,
    [Symbol.asyncDispose]: async () => {
      stop.abort();
      const closed = once(server, "close");
      server.close();
      server.closeAllConnections();
      await closed;
    },
  };
}

type Caller = { readonly token: string; readonly signal: AbortSignal };

async function serve(
  fleet: Fleet,
  request: IncomingMessage,
  response: ServerResponse,
  { token, signal }: Caller,
): Promise<void> {
  if (!isAuthorized(request.headers.authorization, token)) {
    request.resume();
    reply(response, failure(401, "unauthorized", "the token of the cloud is needed"));
    return;
  }
  try {
    const url = new URL(request.url ?? "/", "http://cloud");
    const text = request.method === "POST" ? await readBody(request) : "";
    const call = readCall(request.method ?? "GET", url, text);
    if (call === undefined) {
      reply(response, failure(404, "not-found", `there is no ${request.method ?? "GET"} ${url.pathname}`));
      return;
    }
    const { delayMs, fault } = call.facts === undefined ? CALM : fleet.answer(call.facts(fleet));
    if (delayMs > 0) await sleep(delayMs, undefined, { signal });
    if (fault?.do === "drop") {
      response.destroy();
      return;
    }
    const answer =
      fault?.do === "answer" ? buildFaultAnswer(fault.code, fault.retryAfterSeconds) : await call.do(fleet);
    if (fault?.do === "lose-answer") response.destroy();
    else reply(response, answer);
  } catch (error) {
    if (error instanceof FaultError) {
      const status = error.fault.code === "not_found" ? 404 : 400;
      reply(response, failure(status, status === 404 ? "not-found" : "invalid", describeFault(error.fault)));
    } else if (error instanceof FailureError) {
      reply(response, failure(error.failure.code, "invalid", error.failure.message));
    } else throw error;
  }
}

const CALM = { delayMs: 0, fault: undefined } as const;

type Call = {
  /** Undefined if no fault applies to the call. */
  readonly facts: ((fleet: Fleet) => CallFacts) | undefined;
  readonly do: (fleet: Fleet) => Promise<Answer> | Answer;
};

/** Reads the call of a request; undefined: no such call exists. Throws invalid_request for an invalid body. */
function readCall(method: string, url: URL, text: string): Call | undefined {
  const [, version, kind, id, ...rest] = url.pathname.split("/");
  if (version !== "v1" || rest.length > 0) return undefined;
  const owner = url.searchParams.get("owner") ?? undefined;
  switch (`${method} ${kind ?? ""}${id === undefined ? "" : "/"}`) {
    case "POST instances": {
      const order = readOrder(parseJson(text, "order"));
      return { facts: () => ({ ...order, call: "create" }), do: async (fleet) => launched(await fleet.launch(order)) };
    }
    case "GET instances":
      return { facts: () => plain("list", owner), do: (fleet) => ok({ instances: fleet.list(owner) }) };
    case "GET instances/":
      return { facts: ofMachine("get", id), do: (fleet) => one(fleet.find(id ?? ""), id, 200) };
    case "DELETE instances/":
      return { facts: ofMachine("delete", id), do: async (fleet) => one(await fleet.end(id ?? ""), id, 202) };
    case "GET images":
      return {
        facts: () => plain("images", undefined),
        do: (fleet) => ok({ images: fleet.images(Object.fromEntries(url.searchParams)) }),
      };
    case "GET types":
      return { facts: () => plain("types", undefined), do: (fleet) => ok({ types: fleet.types() }) };
    case "POST control": {
      const command = readMachineCommand(parseJson(text, "command"));
      return { facts: undefined, do: (fleet) => ok(fleet.command(command)) };
    }
    default:
      return undefined;
  }
}

function launched(result: Awaited<ReturnType<Fleet["launch"]>>): Answer {
  if (result.kind !== "refused") return { status: result.kind === "created" ? 201 : 200, body: result.machine };
  const { code, message, zone } = result;
  return failure(STATUS[code], code, message, zone);
}

const STATUS = { conflict: 409, "no-capacity": 409, unsupported: 422, invalid: 400 } as const satisfies Record<
  Refusal["code"],
  number
>;

function one(machine: ReturnType<Fleet["find"]>, id: string | undefined, status: number): Answer {
  return machine === undefined
    ? failure(404, "not-found", `there is no machine ${id ?? ""}`)
    : { status, body: machine };
}

function plain(call: MachineCall, owner: string | undefined): CallFacts {
  const none = { nodeName: undefined, instanceType: undefined, spot: undefined, zone: undefined };
  return { ...none, call, owner: owner ?? "" };
}

function ofMachine(call: MachineCall, id: string | undefined): (fleet: Fleet) => CallFacts {
  return (fleet) => {
    const machine = fleet.find(id ?? "");
    return machine === undefined ? plain(call, undefined) : { ...machine, call };
  };
}

function buildFaultAnswer(code: number, retryAfterSeconds: number | undefined): Answer {
  const words = code === 429 ? "rate-limited" : code === 400 ? "invalid" : code === 503 ? "unavailable" : "internal";
  const answer = failure(code, words, "a fault that was asked for");
  return retryAfterSeconds === undefined
    ? answer
    : { ...answer, headers: { "retry-after": String(retryAfterSeconds) } };
}

function ok(body: object): Answer {
  return { status: 200, body };
}

function failure(status: number, code: string, message: string, zone?: string): Answer {
  return { status, body: { error: { code, message, ...(zone === undefined ? {} : { zone }) } } };
}

function reply(response: ServerResponse, { status, body, headers }: Answer): void {
  const text = JSON.stringify(body);
  response.writeHead(status, {
    ...headers,
    "content-type": "application/json",
    "content-length": Buffer.byteLength(text),
  });
  response.end(text);
}
