import { createHash, randomUUID } from "node:crypto";
import { once } from "node:events";
import { createServer, type IncomingMessage } from "node:http";
import type { AddressInfo } from "node:net";
import { text } from "node:stream/consumers";
import { exportJWK, generateKeyPair, SignJWT, type CryptoKey, type JWK } from "jose";

export type Key = { readonly kid: string; readonly privateKey: CryptoKey; readonly jwk: JWK };

export type Stated = {
  readonly claims?: object;
  readonly audience?: string;
  readonly by?: string;
  readonly expires?: string | number;
  readonly notBefore?: string | number;
};

/** An issuer whose keys and answers the test changes. Its user confirms every sign-in. */
export type TestIssuer = AsyncDisposable & {
  readonly url: string;
  /** The published keys; the first one signs. */
  keys: readonly Key[];
  readonly keyRequests: () => number;
  tokenOf(key: Key, stated?: Stated): Promise<string>;
  /** The result of the next sign-ins: claims of the token, or an error instead of a code. */
  signsIn: Stated | { readonly error: string };
  /** The secret of the client; undefined for a public client. */
  secret: string | undefined;
  /** The addresses to which browsers may return. */
  redirectUris: readonly string[];
  stop(): Promise<void>;
  start(): Promise<void>;
};

export async function makeKey(kid: string): Promise<Key> {
  const { privateKey, publicKey } = await generateKeyPair("ES256");
  return { kid, privateKey, jwk: { ...(await exportJWK(publicKey)), kid, alg: "ES256", use: "sig" } };
}

type Grant = { readonly nonce: string; readonly challenge: string; readonly redirectUri: string };
type Reply = { readonly status: number; readonly location?: string; readonly json?: object };

export async function startTestIssuer(): Promise<TestIssuer> {
  let keyRequests = 0;
  const grants = new Map<string, Grant>();
  const server = createServer((request, response) => {
    void answer(request).then(({ status, location, json }) => {
      const type = { "content-type": "application/json" };
      response.writeHead(status, { ...type, ...(location !== undefined && { location }) }).end(JSON.stringify(json));
    });
  }).listen(0, "127.0.0.1");
  await once(server, "listening");
  const { port } = server.address() as AddressInfo;
  const url = `http://127.0.0.1:${port}`;

  const answer = async (request: IncomingMessage): Promise<Reply> => {
    const { pathname, searchParams } = new URL(request.url ?? "", url);
    switch (pathname) {
      case "/.well-known/openid-configuration":
        return { status: 200, json: metadataOf(url) };
      case "/keys":
        keyRequests += 1;
        return { status: 200, json: { keys: issuer.keys.map(({ jwk }) => jwk) } };
      case "/authorize":
        return authorize(searchParams);
      case "/token":
        return giveToken(new URLSearchParams(await text(request)), request.headers.authorization);
      default:
        return { status: 404 };
    }
  };
  const authorize = (asked: URLSearchParams): Reply => {
    const given = Object.fromEntries(asked);
    const redirectUri = given["redirect_uri"] ?? "";
    const isKnown = issuer.redirectUris.includes(redirectUri) && given["client_id"] === "muster";
    const isWhole = given["response_type"] === "code" && given["code_challenge_method"] === "S256";
    if (!isKnown || !isWhole) return { status: 400, json: { error: "invalid_request" } };
    const location = new URL(redirectUri);
    location.searchParams.set("state", given["state"] ?? "");
    if ("error" in issuer.signsIn) location.searchParams.set("error", issuer.signsIn.error);
    else {
      const code = randomUUID();
      grants.set(code, { nonce: given["nonce"] ?? "", challenge: given["code_challenge"] ?? "", redirectUri });
      location.searchParams.set("code", code);
    }
    return { status: 302, location: location.href };
  };
  const giveToken = async (form: URLSearchParams, authorization: string | undefined): Promise<Reply> => {
    const code = form.get("code") ?? "";
    const grant = grants.get(code);
    grants.delete(code);
    const challenge = createHash("sha256")
      .update(form.get("code_verifier") ?? "")
      .digest("base64url");
    const shown = form.get("client_secret") ?? authorization;
    if (issuer.secret !== undefined && shown !== issuer.secret)
      return { status: 401, json: { error: "invalid_client" } };
    if (grant?.challenge !== challenge || grant.redirectUri !== form.get("redirect_uri") || "error" in issuer.signsIn)
      return { status: 400, json: { error: "invalid_grant" } };
    const stated = issuer.signsIn;
    const claims = { nonce: grant.nonce, ...stated.claims };
    const id_token = await issuer.tokenOf(issuer.keys[0]!, { ...stated, claims });
    return { status: 200, json: { access_token: "unused", token_type: "bearer", expires_in: 300, id_token } };
  };
  const stop = async (): Promise<void> => {
    if (!server.listening) return;
    server.closeAllConnections();
    await new Promise((resolve) => server.close(resolve));
  };
  const issuer: TestIssuer = {
    url,
    keys: [await makeKey("one")],
    keyRequests: () => keyRequests,
    tokenOf: (key, stated) => signToken(url, key, stated),
    signsIn: {},
    secret: undefined,
    redirectUris: [],
    stop,
    start: async () => {
      server.listen(port, "127.0.0.1");
      await once(server, "listening");
    },
    [Symbol.asyncDispose]: stop,
  };
  return issuer;
}

function metadataOf(issuer: string): object {
  return {
    issuer,
    jwks_uri: `${issuer}/keys`,
    authorization_endpoint: `${issuer}/authorize`,
    token_endpoint: `${issuer}/token`,
    response_types_supported: ["code"],
    subject_types_supported: ["public"],
    id_token_signing_alg_values_supported: ["ES256"],
    code_challenge_methods_supported: ["S256"],
  };
}

function signToken(
  url: string,
  key: Key,
  { claims = {}, audience = "muster", by = url, expires = "5m", notBefore = "0s" }: Stated = {},
): Promise<string> {
  return new SignJWT({ sub: "ada", groups: ["team-a"], ...claims })
    .setProtectedHeader({ alg: "ES256", kid: key.kid })
    .setIssuer(by)
    .setAudience(audience)
    .setIssuedAt()
    .setNotBefore(notBefore)
    .setExpirationTime(expires)
    .sign(key.privateKey);
}
