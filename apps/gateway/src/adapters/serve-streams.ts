import { FaultError } from "@muster/faults";
import type { Route } from "@muster/gateway-api";
import type { FastifyReply, FastifyRequest } from "fastify";
import type { Call } from "../api/answer-request.ts";
import type { StreamCheck } from "../api/limit-failed-checks.ts";
import { isWatch, readRequest, type Asked } from "../api/read-request.ts";
import type { StreamSlots } from "../api/stream-slots.ts";
import { openHttpStream } from "./http-stream.ts";
import { logReader, serveLog } from "./serve-log.ts";
import { serveWatch } from "./serve-watch.ts";
import type { WatchFeeds } from "./watch-feeds.ts";

export type StreamParts = {
  readonly feeds: WatchFeeds;
  readonly slots: StreamSlots;
  readonly streams: {
    /** A client that reads nothing for so long is disconnected. */
    readonly stallMs: number;
    /** Interval at which the token and the right of a stream are checked again. */
    readonly recheckMs: number;
  };
  readonly call: Call;
  /** A stream leaves the limit of concurrent requests, for it has limits of its own. */
  readonly leaveRequests: (request: FastifyRequest) => void;
};

const EVENTS = "text/event-stream; charset=utf-8";
const TEXT = "text/plain; charset=utf-8";

export type StreamRequest = {
  readonly request: FastifyRequest;
  readonly reply: FastifyReply;
  readonly user: string;
  /** Why the user may not read any longer. */
  readonly refusal: StreamCheck;
  readonly signal: AbortSignal;
};

/** Answers HEAD of a stream, which then takes no place. Throws FaultError for a wrong request. */
export function sendStreamHead(
  reply: FastifyReply,
  route: Route,
  asked: Pick<Asked, "params" | "query">,
): FastifyReply {
  readRequest(route, { ...asked, body: undefined });
  return reply.type(isWatch(route, asked.query) ? EVENTS : TEXT).send();
}

/** Serves a list that is watched until the client is gone, or the gateway ends it. Throws FaultError before the first byte. */
export async function streamWatch(parts: StreamParts, route: Route, asking: StreamRequest): Promise<void> {
  const { request, reply, user, refusal } = asking;
  const { params, query } = request as Asked;
  readRequest(route, { params, query, body: undefined });
  using _slot = takeSlot(parts, asking);
  using followed = parts.feeds.follow(route, { params, query }, user);
  const stream = openHttpStream(reply, EVENTS, parts.streams.stallMs);
  const lastEventId = request.headers["last-event-id"];
  await serveWatch(stream, followed.feed, {
    lastEventId: typeof lastEventId === "string" ? lastEventId : undefined,
    refusal,
    recheckMs: parts.streams.recheckMs,
  });
}

/** Serves a log to its end. Throws FaultError before the first byte. */
export async function streamLog(parts: StreamParts, route: Route, asking: StreamRequest): Promise<void> {
  const { request, reply, refusal, signal } = asking;
  const { params, query } = request as Asked;
  const asked = readRequest(route, { params, query, body: undefined });
  using _slot = takeSlot(parts, asking);
  const reader = logReader(route, asked, parts.call);
  const first = await reader.next(undefined, signal);
  const stream = openHttpStream(reply, TEXT, parts.streams.stallMs);
  let checkedAtMs = performance.now();
  const mayRead = async (): Promise<boolean> => {
    if (performance.now() - checkedAtMs < parts.streams.recheckMs) return true;
    checkedAtMs = performance.now();
    return (await refusal()) === undefined;
  };
  await serveLog(stream, reader, { first, follow: asked["follow"] === true, mayRead });
}

/** The place of a request that lasts, until disposed. Throws FaultError limit_exceeded where no place is free. */
export function takeSlot(
  { slots, leaveRequests }: Pick<StreamParts, "slots" | "leaveRequests">,
  { user, request }: Pick<StreamRequest, "user" | "request">,
): Disposable {
  const slot = slots.take(user);
  if ("code" in slot) throw new FaultError(slot);
  leaveRequests(request);
  return slot;
}
