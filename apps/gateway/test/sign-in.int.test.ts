import { chmod, rm, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { until } from "@muster/testkit";
import { afterAll, beforeAll, expect, it, vi } from "vitest";
import { openBrowser, startGatewayWorld, type Browser, type Gateway, type GatewayWorld } from "./gateway-world.ts";

const COOKIE = "muster-session";

let world: GatewayWorld;
let gateway: Gateway;

beforeAll(async () => {
  world = await startGatewayWorld({
    listPools: () => ({ pools: [{ name: "a" }] }),
    cancelSession: () => ({ session: { name: "echo" } }),
  });
  gateway = await world.start();
});

afterAll(() => world[Symbol.asyncDispose]());

type Shown = { readonly user: string; readonly csrfToken: string; readonly expiresAtMs: number };

async function signIn(browser: Browser, token = gateway.token): Promise<Shown> {
  const { status, json } = await browser.ask("/auth/session", { method: "POST", body: { token } });
  expect(status).toBe(200);
  return json as Shown;
}

const cancel = (browser: Browser, headers: Readonly<Record<string, string>>) =>
  browser.ask("/v1/sessions/echo/cancel", { method: "POST", headers });

it("signs a browser in with a token, after which it reads without the token", async () => {
  const browser = openBrowser(gateway);
  expect((await browser.ask("/v1/pools")).status).toBe(401);
  expect((await browser.ask("/auth/session")).json).toMatchObject({ status: 401, code: "UNAUTHENTICATED" });
  const before = Date.now();
  const session = await signIn(browser);
  expect(session).toEqual({
    user: expect.stringMatching(/^local:/) as unknown,
    csrfToken: expect.stringMatching(/^[\w-]{32}$/) as unknown,
    namespace: "default",
    expiresAtMs: expect.any(Number) as unknown,
  });
  expect(session.expiresAtMs - before).toBeGreaterThan(43_000_000);
  expect((await browser.ask("/auth/session")).json).toEqual(session);
  expect((await browser.ask("/v1/pools")).json).toMatchObject({ items: [{ name: "a" }] });
});

it("hides the token from scripts, other sites and readers of the cookie", async () => {
  const browser = openBrowser(gateway);
  await signIn(browser);
  expect(browser.lastCookies).toHaveLength(1);
  const [line = ""] = browser.lastCookies;
  expect(line).toMatch(/^muster-session=[\w.-]+; Path=\/; Expires=[^;]+; HttpOnly; SameSite=Strict$/);
  const parts = line.split(/[=;.]/).map((part) => Buffer.from(part, "base64url").toString("latin1"));
  expect([line, ...parts].join()).not.toContain(gateway.token);
});

it("sets a cookie for TLS and this host only, unless the browser is on this machine", async () => {
  const browser = openBrowser(gateway);
  const headers = { host: "muster.example" };
  await browser.ask("/auth/session", { method: "POST", body: { token: gateway.token }, headers });
  expect(browser.lastCookies[0]).toMatch(/^__Host-muster-session=.*; Path=\/; .*HttpOnly; Secure; SameSite=Strict$/);
  expect((await browser.ask("/v1/pools", { headers })).status).toBe(200);
});

it.each([
  ["unknown", { token: "x".repeat(43) }, 401, undefined],
  ["empty", { token: "" }, 400, "token"],
  ["no text", { token: 1 }, 400, "token"],
  ["missing", {}, 400, "token"],
  ["followed by a field that does not exist", { token: "x", user: "root" }, 400, "user"],
  ["missing, and the body is a list", [], 400, "token"],
])("refuses a token that is %s", async (_what, body, status, field) => {
  const browser = openBrowser(gateway);
  const { json } = await browser.ask("/auth/session", { method: "POST", body });
  expect(json).toMatchObject({ status, ...(field !== undefined && { field }) });
  expect(browser.lastCookies).toEqual([]);
});

it("accepts changes only from a page that has the token of the session", async () => {
  const browser = openBrowser(gateway);
  const { csrfToken } = await signIn(browser);
  const other = await signIn(openBrowser(gateway));
  world.received.length = 0;
  for (const headers of [
    {},
    { "x-csrf-token": "" },
    { "x-csrf-token": other.csrfToken },
    { "x-csrf-token": csrfToken, origin: "http://evil.example" },
    { "x-csrf-token": csrfToken, origin: "null" },
    { "x-csrf-token": csrfToken, "sec-fetch-site": "cross-site" },
  ])
    expect((await cancel(browser, headers)).json, JSON.stringify(headers)).toMatchObject({ status: 403, code: "CSRF" });
  expect(world.received).toEqual([]);
  expect((await cancel(browser, { "x-csrf-token": csrfToken, origin: gateway.url })).status).toBe(200);
});

it("uses the token of the header, and not that of the cookie, if a request has both", async () => {
  const browser = openBrowser(gateway);
  await signIn(browser);
  expect((await browser.ask("/v1/pools", { token: "wrong" })).status).toBe(401);
  expect((await browser.ask("/v1/pools", { headers: { authorization: "Basic eDp5" } })).status).toBe(401);
  const changed = await browser.ask("/v1/sessions/echo/cancel", { method: "POST", token: gateway.token });
  expect(changed.status).toBe(200);
});

it("signs a browser out at the request of its page", async () => {
  const browser = openBrowser(gateway);
  const { csrfToken } = await signIn(browser);
  expect((await browser.ask("/auth/session", { method: "DELETE" })).json).toMatchObject({ code: "CSRF" });
  expect((await browser.ask("/v1/pools")).status).toBe(200);
  const headers = { "x-csrf-token": csrfToken };
  expect((await browser.ask("/auth/session", { method: "DELETE", headers })).status).toBe(204);
  expect(browser.cookies.size).toBe(0);
  expect((await browser.ask("/auth/session", { method: "DELETE" })).status).toBe(204);
});

it("begins no session for a page of another origin", async () => {
  const browser = openBrowser(gateway);
  const headers = { origin: "http://evil.example" };
  const { json } = await browser.ask("/auth/session", { method: "POST", body: { token: gateway.token }, headers });
  expect(json).toMatchObject({ status: 403, code: "CSRF" });
  expect(browser.cookies.size).toBe(0);
});

it("refuses cookies that are changed, cut, or of other keys", async () => {
  const browser = openBrowser(gateway);
  await signIn(browser);
  const sealed = browser.cookies.get(COOKIE)!;
  const middle = Math.floor(sealed.length / 2);
  const flipped = sealed[middle] === "A" ? "B" : "A";
  const other = await world.start();
  const there = openBrowser(other);
  there.cookies.set(COOKIE, sealed);
  expect((await there.ask("/v1/pools")).status).toBe(401);
  for (const text of [sealed.slice(0, -1), sealed.slice(0, middle) + flipped + sealed.slice(middle + 1), "x", "..."]) {
    browser.cookies.set(COOKIE, text);
    expect((await browser.ask("/v1/pools")).status, text).toBe(401);
  }
});

it("accepts a session at every replica with its key, and while keys are rotated", async () => {
  const [old, next] = ["a".repeat(40), "b".repeat(40)];
  const withKeys = async (name: string, keys: readonly string[]): Promise<Gateway> => {
    const file = join(world.directory, name);
    await writeFile(file, `${keys.join("\n")}\n`, { mode: 0o600 });
    return world.start({ GATEWAY_SESSION_KEY_FILE: file });
  };
  const browser = openBrowser(await withKeys("old", [old]));
  await signIn(browser);
  const knows = async (keys: readonly string[]): Promise<number> => {
    const replica = openBrowser(await withKeys("next", keys));
    replica.cookies.set(COOKIE, browser.cookies.get(COOKIE)!);
    return (await replica.ask("/v1/pools")).status;
  };
  expect(await knows([old])).toBe(200);
  expect(await knows([next, old])).toBe(200);
  expect(await knows([next])).toBe(401);
});

it.each([
  ["is missing", undefined, 0o600, "ENOENT"],
  ["is empty", "\n", 0o600, "1 to 16 keys"],
  ["has a short key", `${"a".repeat(32)}\nsecret`, 0o600, "key 2 has fewer than 32 characters"],
  ["others can read", "a".repeat(40), 0o644, "others can use it, its mode is 0644"],
  ["its group can write", "a".repeat(40), 0o660, "others can use it, its mode is 0660"],
])("does not start with a file of keys that %s, and logs none of them", async (_what, text, mode, problem) => {
  const file = join(world.directory, "keys");
  await rm(file, { force: true });
  if (text !== undefined) await writeFile(file, text);
  if (text !== undefined) await chmod(file, mode);
  const failure: unknown = await world.start({ GATEWAY_SESSION_KEY_FILE: file }).catch((error: unknown) => error);
  expect(String(failure)).toContain(problem);
  expect(String(failure)).not.toMatch(/secret|aaaa/);
});

it.each([
  ["muster.example.org", 200],
  ["muster.example.org:8480", 200],
  ["[::1]:8480", 200],
  ["a b", 400],
  ["ada@example.org", 400],
  ["example.org/path", 400],
  ["example.org:99999", 400],
])("answers a request for the host %s with %i", async (host, expected) => {
  for (const path of ["/auth/methods", "/openapi.json", "/v1/pools"]) {
    const { status, json } = await gateway.ask(path, { headers: { host } });
    expect([path, status]).toEqual([path, expected]);
    if (expected === 400) expect(json).toMatchObject({ code: "MALFORMED_REQUEST" });
  }
});

it("counts requests with the cookie and with the token of one user together", async () => {
  const limited = await world.start({ GATEWAY_REQUESTS_PER_SECOND: "1", GATEWAY_REQUESTS_BURST: "3" });
  const browser = openBrowser(limited);
  await signIn(browser);
  const answered = [await browser.ask("/v1/pools"), await limited.ask("/v1/pools"), await browser.ask("/v1/pools")];
  expect(answered.map(({ status }) => status)).toEqual([200, 200, 429]);
  expect(answered[2]!.headers["retry-after"]).toBe("1");
});

it("ends a session and its watches when it expires", async () => {
  const quick = await world.start({ GATEWAY_STREAM_CHECK_MS: "100" });
  const browser = openBrowser(quick);
  const { expiresAtMs } = await signIn(browser);
  await using stream = await quick.stream("/v1/pools?watch=true", {
    cookie: `${COOKIE}=${browser.cookies.get(COOKIE)!}`,
  });
  expect(stream.status).toBe(200);
  vi.useFakeTimers({ toFake: ["Date"], now: expiresAtMs });
  try {
    await until("the stream is over", () => stream.over() !== undefined);
    expect(stream.events().at(-1)).toMatchObject({ event: "closed", data: { code: "UNAUTHENTICATED" } });
    expect((await browser.ask("/auth/session")).status).toBe(401);
  } finally {
    vi.useRealTimers();
  }
});

it("states how a browser can sign in, and the address of traces", async () => {
  const { status, json } = await gateway.ask("/auth/methods", { token: null });
  expect([status, json]).toEqual([200, { token: true, oidc: false }]);
  const traced = await world.start({ GATEWAY_JAEGER_URL: "https://jaeger.example" });
  expect((await traced.ask("/auth/methods", { token: null })).json).toMatchObject({
    jaegerUrl: "https://jaeger.example",
  });
  expect((await gateway.ask("/auth/oidc/start", { token: null })).json).toMatchObject({ status: 404 });
});

it("logs the users who sign in, and neither a token nor a cookie", async () => {
  const browser = openBrowser(gateway);
  await signIn(browser);
  const lines = gateway.logged.join("\n");
  expect(lines).toContain("a user signs in with a token");
  expect(lines).not.toContain(gateway.token);
  expect(lines).not.toContain(browser.cookies.get(COOKIE));
});
