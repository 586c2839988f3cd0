import http, { type IncomingMessage } from "node:http";
import https from "node:https";
import { computeBackoffMs, pause } from "@muster/backoff";
import { FaultError, WIRE_CODE, type Fault } from "@muster/faults";
import { CommandError } from "../command-error.ts";
import { describeGateway, buildPlainServerHint, type Gateway } from "../domain/decide-gateway.ts";
import { EXIT } from "../domain/decide-exit.ts";
import type { TokenSource } from "./gateway-token.ts";

export type HttpRequest = {
  readonly method: "GET" | "POST" | "PUT" | "DELETE";
  /** The path includes the query. */
  readonly path: string;
  readonly body?: unknown;
  readonly idempotencyKey?: string | undefined;
};

export type CallLimits = { readonly timeoutMs: number; readonly signal: AbortSignal | undefined };

export type GatewayHttp = AsyncDisposable & {
  /**
   * Returns the answer as JSON, and retries until the timeout while the gateway or a service is unavailable. Rejects with FaultError, and with CommandError if
   * the user must sign in, request a right or trust a certificate.
   */
  ask(sent: HttpRequest, limits: CallLimits): Promise<unknown>;
  /** Yields the lines of a streamed answer. Rejects as `ask` does. */
  lines(path: string, signal: AbortSignal): AsyncIterable<string>;
  /** Rejects with CommandError if no gateway answers at the address. */
  check(timeoutMs: number, signal: AbortSignal): Promise<void>;
};

type Answer = IncomingMessage;

const RETRY = { firstMs: 100, maxMs: 2000 };
/** Minimum remaining time for a retry. */
const LAST_ATTEMPT_MS = 50;
/** Maximum interval at which the gateway sends data on a stream. */
const STREAM_SILENCE_MS = 120_000;
const MAX_ANSWER_CHARACTERS = 256 * 1024 * 1024;

/** Opens no connection before the first request. */
export function openGatewayHttp(
  gateway: Gateway,
  certificateAuthority: string | undefined,
  tokens: TokenSource,
): GatewayHttp {
  const isSecure = gateway.server.startsWith("https:");
  const agent = isSecure
    ? new https.Agent({ keepAlive: true, ...(certificateAuthority !== undefined && { ca: certificateAuthority }) })
    : new http.Agent({ keepAlive: true });
  const request = isSecure ? https.request : http.request;
  const send = (sent: HttpRequest, token: string | undefined, signal: AbortSignal): Promise<Answer> =>
    new Promise((resolve, reject) => {
      const { method, path, body } = sent;
      const options = { agent, method, headers: headersOf(sent, token), signal };
      const asked = request(`${gateway.server}${path}`, options, resolve);
      asked.on("error", (cause) => {
        reject(failureOf(gateway, cause));
      });
      asked.end(body === undefined ? undefined : JSON.stringify(body));
    });
  /** The client renews a token once after the gateway refused it. */
  const sendSigned = async (sent: HttpRequest, signal: AbortSignal): Promise<Answer> => {
    const answer = await send(sent, await tokens.token(), signal);
    if (answer.statusCode !== 401) return answer;
    const renewed = await tokens.renew();
    if (renewed === undefined) return answer;
    answer.resume();
    return send(sent, renewed, signal);
  };
  return {
    ask: (sent, limits) =>
      untilAnswered(gateway, sent, limits, async (signal) => {
        const answer = await sendSigned(sent, signal);
        const text = await textOf(gateway, answer);
        if (statusOf(answer) >= 300) throw refusalOf(gateway, answer, text);
        return parse(gateway, text);
      }),
    lines: async function* (path, signal) {
      const answer = await sendSigned({ method: "GET", path }, signal);
      answer.setTimeout(STREAM_SILENCE_MS, () => answer.destroy());
      if (statusOf(answer) >= 300) throw refusalOf(gateway, answer, await textOf(gateway, answer));
      let rest = "";
      try {
        for await (const part of answer.setEncoding("utf8")) {
          const parts = (rest + String(part)).split("\n");
          rest = parts.pop() ?? "";
          yield* parts;
        }
      } catch (cause) {
        throw failureOf(gateway, cause);
      }
    },
    check: async (timeoutMs, signal) => {
      const late = AbortSignal.timeout(timeoutMs);
      try {
        const answer = await send({ method: "GET", path: "/healthz" }, undefined, AbortSignal.any([signal, late]));
        const text = await textOf(gateway, answer);
        if (answer.statusCode !== 200 || !text.includes('"status"'))
          throw buildNotGatewayError(gateway, statusOf(answer));
      } catch (error) {
        throw unreachable(gateway, error, { signal, late, timeoutMs });
      }
    },
    [Symbol.asyncDispose]: () => {
      agent.destroy();
      return Promise.resolve();
    },
  };
}

function statusOf({ statusCode = 0 }: Answer): number {
  return statusCode;
}

function headersOf({ body, idempotencyKey }: HttpRequest, token: string | undefined): Record<string, string> {
  return {
    accept: "application/json, text/event-stream",
    "user-agent": "muster",
    ...(token !== undefined && { authorization: `Bearer ${token}` }),
    ...(body !== undefined && { "content-type": "application/json" }),
    ...(idempotencyKey !== undefined && { "idempotency-key": idempotencyKey }),
  };
}

/** Every request can be repeated, because it only reads or carries an idempotency key. */
async function untilAnswered<Value>(
  gateway: Gateway,
  { method, path }: HttpRequest,
  { timeoutMs, signal }: CallLimits,
  ask: (signal: AbortSignal) => Promise<Value>,
): Promise<Value> {
  const operation = `${method} ${gateway.server}${path.split("?")[0] ?? ""}`;
  const late = AbortSignal.timeout(timeoutMs);
  const either = signal === undefined ? late : AbortSignal.any([signal, late]);
  const endMs = performance.now() + timeoutMs;
  let before: FaultError | undefined;
  for (let attempt = 1; ; attempt += 1) {
    try {
      return await ask(either);
    } catch (error) {
      if (signal?.aborted === true) throw new FaultError({ code: "cancelled", operation }, { cause: error });
      if (late.aborted)
        throw before ?? new FaultError({ code: "deadline_exceeded", operation, timeoutMs }, { cause: error });
      const waitMs = retryAfterOf(error, attempt);
      if (waitMs === undefined || performance.now() + waitMs + LAST_ATTEMPT_MS > endMs) throw error;
      before = error as FaultError;
      await pause(waitMs, either);
    }
  }
}

/** Returns the retry delay; undefined if a retry would not help. */
function retryAfterOf(error: unknown, attempt: number): number | undefined {
  if (!(error instanceof FaultError)) return undefined;
  const { fault } = error;
  if (fault.code === "unavailable") return computeBackoffMs(attempt, RETRY);
  return fault.code === "limit_exceeded" && fault.retryAfterMs > 0 ? fault.retryAfterMs : undefined;
}

async function textOf(gateway: Gateway, answer: Answer): Promise<string> {
  let text = "";
  try {
    for await (const part of answer.setEncoding("utf8")) {
      text += String(part);
      if (text.length > MAX_ANSWER_CHARACTERS) throw buildNotGatewayError(gateway, undefined);
    }
    return text;
  } catch (cause) {
    throw cause instanceof CommandError ? cause : failureOf(gateway, cause);
  }
}

function parse(gateway: Gateway, text: string): unknown {
  try {
    return JSON.parse(text) as unknown;
  } catch {
    throw buildNotGatewayError(gateway, undefined);
  }
}

function buildNotGatewayError(gateway: Gateway, status: number | undefined): CommandError {
  const what = status === undefined ? "its answer is not of a gateway of Muster" : `it answered with status ${status}`;
  return new CommandError(EXIT.unreachable, `cannot use ${describeGateway(gateway)}: ${what}`, {
    hint: "name the address of the gateway, without a path: https://muster.example.com",
  });
}

type ProblemDocument = {
  readonly code?: unknown;
  readonly detail?: unknown;
  readonly fault?: { readonly code?: unknown };
  readonly retryAfterMs?: unknown;
};

/** Returns the fault of the service, as over NATS; a refusal by the gateway itself becomes an error with the next step. */
function refusalOf(gateway: Gateway, answer: Answer, text: string): Error {
  const statusCode = statusOf(answer);
  const problem = problemIn(text);
  if (problem === undefined)
    return statusCode >= 500
      ? new FaultError(buildUnreachableFault(gateway, 0))
      : buildNotGatewayError(gateway, statusCode);
  const { fault, detail, code, retryAfterMs } = problem;
  if (typeof fault?.code === "string" && fault.code in WIRE_CODE) return new FaultError(fault as Fault);
  if (typeof retryAfterMs === "number") return new FaultError(buildUnreachableFault(gateway, retryAfterMs));
  const reason = typeof detail === "string" ? detail : `status ${statusCode}`;
  if (code === "UNAUTHENTICATED")
    return new CommandError(EXIT.refused, `${describeGateway(gateway)} refuses the token: ${reason}`, {
      hint: "sign in with `muster login`, or use another token with --token-file or MUSTER_TOKEN",
    });
  if (code === "FORBIDDEN")
    return new CommandError(EXIT.refused, reason, { hint: "an administrator of the cluster grants rights with RBAC" });
  return new CommandError(EXIT.refused, reason);
}

function problemIn(text: string): ProblemDocument | undefined {
  try {
    const value: unknown = JSON.parse(text);
    return typeof value === "object" && value !== null && "code" in value ? value : undefined;
  } catch {
    return undefined;
  }
}

function buildUnreachableFault(gateway: Gateway, retryAfterMs: number): Fault {
  return { code: "unavailable", dependency: `the gateway ${gateway.server}`, retryAfterMs };
}

/** Reasons why a certificate is refused, which no retry changes. */
const CERTIFICATE = /CERT|SELF_SIGNED|UNABLE_TO_|ERR_TLS|ERR_SSL|EPROTO/;

function failureOf(gateway: Gateway, cause: unknown): Error {
  if (cause instanceof CommandError) return cause;
  const code = cause instanceof Error && "code" in cause && typeof cause.code === "string" ? cause.code : "";
  if (!CERTIFICATE.test(code)) return new FaultError(buildUnreachableFault(gateway, 0), { cause });
  const isPlain = /WRONG_VERSION|EPROTO/.test(code);
  const what = isPlain ? "it does not serve TLS" : `its certificate is refused: ${messageOf(cause)}`;
  return new CommandError(EXIT.unreachable, `cannot connect to ${describeGateway(gateway)}: ${what}`, {
    hint: isPlain
      ? buildPlainServerHint(gateway.server)
      : "name the CA certificates that verify it with --certificate-authority FILE or MUSTER_SERVER_CA_FILE",
    cause,
  });
}

function unreachable(
  gateway: Gateway,
  error: unknown,
  { signal, late, timeoutMs }: { readonly signal: AbortSignal; readonly late: AbortSignal; readonly timeoutMs: number },
): unknown {
  if (signal.aborted) return new CommandError(EXIT.interrupted, "interrupted");
  if (!(error instanceof FaultError)) return error;
  const why = late.aborted ? `no answer within ${timeoutMs / 1000} s` : messageOf(error.cause);
  return new CommandError(EXIT.unreachable, `cannot connect to ${describeGateway(gateway)}: ${why}`, {
    hint: gateway.hint,
    cause: error,
  });
}

function messageOf(cause: unknown): string {
  if (cause instanceof AggregateError && cause.errors.length > 0) return messageOf(cause.errors[0]);
  return cause instanceof Error && cause.message !== "" ? cause.message : String(cause);
}
