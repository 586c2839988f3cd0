import { takeTurns } from "@muster/backoff";
import { faultOf, throwFault } from "@muster/faults";

export type ControllerAddress = {
  /** Everything is below it. */
  readonly url: string;
  readonly token: string | undefined;
  /** Of one call. */
  readonly timeoutMs: number;
  /** Of the body of one answer, unpacked. */
  readonly bytesMax: number;
};

export type ControllerRequest = {
  readonly method: "GET" | "PUT";
  /** Below the address, without a slash before it. */
  readonly path: string;
  readonly body?: unknown;
};

export type ControllerAnswer = {
  readonly status: number;
  readonly headers: Headers;
  /** Undefined: larger than it may be, and not read to its end. */
  readonly text: string | undefined;
};

/** A server that has orders, and is told what they come to. */
export type Controller = {
  /**
   * Resolves with whatever it answers but those that say that it could not look at the request (401, 403, 408, 429 and 5xx): these, and no answer, reject with unavailable or
   * deadline_exceeded. After 429 and 503 it is left alone for as long as it asks for, by all calls, and for a moment after it has not answered in time: whatever waits for
   * its turn would only wait as long for nothing.
   */
  call(request: ControllerRequest, signal: AbortSignal): Promise<ControllerAnswer>;
};

const CALLS_AT_ONCE = 32;
const RETRY_AFTER_MS = 1000;
/** A controller cannot ask to be left alone for longer. */
const RETRY_AFTER_MAX_MS = 3_600_000;
const NOT_LOOKED_AT: readonly number[] = [401, 403, 408, 429];
const ASKS_FOR_PEACE: readonly number[] = [429, 503];

export function openController(address: ControllerAddress, nowMs: () => number): Controller {
  const turns = takeTurns(CALLS_AT_ONCE);
  let quiet = { untilMs: 0, because: "" };
  const leaveAlone = (ms: number, because: string): void => {
    const untilMs = nowMs() + ms;
    if (untilMs > quiet.untilMs) quiet = { untilMs, because };
  };
  const call: Controller["call"] = async (request, signal) => {
    const quietMs = quiet.untilMs - nowMs();
    if (quietMs > 0) return away(quiet.because, quietMs);
    const answer = await send(address, request, signal).catch((error: unknown) => {
      if (faultOf(error)?.code === "deadline_exceeded") leaveAlone(RETRY_AFTER_MS, "has not answered in time");
      throw error;
    });
    const { status, headers } = answer;
    if (!NOT_LOOKED_AT.includes(status) && status < 500) return answer;
    const retryAfterMs = readRetryAfter(headers.get("retry-after"), nowMs()) ?? RETRY_AFTER_MS;
    if (ASKS_FOR_PEACE.includes(status)) leaveAlone(retryAfterMs, "asks to be left alone");
    return away(`answers ${status}`, retryAfterMs);
  };
  return { call: (request, signal) => turns(() => call(request, signal)) };
}

async function send(
  { url, token, timeoutMs, bytesMax }: ControllerAddress,
  { method, path, body }: ControllerRequest,
  signal: AbortSignal,
): Promise<ControllerAnswer> {
  const late = AbortSignal.timeout(timeoutMs);
  try {
    const response = await fetch(`${url.replace(/\/$/, "")}/${path}`, {
      method,
      headers: {
        accept: "application/json",
        ...(body === undefined ? {} : { "content-type": "application/json" }),
        ...(token === undefined ? {} : { authorization: `Bearer ${token}` }),
      },
      ...(body === undefined ? {} : { body: JSON.stringify(body) }),
      redirect: "error",
      signal: AbortSignal.any([signal, late]),
    });
    return { status: response.status, headers: response.headers, text: await readText(response.body, bytesMax) };
  } catch (error) {
    signal.throwIfAborted();
    if (faultOf(error) !== undefined) throw error;
    if (late.aborted) throwFault({ code: "deadline_exceeded", operation: `${method} ${path}`, timeoutMs });
    return away("cannot be reached", RETRY_AFTER_MS, error);
  }
}

async function readText(body: ReadableStream<Uint8Array> | null, bytesMax: number): Promise<string | undefined> {
  if (body === null) return "";
  const chunks: Uint8Array[] = [];
  let size = 0;
  // Leaving the loop ends the connection.
  for await (const chunk of body) {
    size += chunk.length;
    if (size > bytesMax) return undefined;
    chunks.push(chunk);
  }
  return Buffer.concat(chunks).toString("utf8");
}

/** Seconds, or a date, as HTTP has it; undefined: there is none. */
function readRetryAfter(header: string | null, nowMs: number): number | undefined {
  if (header === null) return undefined;
  const ms = /^\d+$/.test(header.trim()) ? Number(header) * 1000 : Date.parse(header) - nowMs;
  return Number.isNaN(ms) ? undefined : Math.min(Math.max(ms, 0), RETRY_AFTER_MAX_MS);
}

function away(what: string, retryAfterMs: number, cause?: unknown): never {
  return throwFault({ code: "unavailable", dependency: `the controller, which ${what},`, retryAfterMs }, { cause });
}
