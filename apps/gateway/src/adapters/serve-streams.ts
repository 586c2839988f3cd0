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
import type { ListName } from "../api/watch-events.ts";
import type { WatchFeeds } from "./watch-feeds.ts";

export type StreamParts = {
  readonly feeds: WatchFeeds;
  readonly slots: StreamSlots;
  readonly streams: {
    /** Time after which a client that reads no byte is disconnected. */
    readonly stallMs: number;
    /** Interval of the checks of a stream's token and right. */
    readonly recheckMs: number;
  };
  readonly call: Call;
  /** Removes a stream from the count of concurrent requests, because streams have their own limits. */
  readonly leaveRequests: (request: FastifyRequest) => void;
};

const EVENTS = "text/event-stream; charset=utf-8";
const TEXT = "text/plain; charset=utf-8";

export type StreamRequest = {
  readonly request: FastifyRequest;
  readonly reply: FastifyReply;
  readonly user: string;
  readonly signal: AbortSignal;
};

/** Answers HEAD of a stream without taking a slot. Throws FaultError for an invalid request. */
export function sendStreamHead(
  reply: FastifyReply,
  lists: readonly Pick<AskedList, "route" | "params" | "query">[],
): FastifyReply {
  for (const { route, params, query } of lists) readRequest(route, { params, query, body: undefined });
  return reply.type(lists.every(({ route, query }) => isWatch(route, query)) ? EVENTS : TEXT).send();
}

export type AskedList = Pick<Asked, "params" | "query"> & {
  readonly name: ListName;
  readonly route: Route;
  /** Returns the reason why the user may no longer watch the list. */
  readonly refusal: StreamCheck;
};

/**
 * Serves lists until the client disconnects, or the gateway ends them. `refused` contains the events of refused lists. Throws FaultError before the first byte.
 */
export async function streamWatch(
  parts: StreamParts,
  lists: readonly AskedList[],
  { request, reply, user, refused = [] }: Omit<StreamRequest, "signal"> & { readonly refused?: readonly string[] },
): Promise<void> {
  for (const { route, params, query } of lists) readRequest(route, { params, query, body: undefined });
  using _slot = takeSlot(parts, { user, request });
  using following = new DisposableStack();
  const watched = lists.map(({ name, route, params, query, refusal }) => {
    const { feed } = following.use(parts.feeds.follow(route, { params, query }, user));
    return { name, feed, refusal };
  });
  const stream = openHttpStream(reply, EVENTS, parts.streams.stallMs);
  const lastEventId = request.headers["last-event-id"];
  await serveWatch(stream, watched, {
    lastEventId: typeof lastEventId === "string" ? lastEventId : undefined,
    recheckMs: parts.streams.recheckMs,
    refused,
  });
}

/** Serves a log to its end. Throws FaultError before the first byte. */
export async function streamLog(
  parts: StreamParts,
  route: Route,
  asking: StreamRequest & { readonly refusal: StreamCheck },
): Promise<void> {
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

/** Takes the slot of a long request until it is disposed of. Throws FaultError limit_exceeded if no slot is free. */
export function takeSlot(
  { slots, leaveRequests }: Pick<StreamParts, "slots" | "leaveRequests">,
  { user, request }: Pick<StreamRequest, "user" | "request">,
): Disposable {
  const slot = slots.take(user);
  if ("code" in slot) throw new FaultError(slot);
  leaveRequests(request);
  return slot;
}
