import { once } from "node:events";
import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import { describeFault, FaultError } from "@muster/faults";
import { isAuthorized } from "../apiserver/authenticate.ts";
import { parseJson, readBody } from "../apiserver/body.ts";
import { FailureError } from "../apiserver/status.ts";
import { type ControlAddress, sendCommand } from "../send-command.ts";
import type { FaultMatch } from "./decide-fault.ts";
import {
  type FaultCommand,
  type FaultCounters,
  type FaultRuleRequest,
  parseFaultCommand,
  parseFaultCounters,
} from "./fault-commands.ts";

/** What a test asks of a faulty API. Each resolves once it is in force, with the counters after it. */
export type FaultControls = {
  inject(...rules: readonly FaultRuleRequest[]): Promise<FaultCounters>;
  /** Without ids: all rules, with what they have counted. */
  remove(...ids: readonly string[]): Promise<FaultCounters>;
  dropWatches(match?: FaultMatch): Promise<FaultCounters>;
  silenceWatches(match?: FaultMatch): Promise<FaultCounters>;
  expireWatches(match?: FaultMatch): Promise<FaultCounters>;
  /** Breaks all connections and refuses new ones for so long. */
  goAway(ms: number): Promise<FaultCounters>;
  comeBack(): Promise<FaultCounters>;
  counters(): Promise<FaultCounters>;
};

type Perform = (command: FaultCommand) => Promise<FaultCounters>;

/** The controls of a faulty API in another process. */
export function remoteFaultControls(address: ControlAddress): FaultControls {
  return faultControls(async (command) => parseFaultCounters(await sendCommand(address, command)));
}

export function faultControls(perform: Perform): FaultControls {
  return {
    inject: (...rules) => perform({ do: "inject", rules }),
    remove: (...ids) => perform(ids.length === 0 ? { do: "remove" } : { do: "remove", ids }),
    dropWatches: (match = {}) => perform({ do: "drop-watches", match }),
    silenceWatches: (match = {}) => perform({ do: "silence-watches", match }),
    expireWatches: (match = {}) => perform({ do: "expire-watches", match }),
    goAway: (ms) => perform({ do: "go-away", ms }),
    comeBack: () => perform({ do: "come-back" }),
    counters: () => perform({ do: "count" }),
  };
}

/** Takes commands as JSON with POST, on a free port of loopback, from clients with the token. */
export async function serveFaultControls(token: string, perform: Perform): Promise<AsyncDisposable & ControlAddress> {
  const server = createServer((request, response) => {
    serve(request, response, token, perform).catch(() => response.destroy());
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  const address = server.address();
  const port = typeof address === "object" && address !== null ? address.port : 0;
  return {
    url: `http://127.0.0.1:${port}/`,
    token,
    [Symbol.asyncDispose]: async () => {
      const closed = once(server, "close");
      server.close();
      server.closeAllConnections();
      await closed;
    },
  };
}

async function serve(
  request: IncomingMessage,
  response: ServerResponse,
  token: string,
  perform: Perform,
): Promise<void> {
  if (!isAuthorized(request.headers.authorization, token)) {
    request.resume();
    reply(response, 401, { error: "the token of the faulty API is needed" });
    return;
  }
  try {
    reply(response, 200, await perform(parseFaultCommand(parseJson(await readBody(request), "command"))));
  } catch (error) {
    if (error instanceof FaultError) reply(response, 400, { error: describeFault(error.fault) });
    else if (error instanceof FailureError) reply(response, error.failure.code, { error: error.failure.message });
    else throw error;
  }
}

function reply(response: ServerResponse, code: number, body: object): void {
  const text = JSON.stringify(body);
  response.writeHead(code, { "content-type": "application/json", "content-length": Buffer.byteLength(text) });
  response.end(text);
}
