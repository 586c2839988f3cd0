import { randomUUID } from "node:crypto";
import { WATCH_PATH, type Route } from "@muster/gateway-api";
import type { FastifyInstance, FastifyReply, FastifyRequest, HTTPMethods } from "fastify";
import { accessesOf, accessOf, describeAccess, furtherAccessesOf, nameInBody } from "../api/access-of.ts";
import { answerRequest, type Call } from "../api/answer-request.ts";
import { limitFailedChecks } from "../api/limit-failed-checks.ts";
import { isWatch, readWatchedLists, requireDepth, requireNames, type Asked } from "../api/read-request.ts";
import { isShared, tagOf, type SharedReads } from "../api/shared-reads.ts";
import type { Access, Authorize, User } from "../api/user.ts";
import { buildRefusal, type Problem } from "../domain/build-problem.ts";
import { decideSessionRequest } from "../domain/decide-origin.ts";
import { answerOnce, type Answer } from "./answer-once.ts";
import type { AttemptAudit, Audit } from "./audit-log.ts";
import { problemOf, sendProblem, type ProblemContext } from "./http-problems.ts";
import type { KeptRequests } from "./kept-requests.ts";
import { limitRate, type RateParts } from "./limit-rate.ts";
import { reviewToken, type ReviewParts } from "./review-token.ts";
import { closedEvent } from "./serve-watch.ts";
import { sendStreamHead, streamLog, streamWatch, takeSlot, type StreamParts } from "./serve-streams.ts";
import { requireNats, type NatsStatus } from "./nats-status.ts";
import { browserRequest } from "./session-routes.ts";
import { credentialsOf, type Credentials, type Sessions } from "./sessions.ts";

export type ApiParts = ProblemContext &
  ReviewParts &
  RateParts &
  StreamParts & {
    readonly routes: readonly Route[];
    readonly authorize: Authorize;
    readonly sessions: Sessions;
    readonly audit: Audit;
    readonly keptRequests: KeptRequests;
    readonly reads: SharedReads;
    readonly nats: NatsStatus;
    /** The namespace of rights on resources whose paths contain none. */
    readonly namespace: string;
  };

const METHODS: readonly HTTPMethods[] = ["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE"];

/** An admitted request, with the rights of its user. */
type Admitted = Identified & { readonly access: Access };
type Identified = { readonly user: User; readonly credentials: Credentials };

/** The keys under which a request stores these facts. */
const IDENTIFIED = "identified";
const ADMITTED = "admitted";

function identifiedBy(request: FastifyRequest): Identified | undefined {
  return request.getDecorator<Identified | undefined>(IDENTIFIED);
}

function admittedBy(request: FastifyRequest): Admitted | undefined {
  return request.getDecorator<Admitted | undefined>(ADMITTED);
}

/**
 * Adds the paths of the table. Each request is checked in this order: its user, the user's rate, the right, the rights on objects in its body, and last its
 * query and its body.
 */
export function addApi(api: FastifyInstance, parts: ApiParts): void {
  api.decorateRequest(IDENTIFIED);
  api.decorateRequest(ADMITTED);
  api.addHook("onRequest", async (request, reply) => {
    const credentials = await credentialsOf(request, parts.sessions);
    if (credentials?.session !== undefined) {
      const verdict = decideSessionRequest(browserRequest(request), credentials.session.csrfToken);
      if (verdict.kind === "refused") return sendProblem(reply, buildRefusal("CSRF", verdict.because));
    }
    const refuse = (problem: Problem): FastifyReply => {
      if (problem.status === 401) void reply.header("www-authenticate", 'Bearer realm="muster"');
      return sendProblem(reply, problem);
    };
    if (credentials === undefined) return refuse(buildRefusal("UNAUTHENTICATED", "a bearer token is needed"));
    const reviewed = await reviewToken(request, credentials.token, parts);
    if ("problem" in reviewed) return refuse(reviewed.problem);
    const { user } = reviewed;
    const limited = limitRate(user, parts);
    if (limited !== undefined) return sendProblem(reply, limited);
    request.setDecorator(IDENTIFIED, { user, credentials } satisfies Identified);
  });
  api.addHook("preHandler", (request, _reply, done) => {
    requireDepth(request.body);
    done();
  });
  for (const route of parts.routes) {
    api.route({
      method: route.http,
      url: route.path,
      onRequest: async (request, reply) => {
        const by = identifiedBy(request);
        const asked = request as Asked;
        requireNames(asked.params);
        const access = accessOf(route, asked, parts.namespace);
        const missing = by === undefined ? access : await findMissing(parts, by.user, accessesOf(route, access));
        if (by !== undefined && missing === undefined) {
          request.setDecorator(ADMITTED, { ...by, access } satisfies Admitted);
          return;
        }
        return forbid(parts, route, { by: by && { ...by, access }, missing: missing ?? access }, { request, reply });
      },
      ...(route.change?.further !== undefined && {
        preHandler: async (request, reply) => {
          const by = admittedBy(request);
          const missing = by && (await findMissing(parts, by.user, furtherAccessesOf(route, request.body, by.access)));
          if (missing !== undefined) return forbid(parts, route, { by, missing }, { request, reply });
        },
      }),
      handler: async (request, reply) => {
        const by = admittedBy(request);
        // Fails closed if a hook is missing.
        if (by === undefined) throw new Error(`${route.path}: a request was not admitted`);
        return answer(parts, route, by, { request, reply });
      },
    });
  }
  addWatch(api, parts);
  const byPath = Map.groupBy(parts.routes, (route) => route.path);
  for (const [path, known] of byPath)
    refuseOtherMethods(
      api,
      path,
      known.map(({ http }) => http),
    );
  refuseOtherMethods(api, WATCH_PATH, ["GET"]);
}

/** Adds the path that follows several lists over one connection. A list that the user may not watch is refused separately. */
function addWatch(api: FastifyInstance, parts: ApiParts): void {
  api.get(WATCH_PATH, async (request, reply) => {
    const by = identifiedBy(request);
    // Fails closed if a hook is missing.
    if (by === undefined) throw new Error(`${WATCH_PATH}: a request has no user`);
    const lists = readWatchedLists(parts.routes, (request as Asked).query).map((list) => {
      const { name, route } = list;
      const access = accessOf(route, list, parts.namespace);
      const refusal = (): Promise<Problem | undefined> => refusalOf(parts, route, { ...by, access });
      return { ...list, name, access, refusal: limitFailedChecks(refusal) };
    });
    // Each list needs its own right, whose review counts as a request.
    const limited = limitRate(by.user, parts, lists.length - 1);
    if (limited !== undefined) return sendProblem(reply, limited);
    const areAllowed = await Promise.all(lists.map(({ access }) => parts.authorize(by.user, access)));
    const refused = lists
      .filter((_, at) => areAllowed[at] === false)
      .map(({ name, route, access }) => {
        const problem = buildRefusal("FORBIDDEN", describeRefusal(by.user, access, route));
        return { name, problem };
      });
    const [first] = refused;
    if (first !== undefined && refused.length === lists.length) return sendProblem(reply, first.problem);
    if (request.method === "HEAD") return sendStreamHead(reply, lists);
    const allowed = lists.filter((list) => !refused.some(({ name }) => name === list.name));
    await streamWatch(parts, allowed, {
      ...{ request, reply, user: by.user.name },
      refused: refused.map(({ name, problem }) => closedEvent(name, problem)),
    });
    return reply;
  });
}

async function forbid(
  parts: ApiParts,
  route: Route,
  { by, missing }: { readonly by: Admitted | undefined; readonly missing: Access },
  { request, reply }: { readonly request: FastifyRequest; readonly reply: FastifyReply },
): Promise<FastifyReply> {
  const problem = buildRefusal("FORBIDDEN", describeRefusal(by?.user, missing, route));
  if (by !== undefined) await auditOf(parts, route, by, { request })?.end(problem);
  return sendProblem(reply, problem);
}

async function findMissing(
  { authorize }: ApiParts,
  user: User,
  accesses: readonly Access[],
): Promise<Access | undefined> {
  for (const access of accesses) if (!(await authorize(user, access))) return access;
  return undefined;
}

function describeRefusal(user: User | undefined, access: Access, { resource }: Route): string {
  return `user ${user?.name ?? ""} cannot ${describeAccess(access, resource.scope)} of the API group muster.dev`;
}

function refuseOtherMethods(api: FastifyInstance, path: string, known: readonly HTTPMethods[]): void {
  const allowed = new Set(known);
  if (allowed.has("GET")) allowed.add("HEAD");
  api.route({
    method: METHODS.filter((method) => !allowed.has(method)),
    url: path,
    handler: (request, reply) => {
      void reply.header("allow", [...allowed].join(", "));
      const detail = `${request.method} is not possible on this path; ${[...allowed].join(", ")} are`;
      return sendProblem(reply, buildRefusal("METHOD_NOT_ALLOWED", detail));
    },
  });
}

async function answer(
  parts: ApiParts,
  route: Route,
  by: Admitted,
  { request, reply }: { readonly request: FastifyRequest; readonly reply: FastifyReply },
): Promise<FastifyReply> {
  const { params, query, body } = request as Asked;
  if (isWatch(route, query) || route.answer.kind === "log") {
    const list = {
      name: undefined,
      route,
      params,
      query,
      refusal: limitFailedChecks(() => refusalOf(parts, route, by)),
    };
    if (request.method === "HEAD") return sendStreamHead(reply, [list]);
    const streaming = { request, reply, user: by.user.name };
    if (route.answer.kind !== "log") await streamWatch(parts, [list], streaming);
    else await streamLog(parts, route, { ...streaming, refusal: list.refusal, signal: signalOf(reply) });
    return reply;
  }
  requireNats(parts.nats);
  const asked = { params, query, body };
  const key = request.headers["idempotency-key"];
  if (key === undefined && isShared(route, query)) {
    const { json, tag } = await parts.reads.read(request.url, route, asked);
    return sendJson(reply, request, json, tag);
  }
  const refuse = async (problem: Problem, audit = auditOf(parts, route, by, { request })): Promise<Answer> => {
    await audit?.end(problem);
    return { ...problem, body: JSON.stringify(problem) };
  };
  const ask = async (requestId: string): Promise<Answer> => {
    const audit = auditOf(parts, route, by, { request, requestId });
    try {
      // A long poll lasts as long as a stream, so it takes a stream slot.
      using _slot = isLongPoll(query) ? takeSlot(parts, { request, user: by.user.name }) : undefined;
      // A change continues after its client disconnects, so that its outcome is known.
      const signal = audit === undefined ? signalOf(reply) : new AbortController().signal;
      const asking = { ...asked, signal, by: by.user.name, requestId };
      const answered = await answerRequest(
        route,
        asking,
        audit === undefined ? parts.call : announced(parts.call, audit),
      );
      await audit?.end({ status: 200, code: "" });
      return { status: 200, body: JSON.stringify(answered) };
    } catch (error) {
      return refuse(problemOf(error, parts), audit);
    }
  };
  const once = answerOnce({ route, user: by.user, asked, key, keptRequests: parts.keptRequests, ask, refuse });
  const { status, body: json } = await once.catch((error: unknown) => refuse(problemOf(error, parts)));
  if (status === 200) return sendJson(reply, request, json, route.http === "GET" ? tagOf(json) : undefined);
  return sendProblem(reply, JSON.parse(json) as Problem);
}

function isLongPoll({ waitMs = "0" }: Asked["query"]): boolean {
  return waitMs !== "0";
}

/** Returns the reason why a stream must end: its token has expired, or its right was withdrawn. Rejects with FaultError if the check is impossible now. */
async function refusalOf(
  { admission, authorize }: ApiParts,
  route: Route,
  { access, credentials: { token, session } }: Admitted,
): Promise<Problem | undefined> {
  const isOver = session !== undefined && Date.now() >= session.expiresAtMs;
  const user = isOver ? undefined : await admission.authenticate(token);
  if (user === undefined) return buildRefusal("UNAUTHENTICATED", "the token or the session has expired");
  if (await authorize(user, access)) return undefined;
  return buildRefusal("FORBIDDEN", describeRefusal(user, access, route));
}

function sendJson(reply: FastifyReply, request: FastifyRequest, json: string, tag: string | undefined): FastifyReply {
  void reply.type("application/json; charset=utf-8");
  if (tag === undefined) return reply.send(json);
  void reply.header("etag", tag);
  return isKnown(request.headers["if-none-match"], tag) ? reply.code(304).send() : reply.send(json);
}

/** Returns the audit of a change; undefined for a request without an effect. */
function auditOf(
  { audit }: ApiParts,
  { change, method }: Route,
  { user, access }: Admitted,
  { request, requestId = randomUUID() }: { readonly request: FastifyRequest; readonly requestId?: string },
): AttemptAudit | undefined {
  if (change === undefined || change.of === "plan") return undefined;
  const name = access.name === "" ? nameInBody(request.body) : access.name;
  const atMs = Date.now();
  return audit({ requestId, atMs, user, access: { ...access, name }, method: method.name, address: request.ip });
}

/** Makes the call after its announcement is on disk, so that a gateway that crashes in between leaves a record. */
function announced(call: Call, audit: AttemptAudit): Call {
  return async (route, request, signal) => {
    await audit.announce();
    return call(route, request, signal);
  };
}

function isKnown(header: string | undefined, tag: string): boolean {
  const known = header?.split(",").map((each) => each.trim().replace(/^W\//, ""));
  return known !== undefined && (known.includes(tag) || known.includes("*"));
}

/** Returns a signal that is aborted when the client disconnects before it has the answer. */
function signalOf(reply: FastifyReply): AbortSignal {
  const gone = new AbortController();
  reply.raw.once("close", () => {
    if (!reply.raw.writableFinished) gone.abort();
  });
  return gone.signal;
}
