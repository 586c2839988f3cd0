import { isFaultError, throwFault } from "@muster/faults";
import {
  createLocalJWKSet,
  createRemoteJWKSet,
  decodeJwt,
  errors,
  jwksCache,
  jwtVerify,
  type JSONWebKeySet,
  type JWKSCacheInput,
  type JWTPayload,
  type JWTVerifyGetKey,
} from "jose";
import type { OidcConfig } from "../config.ts";
import { keepAnswers } from "../api/keep-answers.ts";
import type { Authenticate, User } from "../api/user.ts";

/** Minimum interval of lookups of unknown keys, whichever tokens arrive. */
const COOLDOWN_MS = 30_000;
const TIMEOUT_MS = 5000;
const DISCOVERY_KEPT_MS = 3_600_000;
/** Time after their read for which the issuer's last keys verify tokens while the issuer does not answer. */
const LAST_KEYS_MS = 86_400_000;
const MAX_DOCUMENT_BYTES = 1_048_576;
/** The maximum difference between the clocks of the issuer and of this host. */
const CLOCK_SKEW_S = 30;
/** Signature algorithms that need the issuer's private key. */
const ALGORITHMS = [
  "RS256",
  "RS384",
  "RS512",
  "PS256",
  "PS384",
  "PS512",
  "ES256",
  "ES384",
  "ES512",
  "EdDSA",
  "Ed25519",
];

/** Authenticates users by tokens of an OpenID Connect issuer, whose keys are found by discovery and reloaded when it rotates them. */
export function oidcAuthenticator(config: OidcConfig, following: Partial<FollowOptions> = {}): Authenticate {
  const { issuer, audience } = config;
  const keys = followKeys(issuer, { cooldownMs: COOLDOWN_MS, report: () => undefined, ...following });
  const options = {
    issuer,
    audience,
    algorithms: ALGORITHMS,
    clockTolerance: CLOCK_SKEW_S,
    requiredClaims: ["exp", config.userClaim],
  };
  return async (token) => {
    if (issuerOf(token) !== issuer) return undefined;
    try {
      const { payload } = await jwtVerify(token, keys, options);
      return userOf(payload, config);
    } catch (error) {
      if (isFaultError(error)) throw error;
      if (isOfToken(error)) return undefined;
      const dependency = `the issuer of tokens ${issuer}`;
      return throwFault({ code: "unavailable", dependency, retryAfterMs: 1000 }, { cause: error });
    }
  };
}

type FollowOptions = {
  readonly cooldownMs: number;
  /** Reports that the issuer does not answer, at most once in `cooldownMs`. */
  readonly report: (error: unknown) => void;
};

/** Finds the key of a token at the issuer; while the issuer does not answer, in the issuer's last keys. */
function followKeys(issuer: string, { cooldownMs, report }: FollowOptions): JWTVerifyGetKey {
  const nowMs = (): number => performance.now();
  const found = keepAnswers<JWTVerifyGetKey>({ keptMs: DISCOVERY_KEPT_MS, maxEntries: 1, nowMs });
  const cache: JWKSCacheInput = {};
  let failure: { readonly error: unknown; readonly untilMs: number } | undefined;
  return async (...token) => {
    const last = lastKeys(cache);
    if (last !== undefined && failure !== undefined && nowMs() < failure.untilMs)
      return findInLast(last, token, failure.error);
    try {
      const keys = await found.get(issuer, () => discoverKeys(issuer, cooldownMs, cache));
      const key = await keys(...token);
      failure = undefined;
      return key;
    } catch (error) {
      if (isOfToken(error)) throw error;
      failure = { error, untilMs: nowMs() + cooldownMs };
      report(error);
      if (last === undefined) throw error;
      return findInLast(last, token, error);
    }
  };
}

function lastKeys(cache: JWKSCacheInput): JSONWebKeySet | undefined {
  return "jwks" in cache && Date.now() - cache.uat < LAST_KEYS_MS ? cache.jwks : undefined;
}

/** Finds the key in the last keys. Rejects with the outage for any other key, because the issuer may have added it since. */
async function findInLast(
  last: JSONWebKeySet,
  token: Parameters<JWTVerifyGetKey>,
  outage: unknown,
): Promise<Awaited<ReturnType<JWTVerifyGetKey>>> {
  try {
    return await createLocalJWKSet(last)(...token);
  } catch (error) {
    throw error instanceof errors.JWKSNoMatchingKey ? outage : error;
  }
}

/** Reads the issuer that a token claims, before it is verified. */
function issuerOf(token: string): string | undefined {
  try {
    return decodeJwt(token).iss;
  } catch {
    return undefined;
  }
}

async function discoverKeys(issuer: string, cooldownDuration: number, cache: JWKSCacheInput): Promise<JWTVerifyGetKey> {
  const url = `${issuer.replace(/\/$/, "")}/.well-known/openid-configuration`;
  const reply = await fetch(url, { signal: AbortSignal.timeout(TIMEOUT_MS), redirect: "error" });
  const text = await reply.text();
  if (!reply.ok || text.length > MAX_DOCUMENT_BYTES) throw new Error(`${url} answers ${reply.status}`);
  const found = JSON.parse(text) as { readonly issuer?: unknown; readonly jwks_uri?: unknown };
  if (found.issuer !== issuer) throw new Error(`${url} is of another issuer`);
  const keysAt = URL.parse(String(found.jwks_uri));
  if (keysAt === null) throw new Error(`${url} names no jwks_uri`);
  if (keysAt.protocol !== "https:" && issuer.startsWith("https:")) throw new Error(`${url} names keys without TLS`);
  return createRemoteJWKSet(keysAt, { cooldownDuration, timeoutDuration: TIMEOUT_MS, [jwksCache]: cache });
}

/** Returns whether the token causes the error, and not an unavailable issuer. */
function isOfToken(error: unknown): boolean {
  if (!(error instanceof errors.JOSEError)) return false;
  return (
    error.code !== errors.JWKSTimeout.code &&
    error.code !== errors.JOSEError.code &&
    error.code !== errors.JWKSInvalid.code
  );
}

function userOf(payload: JWTPayload, { userClaim, groupsClaim, prefix }: OidcConfig): User | undefined {
  const name = payload[userClaim];
  if (typeof name !== "string" || name === "") return undefined;
  // An address that the issuer has not verified may belong to another user.
  if (userClaim === "email" && payload["email_verified"] !== true) return undefined;
  const claimed = payload[groupsClaim];
  const groups = (Array.isArray(claimed) ? claimed : [claimed]).filter((group) => typeof group === "string");
  return { name: `${prefix}${name}`, groups: [...groups.map((group) => `${prefix}${group}`), "system:authenticated"] };
}
