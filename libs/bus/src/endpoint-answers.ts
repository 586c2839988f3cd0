import { findFault, type Fault } from "@muster/faults";
import { serviceNames } from "@muster/proto";
import type { Endpoint, Message, Reply } from "./bus.ts";
import { RequestRates, type Refusal, type RequestRate } from "./request-rates.ts";
import { toFaultReply, toRefusalReply } from "./wire-headers.ts";

/** Retry hint of an endpoint at its limit of concurrency. */
const BUSY_RETRY_MS = 100;

/** The answers of one endpoint, and their cost; the numbers only grow. */
export type EndpointAnswers = {
  /** Never rejects: a fault of the handler is a reply, anything else is answered as internal. `user`: the caller, if known. */
  readonly answer: (message: Message, user?: string) => Promise<Reply>;
  readonly counts: { requests: number; faults: number; refused: number; processingMs: number };
};

/** The reason of a refusal before the request is decoded. */
type RefusalReason = "rate" | "busy";

/** The refusal of a user above the rate, or undefined. All endpoints of a service share it. */
type Admit = (user: string | undefined) => Refusal | undefined;

/** Limits the requests of every user. Without a rate all requests are admitted. `now`: monotonic milliseconds. */
export function makeAdmission(rate: RequestRate | undefined, now: () => number = () => performance.now()): Admit {
  if (rate === undefined) return () => undefined;
  const rates = new RequestRates(rate);
  return (user) => rates.take(user, now());
}

/** The parts that the endpoints of one service share. */
export type ServedService = {
  /** Name of the service: `reservation`. */
  readonly service: string;
  readonly rate: RequestRate | undefined;
  readonly admit: Admit;
  readonly onRefused: (reason: RefusalReason, user: string | undefined) => void;
  /** Logs that a user exceeds the rate; at most once a minute for each user. */
  readonly onRateLimit: (description: string) => void;
};

/** Bounds an endpoint: beyond its concurrency, and a user's rate, a request is refused immediately, never queued. */
export function makeEndpointAnswers(endpoint: Endpoint, served: ServedService): EndpointAnswers {
  const counts = { requests: 0, faults: 0, refused: 0, processingMs: 0 };
  let inFlight = 0;
  const answer = async (message: Message, user?: string): Promise<Reply> => {
    counts.requests += 1;
    const excess = isRateLimited(endpoint, user) ? refuseExcess(served, user) : undefined;
    if (excess !== undefined || inFlight >= endpoint.concurrency) {
      counts.refused += 1;
      if (excess === undefined) served.onRefused("busy", user);
      return toRefusalReply(excess ?? buildBusyFault(endpoint.name, endpoint.concurrency));
    }
    inFlight += 1;
    const startMs = performance.now();
    try {
      return await endpoint.handler(message);
    } catch (error) {
      counts.faults += 1;
      return toFaultReply(findFault(error) ?? { code: "internal", operation: endpoint.name });
    } finally {
      inFlight -= 1;
      counts.processingMs += performance.now() - startMs;
    }
  };
  return { answer, counts };
}

/** The fault of a request that exceeds the concurrency limit of an endpoint. */
export function buildBusyFault(endpoint: string, limit: number): Fault {
  const what = `number of requests in flight of ${endpoint}`;
  return { code: "limit_exceeded", what, limit, retryAfterMs: BUSY_RETRY_MS };
}

/** The rate is meant for one user. A service calls a hot endpoint for the work of all its users, so the rate does not apply. */
function isRateLimited({ hot = false }: Endpoint, user: string | undefined): boolean {
  return !hot || !serviceNames.some((name) => name === user);
}

function refuseExcess(served: ServedService, asker: string | undefined): Fault | undefined {
  const { service, rate, admit, onRefused, onRateLimit } = served;
  const refusal = admit(asker);
  if (refusal === undefined) return undefined;
  const { user, retryAfterMs, reportRefused } = refusal;
  const limit = rate?.perSecond ?? 0;
  onRefused("rate", user);
  if (reportRefused !== undefined) onRateLimit(describeRateLimit(service, user, limit, reportRefused));
  return { code: "limit_exceeded", what: `requests a second of ${user} to ${service}`, limit, retryAfterMs };
}

function describeRateLimit(service: string, user: string, limit: number, refused: number): string {
  const what = `${user} makes more than ${limit} requests a second of ${service}`;
  return `${what}: ${refused} refused since the last report (MUSTER_REQUESTS_PER_SECOND, MUSTER_REQUESTS_BURST)`;
}
