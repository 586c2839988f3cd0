import { Svcm, type Service, type ServiceInfo, type ServiceStats } from "@nats-io/services";
import type { Msg, NatsConnection, Subscription } from "@nats-io/nats-core";
import { computeBackoffMs, pause, within } from "@muster/backoff";
import { subjects } from "@muster/proto";
import { makeAdmission, makeEndpointAnswers, type EndpointAnswers, type ServedService } from "./endpoint-answers.ts";
import type { Endpoint, Reply, ServiceIdentity } from "./bus.ts";
import { WorkInFlight } from "./work-in-flight.ts";
import { countExcessiveBytes, buildTooLargeFault } from "./message-size.ts";
import { toNatsError, isNoResponders } from "./nats-fault.ts";
import { toHeaders, toNatsHeaders } from "./nats-headers.ts";
import type { NatsLink } from "./nats-link.ts";
import { isInbox, OTHERS, findInboxUser, type RequestRate } from "./request-rates.ts";
import { toFaultReply } from "./wire-headers.ts";

/** Maximum wait of a reply for a lost connection. After this time, the caller no longer waits. */
const REPLY_WAIT_MS = 30_000;
const REPLY_RETRY = { firstMs: 20, maxMs: 500 };
/** The server reports a missing receiver immediately. Without a report in this time, the reply has arrived. */
const REPLY_HEARD_MS = 2000;
/** Services that do not answer within these limits count as absent. */
const DISCOVERY = { maxMs: 1000, quietMs: 250 };

/** The self-description of one running replica. */
export type DiscoveredService = {
  readonly name: string;
  readonly id: string;
  readonly version: string;
  readonly description: string;
  readonly metadata: Readonly<Record<string, string>>;
};

/** Signals that a replica has lost since it started, because its handler was too slow. */
export type DroppedSignals = {
  readonly service: string;
  readonly id: string;
  /** Pattern that the listener listens to. */
  readonly subject: string;
  readonly dropped: number;
};

type ServingOptions = { readonly drainMs: number; readonly rate: RequestRate | undefined };

/** Answers requests as a NATS service, so that `nats micro` lists it. Resolves once the server has the subscriptions. */
export async function respondToRequests(
  link: NatsLink,
  identity: ServiceIdentity,
  endpoints: readonly Endpoint[],
  options: ServingOptions,
): Promise<AsyncDisposable> {
  const { drainMs, rate } = options;
  const { name, version, description, metadata = {} } = identity;
  const inFlight = new WorkInFlight();
  const served = new Map<string, EndpointAnswers>();
  const common: ServedService = {
    service: name,
    rate,
    admit: makeAdmission(rate),
    onRefused: (reason, user) => link.metrics.refused(name, reason, user ?? OTHERS),
    onRateLimit: (description) => link.refusing(description),
  };
  const subscriptions: Subscription[] = [];
  const connection = answeringInboxes(link, name);
  let service: Service;
  try {
    service = await new Svcm(connection).add({
      name,
      version,
      description,
      metadata: { ...metadata },
      // The library measures only handlers that answer before they return. These numbers cover ours, which answer later.
      statsHandler: (endpoint) => {
        const counts = served.get(endpoint.subject)?.counts;
        return Promise.resolve(counts === undefined ? null : { ...counts, dropped: Object.fromEntries(link.dropped) });
      },
    });
    const { id } = service.info();
    for (const endpoint of endpoints) {
      const { answer, counts } = makeEndpointAnswers(endpoint, common);
      served.set(endpoint.subject, { answer, counts });
      const take = makeRequestHandler(link, answer);
      const handler = (error: Error | null, message: Msg): void => {
        if (error === null) void inFlight.run(() => take(message));
      };
      service.addEndpoint(endpoint.name, { subject: endpoint.subject, handler });
      const ownSubject = subjects.requestOfReplica(endpoint.subject, id);
      subscriptions.push(connection.subscribe(ownSubject, { callback: handler }));
    }
  } catch (error) {
    throw toNatsError(error, { operation: `serving ${name}` });
  }
  await link.flush();
  return {
    [Symbol.asyncDispose]: async () => {
      await link.within(drainMs, Promise.all([service.stop(), ...subscriptions.map((own) => own.drain())]));
      await within(drainMs, inFlight.idle());
      await link.within(drainMs, link.flush());
    },
  };
}

/** Answers requests. Ignores a repetition of a request in flight: both name the same inbox, and its caller accepts one answer. */
function makeRequestHandler(link: NatsLink, answer: EndpointAnswers["answer"]): (request: Msg) => Promise<void> {
  const inFlight = new Set<string>();
  return async (request) => {
    const { subject, data: payload, headers, reply: inbox = "" } = request;
    if (inFlight.has(inbox)) return;
    inFlight.add(inbox);
    try {
      const { losses } = link;
      const reply = await answer({ subject, payload, headers: toHeaders(headers) }, findInboxUser(inbox));
      if (link.up && link.losses === losses) send(link, request, reply);
      else await sendUntilDelivered(link, request, reply);
    } finally {
      inFlight.delete(inbox);
    }
  };
}

/**
 * Returns the connection without requests whose reply subject is not an inbox. A caller may name any reply subject, and the service may publish to buckets, the
 * log and administrative APIs that the caller may not. This also covers requests that the services library answers itself.
 */
function answeringInboxes(link: NatsLink, service: string): NatsConnection {
  const { connection } = link;
  const subscribe: NatsConnection["subscribe"] = (subject, options = {}) => {
    const { callback } = options;
    if (callback === undefined) return connection.subscribe(subject, options);
    return connection.subscribe(subject, {
      ...options,
      callback: (error, message) => {
        if (error !== null || isInbox(message.reply)) void callback(error, message);
        else link.metrics.refused(service, "reply", OTHERS);
      },
    });
  };
  return new Proxy(connection, {
    get: (target, key) => {
      const value: unknown = key === "subscribe" ? subscribe : Reflect.get(target, key);
      return typeof value === "function" ? (value.bind(target) as unknown) : value;
    },
  });
}

/** Pings all replicas of all services for their description. */
export async function discoverServices(link: NatsLink): Promise<DiscoveredService[]> {
  // The NATS services protocol (ADR-32) fixes the answers of services.
  const answers = await askAll<ServiceInfo>(link, "$SRV.INFO", "asking which services run");
  return answers
    .map(({ name, id, version, description, metadata = {} }) => ({ name, id, version, description, metadata }))
    .sort((a, b) => a.name.localeCompare(b.name) || a.id.localeCompare(b.id));
}

/** Requests from every replica of every service the number of signals that its listeners dropped, by subject. */
export async function listDroppedSignals(link: NatsLink): Promise<DroppedSignals[]> {
  const answers = await askAll<ServiceStats>(link, "$SRV.STATS", "asking what services have dropped");
  // All endpoints of a replica share its connection.
  return answers.flatMap(({ name: service, id, endpoints = [] }) =>
    readDropped(endpoints[0]?.data).map(([subject, dropped]) => ({ service, id, subject, dropped })),
  );
}

/** Reads the numbers that `statsHandler` returns; foreign services may return others, or none. */
function readDropped(data: unknown): [string, number][] {
  if (typeof data !== "object" || data === null || !("dropped" in data)) return [];
  const entries: [string, unknown][] = Object.entries(data.dropped ?? {});
  return entries.flatMap(([subject, count]): [string, number][] =>
    typeof count === "number" ? [[subject, count]] : [],
  );
}

async function askAll<Answer>(link: NatsLink, subject: string, operation: string): Promise<Answer[]> {
  const found: Answer[] = [];
  try {
    const { maxMs, quietMs } = DISCOVERY;
    const options = { strategy: "stall", maxWait: maxMs, stall: quietMs } as const;
    for await (const answer of await link.connection.requestMany(subject, "", options)) {
      found.push(answer.json<Answer>());
    }
  } catch (error) {
    if (!isNoResponders(error)) throw toNatsError(error, { operation });
  }
  return found;
}

function send(link: NatsLink, request: Msg, reply: Reply): void {
  try {
    const { payload, headers } = fitting(link, request, reply);
    if (headers.size === 0) request.respond(payload);
    else request.respond(payload, { headers: toNatsHeaders(headers) });
  } catch {
    // The connection was closed: no reply can be sent.
  }
}

/**
 * Sends a reply after the connection was lost since the request. The inbox of the caller may not be restored yet, so the server reports a missing receiver and
 * the reply is repeated. Ends once the caller has stopped waiting.
 */
async function sendUntilDelivered(link: NatsLink, request: Msg, reply: Reply): Promise<void> {
  const endMs = performance.now() + REPLY_WAIT_MS;
  for (let attempt = 1; performance.now() < endMs; attempt += 1) {
    if (request.reply === undefined || !(await link.whenUp(endMs - performance.now()))) return;
    try {
      const { payload, headers } = fitting(link, request, reply);
      await link.connection.request(request.reply, payload, {
        timeout: REPLY_HEARD_MS,
        ...(headers.size === 0 ? {} : { headers: toNatsHeaders(headers) }),
      });
      return;
    } catch (error) {
      // Nothing answers a reply, so a timeout means that the caller received it.
      if (!isNoResponders(error)) return;
    }
    await pause(computeBackoffMs(attempt, REPLY_RETRY));
  }
}

/** Returns the reply, or a fault if it exceeds the max_payload of the server. */
function fitting(link: NatsLink, request: Msg, reply: Reply): Reply {
  const limit = link.maxPayload;
  const bytes = countExcessiveBytes(reply.payload, reply.headers, limit);
  return bytes === undefined ? reply : toFaultReply(buildTooLargeFault(`reply to ${request.subject}`, bytes, limit));
}
