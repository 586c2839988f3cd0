import { once } from "node:events";
import { createServer, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import { faultOf } from "@muster/faults";
import { exportJWK, generateKeyPair, SignJWT, type CryptoKey, type JWK } from "jose";
import { afterEach, beforeEach, expect, it } from "vitest";
import { oidcAuthenticator } from "../src/adapters/oidc.ts";

type Key = { readonly kid: string; readonly privateKey: CryptoKey; readonly jwk: JWK };

/** An issuer whose keys the test rotates. */
let server: Server;
let issuer: string;
let published: Key[];
let keyRequests: number;

async function makeKey(kid: string): Promise<Key> {
  const { privateKey, publicKey } = await generateKeyPair("ES256");
  return { kid, privateKey, jwk: { ...(await exportJWK(publicKey)), kid, alg: "ES256", use: "sig" } };
}

beforeEach(async () => {
  published = [await makeKey("one")];
  keyRequests = 0;
  server = createServer(({ url }, response) => {
    if (url === "/.well-known/openid-configuration")
      response.end(JSON.stringify({ issuer, jwks_uri: `${issuer}/keys` }));
    else {
      keyRequests += 1;
      response.end(JSON.stringify({ keys: published.map(({ jwk }) => jwk) }));
    }
  }).listen(0, "127.0.0.1");
  await once(server, "listening");
  issuer = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
});

afterEach(() => {
  server.close();
  server.closeAllConnections();
});

const config = () => ({ issuer, audience: "muster", userClaim: "sub", groupsClaim: "groups", prefix: "oidc:" });

type Stated = {
  readonly claims?: object;
  readonly audience?: string;
  readonly by?: string;
  readonly expires?: string | number;
  readonly notBefore?: string | number;
};

function tokenOf(
  key: Key,
  { claims = {}, audience = "muster", by = issuer, expires = "5m", notBefore = "0s" }: Stated = {},
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

const nowSeconds = (): number => Math.floor(Date.now() / 1000);

it("knows the user and the groups of a token, with its prefix", async () => {
  const authenticate = oidcAuthenticator(config());
  expect(await authenticate(await tokenOf(published[0]!))).toEqual({
    name: "oidc:ada",
    groups: ["oidc:team-a", "system:authenticated"],
  });
});

it("cannot name users and groups of Kubernetes", async () => {
  const claims = { sub: "system:admin", groups: ["system:masters"] };
  const user = await oidcAuthenticator(config())(await tokenOf(published[0]!, { claims }));
  expect(user).toEqual({ name: "oidc:system:admin", groups: ["oidc:system:masters", "system:authenticated"] });
});

it("allows clocks to differ by 30 s", async () => {
  const authenticate = oidcAuthenticator(config());
  const late = await tokenOf(published[0]!, { expires: nowSeconds() - 20 });
  const early = await tokenOf(published[0]!, { notBefore: nowSeconds() + 20 });
  expect([(await authenticate(late))?.name, (await authenticate(early))?.name]).toEqual(["oidc:ada", "oidc:ada"]);
});

it("refuses tokens that are expired, early, for others, of others, or changed", async () => {
  const authenticate = oidcAuthenticator(config());
  const key = published[0]!;
  const whole = await tokenOf(key);
  const [head = "", , signature = ""] = whole.split(".");
  const forged = Buffer.from(JSON.stringify({ iss: issuer, aud: "muster", sub: "root", exp: 9e9 })).toString(
    "base64url",
  );
  const none = Buffer.from(JSON.stringify({ alg: "none" })).toString("base64url");
  const tokens = {
    expired: await tokenOf(key, { expires: nowSeconds() - 120 }),
    early: await tokenOf(key, { notBefore: nowSeconds() + 120 }),
    audience: await tokenOf(key, { audience: "other" }),
    issuer: await tokenOf(key, { by: "https://issuer.example" }),
    key: await tokenOf({ ...(await makeKey("one")), kid: "one" }),
    changed: `${head}.${forged}.${signature}`,
    unsigned: `${none}.${forged}.`,
    text: "no-token",
  };
  for (const [what, token] of Object.entries(tokens)) expect(await authenticate(token), what).toBeUndefined();
});

it("takes a new key of the issuer, and refuses the one before once it is gone", async () => {
  const authenticate = oidcAuthenticator(config(), 0);
  const before = published[0]!;
  expect(await authenticate(await tokenOf(before))).toBeDefined();
  published = [await makeKey("two")];
  expect(await authenticate(await tokenOf(published[0]!))).toMatchObject({ name: "oidc:ada" });
  expect(await authenticate(await tokenOf(before))).toBeUndefined();
});

it("does not ask the issuer for every unknown key", async () => {
  const authenticate = oidcAuthenticator(config());
  for (let index = 0; index < 10; index += 1) await authenticate(await tokenOf(await makeKey(`other-${index}`)));
  expect(keyRequests).toBe(1);
});

it("counts an address only when the issuer has verified it", async () => {
  const authenticate = oidcAuthenticator({ ...config(), userClaim: "email" });
  const claims = { email: "ada@example.com" };
  expect(await authenticate(await tokenOf(published[0]!, { claims }))).toBeUndefined();
  const verified = await tokenOf(published[0]!, { claims: { ...claims, email_verified: true } });
  expect(await authenticate(verified)).toMatchObject({ name: "oidc:ada@example.com" });
});

it("reports an issuer that is away, and recovers", async () => {
  const { port } = server.address() as AddressInfo;
  server.close();
  server.closeAllConnections();
  const authenticate = oidcAuthenticator(config());
  const token = await tokenOf(published[0]!);
  const failure: unknown = await authenticate(token).catch((error: unknown) => error);
  expect(faultOf(failure)).toMatchObject({ code: "unavailable", dependency: `the issuer of tokens ${issuer}` });
  expect(String((failure as Error).stack)).not.toContain(token);
  server.listen(port, "127.0.0.1");
  await once(server, "listening");
  expect(await authenticate(token)).toMatchObject({ name: "oidc:ada" });
});
