import { takeTurns } from "@muster/backoff";
import { findFault, throwFault } from "@muster/faults";
import type { ControllerAddress } from "../config.ts";
import type { PollAnswer, PollSourceDeps } from "../orders/poll-source.ts";
import { readOrdersPage } from "./controller-messages.ts";

type ControllerRequest = {
  readonly method: "GET" | "PUT";
  /** Relative to the address, without a leading slash. */
  readonly path: string;
  readonly body?: unknown;
};

export type ControllerAnswer = {
  readonly status: number;
  readonly headers: Headers;
  /** Undefined: the text is larger than the maximum, and was not read completely. */
  readonly text: string | undefined;
};

/** An HTTP server that lists orders and receives their results. */
export type Controller = {
  /**
   * Resolves with any answer except 401, 403, 408, 429 and 5xx. Those answers, and missing answers, reject with unavailable or deadline_exceeded. After 429 and
   * 503 all calls pause for the time that the controller requests. After a timeout they pause briefly, because queued calls would probably time out, too.
   */
  call(request: ControllerRequest, signal: AbortSignal): Promise<ControllerAnswer>;
};

const MAX_CONCURRENT_CALLS = 32;
const RETRY_AFTER_MS = 1000;
/** Maximum pause of calls that a controller can request. */
const MAX_RETRY_AFTER_MS = 3_600_000;
const UNPROCESSED: readonly number[] = [401, 403, 408, 429];
const BACK_OFF: readonly number[] = [429, 503];

export function openController(address: ControllerAddress, nowMs: () => number): Controller {
  const turns = takeTurns(MAX_CONCURRENT_CALLS);
  let backingOff = { untilMs: 0, because: "" };
  const backOff = (ms: number, because: string): void => {
    const untilMs = nowMs() + ms;
    if (untilMs > backingOff.untilMs) backingOff = { untilMs, because };
  };
  const call: Controller["call"] = async (request, signal) => {
    const backOffMs = backingOff.untilMs - nowMs();
    if (backOffMs > 0) return unavailable(backingOff.because, backOffMs);
    const answer = await send(address, request, signal).catch((error: unknown) => {
      if (findFault(error)?.code === "deadline_exceeded") backOff(RETRY_AFTER_MS, "has not answered in time");
      throw error;
    });
    const { status, headers } = answer;
    if (!UNPROCESSED.includes(status) && status < 500) return answer;
    const retryAfterMs = readRetryAfter(headers.get("retry-after"), nowMs()) ?? RETRY_AFTER_MS;
    if (BACK_OFF.includes(status)) backOff(retryAfterMs, "asks clients to back off");
    return unavailable(`answers ${status}`, retryAfterMs);
  };
  return { call: (request, signal) => turns(() => call(request, signal)) };
}

async function send(
  { url, token, timeoutMs, maxBytes }: ControllerAddress,
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
    return { status: response.status, headers: response.headers, text: await readText(response.body, maxBytes) };
  } catch (error) {
    signal.throwIfAborted();
    if (findFault(error) !== undefined) throw error;
    if (late.aborted) throwFault({ code: "deadline_exceeded", operation: `${method} ${path}`, timeoutMs });
    return unavailable("cannot be reached", RETRY_AFTER_MS, error);
  }
}

async function readText(body: ReadableStream<Uint8Array> | null, maxBytes: number): Promise<string | undefined> {
  if (body === null) return "";
  const chunks: Uint8Array[] = [];
  let size = 0;
  // Leaving the loop closes the connection.
  for await (const chunk of body) {
    size += chunk.length;
    if (size > maxBytes) return undefined;
    chunks.push(chunk);
  }
  return Buffer.concat(chunks).toString("utf8");
}

/** Parses Retry-After, which is seconds or an HTTP date; undefined if it is missing or invalid. */
function readRetryAfter(header: string | null, nowMs: number): number | undefined {
  if (header === null) return undefined;
  const ms = /^\d+$/.test(header.trim()) ? Number(header) * 1000 : Date.parse(header) - nowMs;
  return Number.isNaN(ms) ? undefined : Math.min(Math.max(ms, 0), MAX_RETRY_AFTER_MS);
}

function unavailable(what: string, retryAfterMs: number, cause?: unknown): never {
  return throwFault({ code: "unavailable", dependency: `the controller, which ${what},`, retryAfterMs }, { cause });
}

type HttpPollOptions = {
  readonly controller: Controller;
  readonly engine: string;
  /** Reports a poll without an answer, or a skipped page. */
  readonly failed: (what: "away" | "refused" | "unreadable", reason: string) => void;
};

const MAX_PAGE = 200;
/** Divisor of the page size after an unreadable page. */
const SHRINK_FACTOR = 8;

type PageRead =
  | Extract<PollAnswer, { kind: "page" | "failed" }>
  | { readonly kind: "unreadable"; readonly lastId: bigint | undefined; readonly because: string };

/** Polls a controller for orders over HTTP. After an unreadable page it requests ever smaller pages, so that it skips only the one unreadable order. */
export function makeHttpPoll({ controller, engine, failed }: HttpPollOptions): PollSourceDeps["poll"] {
  const read = async (from: bigint, limit: number, signal: AbortSignal): Promise<PageRead> => {
    const path = `engines/${engine}/orders?from=${String(from)}&limit=${limit}`;
    const { status, headers, text } = await controller.call({ method: "GET", path }, signal);
    if (status < 200 || status > 299) {
      failed("refused", `it answers ${status}`);
      return { kind: "failed" };
    }
    const lastId = readId(headers.get("x-last-id"));
    const page = text === undefined ? undefined : readOrdersPage(text);
    if (page !== undefined && lastId !== undefined) return { kind: "page", lastId, ...page };
    const because =
      text === undefined
        ? "it is too large"
        : page === undefined
          ? "it is not a page of orders"
          : "it has no x-last-id";
    return { kind: "unreadable", lastId, because };
  };
  const ask = async (from: bigint, limit: number, signal: AbortSignal): Promise<PollAnswer> => {
    const answer = await read(from, limit, signal);
    if (answer.kind !== "unreadable") return answer;
    if (limit > 1) return ask(from, Math.ceil(limit / SHRINK_FACTOR), signal);
    const { lastId, because } = answer;
    // The page has at most one order. Reading it by the number in the header must return the same order.
    const same = lastId !== undefined && lastId > from ? await read(lastId, 1, signal) : answer;
    if (same.kind === "failed") return same;
    const isCertain = same.kind === "unreadable" && same.lastId === lastId;
    const doubt = isCertain ? "" : `; x-last-id ${String(lastId)} is not that of this order, so no order is skipped`;
    failed("unreadable", `${because}, from ${String(from)}, with at most ${limit}${doubt}`);
    return { kind: "unreadable", lastId: isCertain ? lastId : undefined };
  };
  return async (from, signal) => {
    try {
      return await ask(from, MAX_PAGE, signal);
    } catch (error) {
      if (signal.aborted) return { kind: "failed" };
      const fault = findFault(error);
      failed("away", error instanceof Error ? error.message : String(error));
      return { kind: "failed", ...(fault?.code === "unavailable" && { retryAfterMs: fault.retryAfterMs }) };
    }
  };
}

function readId(header: string | null): bigint | undefined {
  return header !== null && /^\d{1,20}$/.test(header) ? BigInt(header) : undefined;
}
