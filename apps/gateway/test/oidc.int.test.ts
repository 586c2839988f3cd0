import { findFault } from "@muster/faults";
import { afterEach, beforeEach, expect, it, vi } from "vitest";
import { oidcAuthenticator } from "../src/adapters/oidc.ts";
import { makeKey, startTestIssuer, type TestIssuer } from "./test-issuer.ts";

let issuer: TestIssuer;

beforeEach(async () => {
  issuer = await startTestIssuer();
});

afterEach(() => issuer[Symbol.asyncDispose]());

const config = () => ({
  issuer: issuer.url,
  audience: "muster",
  userClaim: "sub",
  groupsClaim: "groups",
  prefix: "oidc:",
  clientSecretFile: undefined,
  scope: "openid",
});

const nowSeconds = (): number => Math.floor(Date.now() / 1000);

it("reads the user and the groups of a token, with its prefix", async () => {
  const authenticate = oidcAuthenticator(config());
  expect(await authenticate(await issuer.tokenOf(issuer.keys[0]!))).toEqual({
    name: "oidc:ada",
    groups: ["oidc:team-a", "system:authenticated"],
  });
});

it("cannot assign names of users and groups of Kubernetes", async () => {
  const claims = { sub: "system:admin", groups: ["system:masters"] };
  const user = await oidcAuthenticator(config())(await issuer.tokenOf(issuer.keys[0]!, { claims }));
  expect(user).toEqual({ name: "oidc:system:admin", groups: ["oidc:system:masters", "system:authenticated"] });
});

it("allows clocks to differ by 30 s", async () => {
  const authenticate = oidcAuthenticator(config());
  const late = await issuer.tokenOf(issuer.keys[0]!, { expires: nowSeconds() - 20 });
  const early = await issuer.tokenOf(issuer.keys[0]!, { notBefore: nowSeconds() + 20 });
  expect([(await authenticate(late))?.name, (await authenticate(early))?.name]).toEqual(["oidc:ada", "oidc:ada"]);
});

it("refuses tokens that are expired, not yet valid, for another audience, of another issuer, or changed", async () => {
  const authenticate = oidcAuthenticator(config());
  const key = issuer.keys[0]!;
  const whole = await issuer.tokenOf(key);
  const [head = "", , signature = ""] = whole.split(".");
  const forged = Buffer.from(JSON.stringify({ iss: issuer.url, aud: "muster", sub: "root", exp: 9e9 })).toString(
    "base64url",
  );
  const none = Buffer.from(JSON.stringify({ alg: "none" })).toString("base64url");
  const tokens = {
    expired: await issuer.tokenOf(key, { expires: nowSeconds() - 120 }),
    early: await issuer.tokenOf(key, { notBefore: nowSeconds() + 120 }),
    audience: await issuer.tokenOf(key, { audience: "other" }),
    issuer: await issuer.tokenOf(key, { by: "https://issuer.example" }),
    key: await issuer.tokenOf({ ...(await makeKey("one")), kid: "one" }),
    changed: `${head}.${forged}.${signature}`,
    unsigned: `${none}.${forged}.`,
    text: "no-token",
  };
  for (const [what, token] of Object.entries(tokens)) expect(await authenticate(token), what).toBeUndefined();
});

it("accepts a new key of the issuer, and refuses the previous one after its removal", async () => {
  const authenticate = oidcAuthenticator(config(), { cooldownMs: 0 });
  const before = issuer.keys[0]!;
  expect(await authenticate(await issuer.tokenOf(before))).toBeDefined();
  issuer.keys = [await makeKey("two")];
  expect(await authenticate(await issuer.tokenOf(issuer.keys[0]!))).toMatchObject({ name: "oidc:ada" });
  expect(await authenticate(await issuer.tokenOf(before))).toBeUndefined();
});

it("does not call the issuer for every unknown key", async () => {
  const authenticate = oidcAuthenticator(config());
  for (let index = 0; index < 10; index += 1) await authenticate(await issuer.tokenOf(await makeKey(`other-${index}`)));
  expect(issuer.keyRequests()).toBe(1);
});

it("accepts an address only if the issuer has verified it", async () => {
  const authenticate = oidcAuthenticator({ ...config(), userClaim: "email" });
  const claims = { email: "ada@example.com" };
  expect(await authenticate(await issuer.tokenOf(issuer.keys[0]!, { claims }))).toBeUndefined();
  const verified = await issuer.tokenOf(issuer.keys[0]!, { claims: { ...claims, email_verified: true } });
  expect(await authenticate(verified)).toMatchObject({ name: "oidc:ada@example.com" });
});

it("reports an unavailable issuer, and recovers", async () => {
  await issuer.stop();
  const authenticate = oidcAuthenticator(config());
  const token = await issuer.tokenOf(issuer.keys[0]!);
  const failure: unknown = await authenticate(token).catch((error: unknown) => error);
  expect(findFault(failure)).toMatchObject({ code: "unavailable", dependency: `the issuer of tokens ${issuer.url}` });
  expect(String((failure as Error).stack)).not.toContain(token);
  await issuer.start();
  expect(await authenticate(token)).toMatchObject({ name: "oidc:ada" });
});

it("verifies tokens with the last keys for a day while the issuer is away, and then with its new keys", async () => {
  const reported: unknown[] = [];
  const authenticate = oidcAuthenticator(config(), { cooldownMs: 30_000, report: (error) => reported.push(error) });
  const [key] = issuer.keys;
  const token = await issuer.tokenOf(key!, { expires: "72h" });
  const next = await makeKey("next");
  expect((await authenticate(token))?.name).toBe("oidc:ada");
  await issuer.stop();
  const { now } = Date;
  const monotonicNow = performance.now.bind(performance);
  let passedMs = 0;
  const clocks = [
    vi.spyOn(Date, "now").mockImplementation(() => now() + passedMs),
    vi.spyOn(performance, "now").mockImplementation(() => monotonicNow() + passedMs),
  ];
  try {
    for (const minutes of [11, 70, 23 * 60]) {
      passedMs = minutes * 60_000;
      expect((await authenticate(token))?.name, `after ${minutes} min`).toBe("oidc:ada");
    }
    expect(reported).toHaveLength(3);
    // Within the cooldown the issuer is not asked again.
    expect((await authenticate(token))?.name).toBe("oidc:ada");
    expect(reported).toHaveLength(3);
    const unknown: unknown = await authenticate(await issuer.tokenOf(next)).catch((error: unknown) => error);
    expect(findFault(unknown)?.code).toBe("unavailable");
    passedMs = 25 * 3_600_000;
    const late: unknown = await authenticate(token).catch((error: unknown) => error);
    expect(findFault(late)?.code).toBe("unavailable");
    passedMs += 60_000;
    issuer.keys = [next];
    await issuer.start();
    expect(await authenticate(token)).toBeUndefined();
    expect((await authenticate(await issuer.tokenOf(next)))?.name).toBe("oidc:ada");
  } finally {
    for (const clock of clocks) clock.mockRestore();
  }
});
