import { randomBytes } from "node:crypto";
import { throwFault } from "@muster/faults";
import type { FastifyReply, FastifyRequest } from "fastify";
import { decodeJwt } from "jose";
import { isLoopback } from "../config.ts";
import type { Purpose, Sealer } from "./sealer.ts";

/** The content of a browser's cookie; the gateway does not store it. */
export type Session = {
  readonly token: string;
  readonly user: string;
  /** The token that changes must have in the header X-CSRF-Token. */
  readonly csrfToken: string;
  readonly expiresAtMs: number;
};

/** The credentials of a request, before they are verified. */
export type Credentials = { readonly token: string; readonly session?: Session };

export type Sessions = {
  /** Returns the session of the cookie, whose token may have become invalid. */
  read(request: FastifyRequest): Promise<Session | undefined>;
  /** Begins a session in the browser of the request. Throws FaultError invalid_request if the token does not fit into a cookie. */
  begin(request: FastifyRequest, reply: FastifyReply, by: Pick<Session, "token" | "user">): Promise<Session>;
  end(request: FastifyRequest, reply: FastifyReply): void;
  readonly signInFlow: SignInFlows;
};

/** The state that a browser keeps while its user signs in at the issuer. */
export type SignInFlow = {
  readonly state: string;
  readonly nonce: string;
  readonly codeVerifier: string;
  readonly returnTo: string;
};

export type SignInFlows = {
  read(request: FastifyRequest): Promise<SignInFlow | undefined>;
  begin(request: FastifyRequest, reply: FastifyReply, flow: SignInFlow): Promise<void>;
  end(request: FastifyRequest, reply: FastifyReply): void;
};

/** Maximum cookie size, below 4096 bytes: browsers ignore larger cookies, and the name counts too. */
const MAX_COOKIE_CHARACTERS = 4000;
const FLOW_MS = 600_000;
const CSRF_BYTES = 24;
const NAMES: Readonly<Record<Purpose, string>> = { session: "muster-session", "sign-in": "muster-sign-in" };

/**
 * Returns whether the browser uses TLS. A gateway without a certificate serves other hosts only behind a proxy with TLS, so only a browser on this machine may
 * connect without TLS.
 */
export function usesTls({ protocol, host }: Pick<FastifyRequest, "protocol" | "host">): boolean {
  return protocol === "https" || !isLoopback(URL.parse(`http://${host}`)?.hostname ?? "");
}

/** Returns the token of the header, or the token of the cookie if the header is missing. A cookie never replaces a header with an invalid token. */
export async function credentialsOf(request: FastifyRequest, sessions: Sessions): Promise<Credentials | undefined> {
  const { authorization } = request.headers;
  if (authorization !== undefined) {
    const token = /^bearer +([A-Za-z0-9._~+/=-]+)$/i.exec(authorization)?.[1];
    return token === undefined ? undefined : { token };
  }
  const session = await sessions.read(request);
  return session && { token: session.token, session };
}

export function openSessions(sealer: Sealer, maxSessionMs: number): Sessions {
  const jar = cookieJar(sealer);
  return {
    read: async (request) => {
      const claims = await jar.read(request, "session");
      return claims === undefined ? undefined : sessionOf(claims);
    },
    begin: async (request, reply, by) => {
      const expiresAtMs = Math.min(Date.now() + maxSessionMs, expiryOf(by.token));
      const session = { ...by, csrfToken: randomBytes(CSRF_BYTES).toString("base64url"), expiresAtMs };
      await jar.write(request, reply, { purpose: "session", claims: session, expiresAtMs, sameSite: "strict" });
      return session;
    },
    end: (request, reply) => jar.clear(request, reply, "session"),
    signInFlow: {
      read: async (request) => {
        const flow = await jar.read(request, "sign-in");
        return flow as SignInFlow | undefined;
      },
      begin: (request, reply, claims) => {
        const expiresAtMs = Date.now() + FLOW_MS;
        // The cookie is lax, because the issuer sends the browser back by a navigation from another site.
        return jar.write(request, reply, { purpose: "sign-in", claims, expiresAtMs, sameSite: "lax" });
      },
      end: (request, reply) => jar.clear(request, reply, "sign-in"),
    },
  };
}

type CookieJar = {
  read(request: FastifyRequest, purpose: Purpose): Promise<object | undefined>;
  write(request: FastifyRequest, reply: FastifyReply, sealed: Sealed): Promise<void>;
  clear(request: FastifyRequest, reply: FastifyReply, purpose: Purpose): void;
};

type Sealed = {
  readonly purpose: Purpose;
  readonly claims: Readonly<Record<string, unknown>>;
  readonly expiresAtMs: number;
  readonly sameSite: "strict" | "lax";
};

function cookieJar(sealer: Sealer): CookieJar {
  const nameOf = (request: FastifyRequest, purpose: Purpose): string =>
    usesTls(request) ? `__Host-${NAMES[purpose]}` : NAMES[purpose];
  const attributes = (request: FastifyRequest) => ({ path: "/", httpOnly: true, secure: usesTls(request) }) as const;
  return {
    read: async (request, purpose) => {
      const text = request.cookies[nameOf(request, purpose)];
      return text === undefined ? undefined : sealer.open(purpose, text);
    },
    write: async (request, reply, { purpose, claims, expiresAtMs, sameSite }) => {
      const name = nameOf(request, purpose);
      const text = await sealer.seal(purpose, claims, expiresAtMs);
      if (name.length + text.length > MAX_COOKIE_CHARACTERS) {
        const reason = `a session of ${text.length} characters is too large for a cookie; let the issuer put fewer groups into its tokens`;
        throwFault({ code: "invalid_request", field: "token", reason });
      }
      void reply.setCookie(name, text, { ...attributes(request), sameSite, expires: new Date(expiresAtMs) });
    },
    clear: (request, reply, purpose) => void reply.clearCookie(nameOf(request, purpose), attributes(request)),
  };
}

function sessionOf(claims: object): Session | undefined {
  const { token, user, csrfToken, expiresAtMs } = claims as Partial<Session>;
  if (token === undefined || user === undefined || csrfToken === undefined || expiresAtMs === undefined)
    return undefined;
  if (Date.now() >= expiresAtMs) return undefined;
  return { token, user, csrfToken, expiresAtMs };
}

/** Returns the time in ms since 1970 at which the token expires; Infinity if the token states none. */
function expiryOf(token: string): number {
  try {
    const { exp } = decodeJwt(token);
    return exp === undefined ? Infinity : exp * 1000;
  } catch {
    return Infinity;
  }
}
