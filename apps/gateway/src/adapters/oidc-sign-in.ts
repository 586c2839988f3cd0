import { readFile } from "node:fs/promises";
import { throwFault } from "@muster/faults";
import * as client from "openid-client";
import { keepAnswers } from "../api/keep-answers.ts";
import type { OidcConfig } from "../config.ts";
import type { SignInFlow } from "./sessions.ts";

const TIMEOUT_S = 5;
const DISCOVERY_KEPT_MS = 3_600_000;

/** The authorization code flow with PKCE. Both functions reject with FaultError unavailable if the issuer does not answer. */
export type OidcSignIn = {
  /** Returns the address at which the browser signs in, and the data that the browser keeps during the sign-in. */
  start(redirectUri: string): Promise<{ readonly url: string; readonly flow: Omit<SignInFlow, "returnTo"> }>;
  /** Returns the token of the user, or `reason` if the issuer refused the sign-in or its answer does not belong to this flow. */
  finish(callback: URL, flow: SignInFlow): Promise<{ readonly token: string } | { readonly reason: string }>;
};

/** Opens the sign-in. Throws FaultError invalid_request if the client's secret is unreadable. */
export async function openOidcSignIn(config: OidcConfig): Promise<OidcSignIn> {
  const { issuer, audience, scope, clientSecretFile } = config;
  const secret = clientSecretFile === undefined ? undefined : await readSecret(clientSecretFile);
  const found = keepAnswers<client.Configuration>({
    keptMs: DISCOVERY_KEPT_MS,
    maxEntries: 1,
    nowMs: () => performance.now(),
  });
  // eslint-disable-next-line @typescript-eslint/no-deprecated -- Not obsolete, but for development: the configuration allows no TLS only on loopback.
  const execute = issuer.startsWith("http:") ? [client.allowInsecureRequests] : [];
  const authentication = secret === undefined ? client.None() : undefined;
  const discover = (): Promise<client.Configuration> =>
    client.discovery(new URL(issuer), audience, secret, authentication, { execute, timeout: TIMEOUT_S });
  return {
    start: async (redirectUri) => {
      const server = await found.get(issuer, discover).catch((error: unknown) => reportAway(issuer, error));
      const flow = {
        state: client.randomState(),
        nonce: client.randomNonce(),
        codeVerifier: client.randomPKCECodeVerifier(),
      };
      const url = client.buildAuthorizationUrl(server, {
        redirect_uri: redirectUri,
        scope,
        state: flow.state,
        nonce: flow.nonce,
        code_challenge: await client.calculatePKCECodeChallenge(flow.codeVerifier),
        code_challenge_method: "S256",
      });
      return { url: url.href, flow };
    },
    finish: async (callback, { state, nonce, codeVerifier }) => {
      try {
        const server = await found.get(issuer, discover);
        const tokens = await client.authorizationCodeGrant(server, callback, {
          pkceCodeVerifier: codeVerifier,
          expectedState: state,
          expectedNonce: nonce,
          idTokenExpected: true,
        });
        return tokens.id_token === undefined ? { reason: "it has sent no token" } : { token: tokens.id_token };
      } catch (error) {
        return { reason: reasonOf(error) ?? reportAway(issuer, error) };
      }
    },
  };
}

/** Returns the reason why the issuer or its answer ends the flow; undefined if the issuer does not answer. */
function reasonOf(error: unknown): string | undefined {
  if (error instanceof client.AuthorizationResponseError || error instanceof client.ResponseBodyError)
    return [error.error, error.error_description].filter((each) => each !== undefined).join(": ");
  if (!(error instanceof client.ClientError)) return undefined;
  const { code } = error;
  const isAway = code === undefined || ["OAUTH_TIMEOUT", "OAUTH_RESPONSE_IS_NOT_CONFORM"].includes(code);
  return isAway ? undefined : [error.message, claimOf(error)].filter((each) => each !== undefined).join(": ");
}

/** Returns the name of the invalid claim, without its value. */
function claimOf({ cause }: client.ClientError): string | undefined {
  const inner: unknown = cause instanceof Error ? cause.cause : undefined;
  if (typeof inner !== "object" || inner === null || !("claim" in inner)) return undefined;
  return typeof inner.claim === "string" ? inner.claim : undefined;
}

function reportAway(issuer: string, cause: unknown): never {
  return throwFault(
    { code: "unavailable", dependency: `the issuer of tokens ${issuer}`, retryAfterMs: 1000 },
    { cause },
  );
}

async function readSecret(path: string): Promise<string> {
  const text = await readFile(path, "utf8").catch((error: unknown) =>
    throwFault({
      code: "invalid_request",
      field: "GATEWAY_OIDC_CLIENT_SECRET_FILE",
      reason: error instanceof Error ? error.message : String(error),
    }),
  );
  return text.trim();
}
