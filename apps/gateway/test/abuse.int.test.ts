import { until } from "@muster/testkit";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { PROTOCOLS, startGatewayWorld, type Gateway, type GatewayWorld, type Protocol } from "./gateway-world.ts";
import { openRawRequest, openRawRequests, type RawAsking } from "./raw-request.ts";

/** The slow requests of this file end after these times. */
const PATIENCE = { GATEWAY_HEADERS_TIMEOUT_MS: "300", GATEWAY_REQUEST_TIMEOUT_MS: "600" };

let world: GatewayWorld;
let gateway: Gateway;

/** Starts the gateway of a suite. */
function prepare(protocol: Protocol): void {
  beforeAll(async () => {
    world = await startGatewayWorld({ listPools: () => ({ pools: [{ name: "a" }] }) }, protocol);
    gateway = await world.start({ ...PATIENCE, GATEWAY_REQUESTS_MAX: "2", GATEWAY_CALL_TIMEOUT_MS: "1000" });
  });

  afterAll(() => world[Symbol.asyncDispose]());
}

const open = (asking: RawAsking, at = gateway) => openRawRequest(at, asking);
const post = (headers: RawAsking["headers"] = {}): RawAsking => ({
  method: "POST",
  path: "/v1/sessions",
  headers: { "content-type": "application/json", ...headers },
});

async function isServing(): Promise<void> {
  expect((await gateway.ask("/v1/pools")).status).toBe(200);
}

describe.each(PROTOCOLS)("over %s", (protocol) => {
  prepare(protocol);

  it("refuses a body of 100 MB by its announced length, without reading it", async () => {
    await using raw = open(post({ "content-length": "104857600" }));
    await until("the request is refused", () => raw.text().includes("BODY_TOO_LARGE"));
    expect(raw.status()).toBe(413);
    await isServing();
  });

  it("stops reading a body of 100 MB that arrives in chunks", async () => {
    await using raw = open(post());
    const isRefused = () => raw.isOver() || raw.status() === 413;
    let written = 0;
    for (; written < 1600 && !isRefused(); written += 1) await raw.write("x".repeat(65_536));
    await until("the request is refused or cut off", isRefused);
    expect(written).toBeLessThan(1600);
    await isServing();
  });

  it("ends a request whose body arrives too slowly", async () => {
    await using raw = open(post({ "content-length": "10" }));
    await raw.write("{");
    await until("the request is over", raw.isOver);
    await isServing();
  });

  it.each([
    ["has `..`", "/v1/sessions/../../etc/passwd", 404, "NOT_FOUND"],
    ["has an encoded `..`", "/v1/sessions/%2e%2e", 400, "INVALID_REQUEST"],
    ["has an encoded slash", "/v1/sessions/a%2Fb", 400, "INVALID_REQUEST"],
    ["has an encoded NUL", "/v1/sessions/a%00b", 400, "INVALID_REQUEST"],
    ["has a wildcard of subjects", "/v1/sessions/*", 400, "INVALID_REQUEST"],
    ["is not well encoded", "/v1/sessions/%zz", 400, "MALFORMED_REQUEST"],
    ["has 10 kB", `/v1/sessions/${"a".repeat(10_000)}`, 414, "PATH_TOO_LONG"],
    ["has a name of 300 characters", `/v1/sessions/${"a".repeat(300)}`, 400, "INVALID_REQUEST"],
  ])("refuses a path that %s", async (_what, path, status, code) => {
    await using raw = open({ path });
    await until("the answer arrives", () => raw.text().includes('"code"'));
    expect(raw.status()).toBe(status);
    expect(raw.text()).toContain(`"code":"${code}"`);
    await isServing();
  });

  it("refuses requests over the limit of concurrent ones with a time to retry, and serves the others", async () => {
    const { promise, resolve } = Promise.withResolvers<object>();
    let waiting = 0;
    world.answers["listNodes"] = () => {
      waiting += 1;
      return promise;
    };
    const slow = [gateway.ask("/v1/nodes"), gateway.ask("/v1/nodes?limit=1")];
    await until("both requests are in flight", () => waiting === 2);
    const refused = await gateway.ask("/v1/pools");
    expect([refused.status, refused.headers["retry-after"]]).toEqual([503, "1"]);
    expect(refused.json).toMatchObject({ code: "LIMIT_EXCEEDED", fault: { limit: 2 } });
    for (const probe of ["/healthz", "/readyz"]) expect((await gateway.ask(probe)).status).toBe(200);
    resolve({ nodes: [] });
    expect((await Promise.all(slow)).map(({ status }) => status)).toEqual([200, 200]);
    await isServing();
  });

  it("ends an answer that its client does not read, and serves others", async () => {
    const name = "x".repeat(60);
    let asked = 0;
    world.answers["listNodes"] = () => {
      asked += 1;
      return { nodes: Array.from({ length: 10_000 }, (_, n) => ({ name: `${name}${n}` })) };
    };
    const unread = ["/v1/nodes", "/v1/nodes?limit=1"].map((path) => open({ path }));
    for (const each of unread) each.pause();
    await until("the service has both requests", () => asked === 2);
    await until("others are served", async () => (await gateway.ask("/v1/pools")).status === 200);
    for (const each of unread) await each[Symbol.asyncDispose]();
  });

  it("serves others while an address sends slow bodies without credentials", async () => {
    const proxied = await world.start({ GATEWAY_TRUSTED_PROXIES: "127.0.0.0/8", GATEWAY_REQUESTS_MAX: "40" });
    const headers = { ...post({ "content-length": "10" }).headers, "x-forwarded-for": "192.0.2.1" };
    const slow = openRawRequests(proxied, 40, { method: "POST", path: "/auth/session", headers });
    for (const each of slow) await each.write("{");
    await until("those over its share are refused", () => slow.filter((each) => each.status() === 503).length === 30);
    const from = (address: string) => proxied.ask("/v1/pools", { headers: { "x-forwarded-for": address } });
    expect((await from("192.0.2.2")).status).toBe(200);
    const refused = await from("192.0.2.1");
    expect([refused.status, refused.headers["retry-after"]]).toEqual([503, "1"]);
    expect(refused.json).toMatchObject({ code: "LIMIT_EXCEEDED", fault: { limit: 10 } });
    await until("its slow requests are ended", () => slow.every((each) => each.isOver() || each.status() === 503));
    expect((await from("192.0.2.1")).status).toBe(200);
    for (const each of slow) await each[Symbol.asyncDispose]();
  });

  it.each<[string, number, RawAsking]>([
    ["has no known token", 401, { path: "/v1/pools", headers: { authorization: "Bearer unknown" } }],
    ["has a path of 10 kB", 414, { path: `/v1/${"a".repeat(10_000)}` }],
  ])("does not count a refused request that is over: one that %s", async (_what, status, asking) => {
    const small = await world.start({ GATEWAY_REQUESTS_MAX: "8" });
    for (let number = 0; number < 10; number += 1) {
      await using raw = open(asking, small);
      await until("the request is refused", () => raw.status() === status);
    }
    await until("the address is served", async () => (await small.ask("/v1/pools")).status === 200);
  });

  it.each<[string, RawAsking]>([
    ["before its body is complete", post({ "content-length": "10" })],
    ["before its answer", { path: "/v1/sessions/slow" }],
    ["before its answer, and is HEAD", { method: "HEAD", path: "/v1/sessions/slow" }],
  ])("does not count a request that its client aborts %s", async (_what, asking) => {
    world.answers["getSession"] = () => new Promise<object>(() => undefined);
    const small = await world.start({ GATEWAY_REQUESTS_MAX: "8", GATEWAY_CALL_TIMEOUT_MS: "60000" });
    const statusOf = async () => (await small.ask("/v1/pools")).status;
    const aborted = openRawRequests(small, 8, asking);
    await until("the limit is reached", async () => (await statusOf()) === 503);
    for (const each of aborted) await each[Symbol.asyncDispose]();
    await until("the address is served", async () => (await statusOf()) === 200);
  });

  it.each([
    ["the client behind a trusted proxy", "127.0.0.0/8", [401, 429, 401]],
    ["the proxy itself where none is trusted", "10.0.0.1", [401, 429, 429]],
  ])("limits %s", async (_, proxies, expected) => {
    const limited = await world.start({ GATEWAY_FAILED_TOKENS_BURST: "1", GATEWAY_TRUSTED_PROXIES: proxies });
    const statuses: number[] = [];
    for (const address of ["192.0.2.1", "192.0.2.1", "192.0.2.2"]) {
      const headers = { "x-forwarded-for": address };
      statuses.push((await limited.ask("/v1/pools", { token: "unknown", headers })).status);
    }
    expect(statuses).toEqual(expected);
  });

  it("aborts the call of a client that disconnects", async () => {
    let waiting = 0;
    const { promise, resolve } = Promise.withResolvers<object>();
    world.answers["listQueues"] = () => {
      waiting += 1;
      return promise;
    };
    {
      await using _raw = open({ path: "/v1/queues" });
      await until("the service has the request", () => waiting === 1);
    }
    // Both slots are free immediately, although the service has not answered.
    await until("the slot is free", async () => {
      const both = await Promise.all([gateway.ask("/v1/pools"), gateway.ask("/v1/pools")]);
      return both.every(({ status }) => status === 200);
    });
    resolve({ queues: [] });
  });
});

describe("over any protocol", () => {
  prepare("HTTP/1.1");

  it.each(["//v1/sessions", "/V1/sessions", "//auth/session", "/Assets/x"])(
    "answers %s with a problem",
    async (path) => {
      await using raw = open({ path });
      await until("the answer arrives", () => raw.text().includes('"code":"NOT_FOUND"'));
      expect(raw.status()).toBe(404);
    },
  );

  it("refuses a body whose type is not JSON", async () => {
    const headers = { "content-type": "text/plain" };
    const { json } = await gateway.ask("/v1/sessions", { method: "POST", body: "{}", headers });
    expect(json).toMatchObject({ status: 415, code: "UNSUPPORTED_MEDIA_TYPE" });
  });

  it.each(["/v1/jobs/default", "/v1/sessions", "/v1/plan/jobs/default"])(
    "refuses a body for %s that is nested 50,000 deep",
    async (path) => {
      const body = `{"spec":${"[".repeat(50_000)}${"]".repeat(50_000)}}`;
      for (const headers of [{}, { "idempotency-key": "deep" }]) {
        const { json } = await gateway.ask(path, { method: "POST", body, headers });
        expect(json).toMatchObject({ status: 400, code: "INVALID_REQUEST", field: "body" });
      }
    },
  );

  it("refuses a sign-in over 16 kB", async () => {
    const body = { token: "a".repeat(17_000) };
    const { json } = await gateway.ask("/auth/session", { method: "POST", body, token: null });
    expect(json).toMatchObject({ status: 413, detail: "the body is over 16384 bytes" });
  });

  it("refuses an address that sends unknown tokens, with a time to retry, and accepts known tokens from it", async () => {
    const limited = await world.start({ GATEWAY_FAILED_TOKENS_PER_MINUTE: "1", GATEWAY_FAILED_TOKENS_BURST: "3" });
    const statuses: number[] = [];
    for (const token of ["a", "b", null, "c", "d", "e"])
      statuses.push((await limited.ask("/v1/pools", { token })).status);
    expect(statuses).toEqual([401, 401, 401, 401, 429, 429]);
    const refused = await limited.ask("/v1/pools", { token: "f" });
    const seconds = Number(refused.headers["retry-after"]);
    expect(refused.json).toMatchObject({ code: "LIMIT_EXCEEDED", status: 429 });
    expect([seconds > 0, seconds <= 60]).toEqual([true, true]);
    expect((await limited.ask("/v1/pools")).status).toBe(200);
    const reports = limited.logged.filter((line) => line.includes("too many unknown tokens"));
    expect(reports).toEqual([expect.stringContaining('"address":"127.0.0.1","refused":1')]);
  });

  it("refuses an address that tries tokens at the sign-in, which shares the limit of the API", async () => {
    const limited = await world.start({ GATEWAY_FAILED_TOKENS_PER_MINUTE: "1", GATEWAY_FAILED_TOKENS_BURST: "2" });
    const signIn = (token: string) => limited.ask("/auth/session", { method: "POST", body: { token }, token: null });
    expect((await limited.ask("/v1/pools", { token: "a" })).status).toBe(401);
    expect((await signIn("b")).status).toBe(401);
    const refused = await signIn("c");
    expect(refused.json).toMatchObject({ code: "LIMIT_EXCEEDED", status: 429 });
    expect(Number(refused.headers["retry-after"])).toBeGreaterThan(0);
    expect((await signIn(limited.token)).status).toBe(200);
  });
});
