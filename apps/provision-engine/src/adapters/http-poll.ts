import { faultOf } from "@muster/faults";
import type { PollAnswer, PollSourceDeps } from "../orders/poll-source.ts";
import { readOrdersPage } from "./controller-messages.ts";
import type { Controller } from "./controller.ts";

type HttpPollOptions = {
  readonly controller: Controller;
  readonly engine: string;
  /** Called for a poll without an answer, or a page that is skipped. */
  readonly failed: (what: "away" | "refused" | "unreadable", reason: string) => void;
};

const MAX_PAGE = 200;
/** Divisor of the page size after an unreadable page. */
const SHRINK_FACTOR = 8;

type PageRead =
  | Extract<PollAnswer, { kind: "page" | "failed" }>
  | { readonly kind: "unreadable"; readonly lastId: bigint | undefined; readonly because: string };

/**
 * Polls a controller for orders over HTTP. After an unreadable page it requests smaller and smaller pages, so that it skips only the one order that cannot be
 * read.
 */
export function httpPoll({ controller, engine, failed }: HttpPollOptions): PollSourceDeps["poll"] {
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
    const doubt = isCertain ? "" : `; x-last-id ${String(lastId)} is not that of this order, so nothing is passed over`;
    failed("unreadable", `${because}, from ${String(from)}, with at most ${limit}${doubt}`);
    return { kind: "unreadable", lastId: isCertain ? lastId : undefined };
  };
  return async (from, signal) => {
    try {
      return await ask(from, MAX_PAGE, signal);
    } catch (error) {
      if (signal.aborted) return { kind: "failed" };
      const fault = faultOf(error);
      failed("away", error instanceof Error ? error.message : String(error));
      return { kind: "failed", ...(fault?.code === "unavailable" && { retryAfterMs: fault.retryAfterMs }) };
    }
  };
}

function readId(header: string | null): bigint | undefined {
  return header !== null && /^\d{1,20}$/.test(header) ? BigInt(header) : undefined;
}
