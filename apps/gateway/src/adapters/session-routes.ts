import { throwFault } from "@muster/faults";
import type { Logger } from "@muster/service";
import type { FastifyInstance, FastifyReply, FastifyRequest } from "fastify";
import { buildRefusal } from "../domain/build-problem.ts";
import { decideOrigin, decideSessionRequest, type BrowserRequest } from "../domain/decide-origin.ts";
import { decideReturnPath } from "../domain/decide-return-path.ts";
import { sendProblem } from "./http-problems.ts";
import { limitRate, type RateParts } from "./limit-rate.ts";
import type { OidcSignIn } from "./oidc-sign-in.ts";
import { reviewToken, type ReviewParts } from "./review-token.ts";
import { usesTls, type Session, type Sessions } from "./sessions.ts";

export type SignInParts = ReviewParts &
  RateParts & {
    readonly sessions: Sessions;
    /** Undefined without an issuer; a browser then signs in with a token. */
    readonly signIn: OidcSignIn | undefined;
    /** Undefined if pages show no links to traces. */
    readonly jaegerUrl: string | undefined;
    /** The namespace of the work of this installation. */
    readonly namespace: string;
    readonly logger: Pick<Logger, "info" | "warn">;
  };

const CALLBACK = "/auth/oidc/callback";
/** Path of the session. Every client may send a body to it, so bodies must be small and arrive soon. */
export const SESSION = "/auth/session";
export const SIGN_IN_TIMEOUT_MS = 2000;
const MAX_SIGN_IN_BYTES = 16_384;
const TOKEN = /^[A-Za-z0-9._~+/=-]{1,8192}$/;

/** Adds the paths with which a browser begins, reads and ends a session. */
export function addSessionRoutes(server: FastifyInstance, parts: SignInParts): void {
  const { sessions, signIn, jaegerUrl } = parts;
  server.get("/auth/methods", () => ({ token: true, oidc: signIn !== undefined, jaegerUrl }));
  server.get(SESSION, async (request, reply) => {
    const session = await sessions.read(request);
    const user = session && (await parts.admission.authenticate(session.token));
    if (session === undefined || user === undefined) return sendUnauthenticated(reply, "the browser has no session");
    const limited = limitRate(user, parts);
    return limited === undefined ? reply.send(shown(session, parts)) : sendProblem(reply, limited);
  });
  server.post(SESSION, { bodyLimit: MAX_SIGN_IN_BYTES }, async (request, reply) => {
    const verdict = decideOrigin(browserRequest(request));
    if (verdict.kind === "refused") return sendProblem(reply, buildRefusal("CSRF", verdict.because));
    const token = readToken(request.body);
    const reviewed = await reviewToken(request, token, parts);
    if ("problem" in reviewed) return sendProblem(reply, reviewed.problem);
    const { user } = reviewed;
    const limited = limitRate(user, parts);
    if (limited !== undefined) return sendProblem(reply, limited);
    const session = await sessions.begin(request, reply, { token, user: user.name });
    parts.logger.info({ user: user.name, address: request.ip }, "a user signs in with a token");
    return reply.send(shown(session, parts));
  });
  server.delete(SESSION, async (request, reply) => {
    const session = await sessions.read(request);
    if (session !== undefined) {
      const verdict = decideSessionRequest(browserRequest(request), session.csrfToken);
      if (verdict.kind === "refused") return sendProblem(reply, buildRefusal("CSRF", verdict.because));
    }
    sessions.end(request, reply);
    return reply.code(204).send();
  });
  if (signIn !== undefined) addIssuerRoutes(server, { ...parts, signIn });
}

function addIssuerRoutes(server: FastifyInstance, parts: SignInParts & { readonly signIn: OidcSignIn }): void {
  const { sessions, signIn, logger } = parts;
  server.get<{ Querystring: Readonly<Record<string, unknown>> }>("/auth/oidc/start", async (request, reply) => {
    const { url, flow } = await signIn.start(new URL(CALLBACK, originOf(request)).href);
    await sessions.signInFlow.begin(request, reply, { ...flow, returnTo: decideReturnPath(request.query["return"]) });
    return reply.redirect(url);
  });
  server.get(CALLBACK, async (request, reply) => {
    const flow = await sessions.signInFlow.read(request);
    if (flow === undefined)
      return sendUnauthenticated(reply, "this sign-in has expired, or another browser has begun it; begin again");
    sessions.signInFlow.end(request, reply);
    const finished = await signIn.finish(new URL(request.url, originOf(request)), flow);
    const refuse = (reason: string): FastifyReply => {
      logger.warn({ reason, address: request.ip }, "a sign-in at the issuer fails");
      return sendUnauthenticated(reply, `the issuer has not signed you in: ${reason}`);
    };
    if ("reason" in finished) return refuse(finished.reason);
    const { token } = finished;
    const user = await parts.admission.authenticate(token);
    if (user === undefined) return refuse("its token has no user whom the gateway accepts");
    await sessions.begin(request, reply, { token, user: user.name });
    logger.info({ user: user.name, address: request.ip }, "a user signs in at the issuer");
    return reply.redirect(flow.returnTo);
  });
}

/** The facts that decide the origin of a request. */
export function browserRequest({
  method,
  host,
  headers,
}: FastifyRequest): BrowserRequest & { csrfToken: string | undefined } {
  const single = (name: string): string | undefined => [headers[name]].flat()[0];
  return {
    method,
    host,
    origin: headers.origin,
    fetchSite: single("sec-fetch-site"),
    csrfToken: single("x-csrf-token"),
  };
}

/** Returns the origin as the browser sees it. A forged host has no effect, because the issuer accepts only registered addresses. */
function originOf(request: FastifyRequest): string {
  return `${usesTls(request) ? "https" : "http"}://${request.host}`;
}

function shown(
  { user, csrfToken, expiresAtMs }: Session,
  { namespace }: Pick<SignInParts, "namespace">,
): Omit<Session, "token"> & Pick<SignInParts, "namespace"> {
  return { user, csrfToken, expiresAtMs, namespace };
}

function readToken(body: unknown): string {
  const { token, ...others } = (typeof body === "object" && body !== null ? body : {}) as Record<string, unknown>;
  const unknown = Object.keys(others)[0];
  if (unknown !== undefined)
    return throwFault({ code: "invalid_request", field: unknown, reason: "token is the only field" });
  if (typeof token === "string" && TOKEN.test(token)) return token;
  return throwFault({ code: "invalid_request", field: "token", reason: "a bearer token is needed" });
}

function sendUnauthenticated(reply: FastifyReply, detail: string): FastifyReply {
  return sendProblem(reply, buildRefusal("UNAUTHENTICATED", detail));
}
