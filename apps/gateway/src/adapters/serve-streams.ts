import { FaultError } from "@muster/faults";
import type { Route } from "@muster/gateway-api";
import type { FastifyReply, FastifyRequest } from "fastify";
import type { Call } from "../api/answer-request.ts";
import { readRequest, type Asked } from "../api/read-request.ts";
import type { StreamSlots } from "../api/stream-slots.ts";
import type { Problem } from "../domain/build-problem.ts";
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

export type StreamRequest = {
  readonly request: FastifyRequest;
  readonly reply: FastifyReply;
  readonly user: string;
  /** Why the user may not read any longer; undefined: the user may. */
  readonly refusal: () => Promise<Problem | undefined>;
  readonly signal: AbortSignal;
};

/** Serves a list that is watched until the client is gone or is sent away. Throws FaultError before the first byte. */
export async function streamWatch(parts: StreamParts, route: Route, asking: StreamRequest): Promise<void> {
  const { request, reply, user, refusal } = asking;
  const { params, query } = request as Asked;
  readRequest(route, { params, query, body: undefined });
  using _slot = takeSlot(parts, asking);
  using followed = parts.feeds.follow(route, { params, query }, user);
  const stream = openHttpStream(reply, "text/event-stream; charset=utf-8", parts.streams.stallMs);
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
  const stream = openHttpStream(reply, "text/plain; charset=utf-8", parts.streams.stallMs);
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
