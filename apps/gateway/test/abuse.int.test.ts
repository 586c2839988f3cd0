import { once } from "node:events";
import { writeFile } from "node:fs/promises";
import { connect as connectHttp2 } from "node:http2";
import { connect, type Socket } from "node:net";
import { join } from "node:path";
import { connect as connectTls } from "node:tls";
import { signedCertificate, certificateAuthority, until } from "@muster/testkit";
import { afterAll, beforeAll, expect, it } from "vitest";
import { startGatewayWorld, type Gateway, type GatewayWorld } from "./gateway-world.ts";

/** The slow requests of this file end after these times. */
const PATIENCE = { GATEWAY_HEADERS_TIMEOUT_MS: "300", GATEWAY_REQUEST_TIMEOUT_MS: "600" };

let world: GatewayWorld;
let gateway: Gateway;

beforeAll(async () => {
  world = await startGatewayWorld({ listPools: () => ({ pools: [{ name: "a" }] }) });
  gateway = await world.start({ ...PATIENCE, GATEWAY_REQUESTS_MAX: "2", GATEWAY_CALL_TIMEOUT_MS: "1000" });
});

afterAll(() => world[Symbol.asyncDispose]());

/** A connection on which the test writes arbitrary bytes. */
class Raw implements AsyncDisposable {
  readonly socket: Socket;
  text = "";
  isOver = false;

  constructor(port: number) {
    this.socket = connect(port, "127.0.0.1");
    this.socket.setEncoding("utf8").on("data", (part: string) => (this.text += part));
    this.socket.on("close", () => (this.isOver = true)).on("error", () => undefined);
  }

  head(lines: readonly string[]): void {
    this.socket.write([...lines, "host: x", `authorization: Bearer ${gateway.token}`, "", ""].join("\r\n"));
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.socket.destroy();
    if (!this.isOver) await once(this.socket, "close");
  }
}

async function isServing(): Promise<void> {
  expect((await gateway.ask("/v1/pools")).status).toBe(200);
}

it("refuses a body of 100 MB by its announced length, without reading it", async () => {
  await using raw = new Raw(gateway.port);
  raw.head(["POST /v1/sessions HTTP/1.1", "content-type: application/json", "content-length: 104857600"]);
  await until("the request is refused", () => raw.text.includes("BODY_TOO_LARGE"));
  expect(raw.text).toContain("HTTP/1.1 413");
  await isServing();
});

it("stops reading a body of 100 MB that arrives in chunks", async () => {
  await using raw = new Raw(gateway.port);
  raw.head(["POST /v1/sessions HTTP/1.1", "content-type: application/json", "transfer-encoding: chunked"]);
  const chunk = `${(65_536).toString(16)}\r\n${"x".repeat(65_536)}\r\n`;
  let written = 0;
  for (; written < 1600 && !raw.isOver && !raw.text.includes("413"); written += 1) {
    if (!raw.socket.write(chunk))
      await Promise.race([once(raw.socket, "drain"), once(raw.socket, "close")]).catch(() => undefined);
  }
  await until("the request is refused or cut off", () => raw.isOver || raw.text.includes("BODY_TOO_LARGE"));
  expect(written).toBeLessThan(1600);
  await isServing();
});

it("ends a request whose headers arrive too slowly", async () => {
  await using raw = new Raw(gateway.port);
  raw.socket.write("GET /v1/pools HTTP/1.1\r\nhost: x\r\nx-slow: ");
  await until("the connection is closed", () => raw.isOver);
  expect(raw.text).toContain("HTTP/1.1 408");
  expect(raw.text).toContain("REQUEST_TIMEOUT");
  await isServing();
});

it("serves again soon after slow clients have taken every connection", async () => {
  const small = await world.start({ ...PATIENCE, GATEWAY_CONNECTIONS_MAX: "20" });
  const slow = Array.from({ length: 20 }, () => new Raw(small.port));
  for (const { socket } of slow) socket.write("GET /v1/pools HTTP/1.1\r\nhost: x\r\nx-slow: ");
  await until("the slow clients are connected", () => slow.every(({ socket }) => !socket.connecting));
  await using refused = new Raw(small.port);
  await until("a further connection is closed without an answer", () => refused.isOver);
  expect(refused.text).toBe("");
  await until("the slow connections are closed", () => slow.every(({ isOver }) => isOver));
  expect((await small.ask("/v1/pools")).status).toBe(200);
});

it("ends a request whose body arrives too slowly", async () => {
  await using raw = new Raw(gateway.port);
  raw.head(["POST /v1/sessions HTTP/1.1", "content-type: application/json", "content-length: 10"]);
  raw.socket.write("{");
  await until("the connection is closed", () => raw.isOver);
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
  await using raw = new Raw(gateway.port);
  raw.head([`GET ${path} HTTP/1.1`]);
  await until("the answer arrives", () => raw.text.includes('"code"'));
  expect(raw.text).toContain(`HTTP/1.1 ${status} `);
  expect(raw.text).toContain(`"code":"${code}"`);
  await isServing();
});

it("refuses a path with a raw NUL as invalid HTTP", async () => {
  await using raw = new Raw(gateway.port);
  raw.head(["GET /v1/sessions/a\0b HTTP/1.1"]);
  await until("the connection is closed", () => raw.isOver);
  expect(raw.text).toContain("HTTP/1.1 400");
  await isServing();
});

it("refuses headers of 20 kB", async () => {
  await using raw = new Raw(gateway.port);
  raw.head(["GET /v1/pools HTTP/1.1", `x-large: ${"a".repeat(20_000)}`]);
  await until("the connection is closed", () => raw.isOver);
  expect(raw.text).toContain("HEADERS_TOO_LARGE");
  await isServing();
});

it("refuses a body whose type is not JSON", async () => {
  const headers = { "content-type": "text/plain" };
  const { json } = await gateway.ask("/v1/sessions", { method: "POST", body: "{}", headers });
  expect(json).toMatchObject({ status: 415, code: "UNSUPPORTED_MEDIA_TYPE" });
});

it("refuses requests over the limit of concurrent ones with a time to retry, and serves the others", async () => {
  const { promise, resolve } = Promise.withResolvers<object>();
  let waiting = 0;
  world.answers["listNodes"] = () => {
    waiting += 1;
    return promise;
  };
  const slow = [gateway.ask("/v1/nodes"), gateway.ask("/v1/nodes")];
  await until("both requests are in flight", () => waiting === 2);
  const refused = await gateway.ask("/v1/pools");
  expect([refused.status, refused.headers["retry-after"]]).toEqual([503, "1"]);
  expect(refused.json).toMatchObject({ code: "LIMIT_EXCEEDED", fault: { limit: 2 } });
  for (const probe of ["/healthz", "/readyz"]) expect((await gateway.ask(probe)).status).toBe(200);
  resolve({ nodes: [] });
  expect((await Promise.all(slow)).map(({ status }) => status)).toEqual([200, 200]);
  await isServing();
});

const slowSignIn = (address: string): string =>
  [
    "POST /auth/session HTTP/1.1",
    "host: x",
    "content-type: application/json",
    "content-length: 10",
    `x-forwarded-for: ${address}`,
    "",
    "{",
  ].join("\r\n");

it("serves others while an address sends slow bodies without credentials", async () => {
  const proxied = await world.start({ GATEWAY_TRUSTED_PROXIES: "127.0.0.0/8", GATEWAY_REQUESTS_MAX: "40" });
  const slow = Array.from({ length: 40 }, () => new Raw(proxied.port));
  for (const { socket } of slow) socket.write(slowSignIn("192.0.2.1"));
  await until(
    "those over its share are refused",
    () => slow.filter(({ text }) => text.includes(" 503 ")).length === 30,
  );
  const from = (address: string) => proxied.ask("/v1/pools", { headers: { "x-forwarded-for": address } });
  expect((await from("192.0.2.2")).status).toBe(200);
  const refused = await from("192.0.2.1");
  expect([refused.status, refused.headers["retry-after"]]).toEqual([503, "1"]);
  expect(refused.json).toMatchObject({ code: "LIMIT_EXCEEDED", fault: { limit: 10 } });
  await until("its slow requests are ended", () => slow.every(({ isOver, text }) => isOver || text.includes(" 503 ")));
  expect((await from("192.0.2.1")).status).toBe(200);
  for (const each of slow) await each[Symbol.asyncDispose]();
});

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
    await using raw = new Raw(gateway.port);
    raw.head(["GET /v1/queues HTTP/1.1"]);
    await until("the service has the request", () => waiting === 1);
  }
  // Both slots are free immediately, although the service has not answered.
  await until("the slot is free", async () => {
    const both = await Promise.all([gateway.ask("/v1/pools"), gateway.ask("/v1/pools")]);
    return both.every(({ status }) => status === 200);
  });
  resolve({ queues: [] });
});

it("serves HTTP/2 and HTTP/1.1 with TLS, and requires TLS of browsers", async () => {
  const authority = await certificateAuthority("test-authority");
  const { cert, key } = await signedCertificate(authority, { commonName: "gateway", use: "server" });
  const files = { cert: join(world.directory, "tls.crt"), key: join(world.directory, "tls.key") };
  await writeFile(files.cert, cert);
  await writeFile(files.key, key);
  const secure = await world.start({
    ...PATIENCE,
    GATEWAY_TLS_CERT_FILE: files.cert,
    GATEWAY_TLS_KEY_FILE: files.key,
  });
  const { status, headers } = await secure.ask("/v1/pools");
  expect([status, headers["strict-transport-security"]]).toEqual([200, "max-age=31536000"]);
  const session = connectHttp2(secure.url, { ca: authority.cert });
  const stream = session.request({ ":path": "/v1/pools", authorization: `Bearer ${secure.token}` });
  const [reply] = (await once(stream, "response")) as [Record<string, unknown>];
  expect(reply[":status"]).toBe(200);
  const watch = session.request({ ":path": "/v1/pools?watch=true", authorization: `Bearer ${secure.token}` });
  let events = "";
  watch.setEncoding("utf8").on("data", (part: string) => (events += part));
  await until("the list arrives as events", () => events.includes("event: synced"));
  expect(events).toContain("event: added");
  session.destroy();
});

it("serves a renewed certificate without a restart, and the old one while the files do not match", async () => {
  const files = { cert: join(world.directory, "renewed.crt"), key: join(world.directory, "renewed.key") };
  const renew = async (commonName: string, parts: readonly ("cert" | "key")[]): Promise<void> => {
    const made = await signedCertificate(await certificateAuthority("test-authority"), { commonName, use: "server" });
    for (const part of parts) await writeFile(files[part], made[part]);
  };
  await renew("first", ["cert", "key"]);
  const secure = await world.start({
    GATEWAY_TLS_CERT_FILE: files.cert,
    GATEWAY_TLS_KEY_FILE: files.key,
    GATEWAY_TLS_CHECK_MS: "20",
  });
  const served = async (): Promise<string> => {
    const socket = connectTls({ port: secure.port, host: "127.0.0.1", rejectUnauthorized: false });
    await once(socket, "secureConnect");
    const { subject } = socket.getPeerCertificate();
    socket.destroy();
    return String(subject.CN);
  };
  expect(await served()).toBe("first");
  await renew("half", ["cert"]);
  await until("the mismatch is logged", () => secure.logged.some((line) => line.includes("certificate is not usable")));
  expect(await served()).toBe("first");
  await renew("second", ["cert", "key"]);
  await until("the second certificate is served", async () => (await served()) === "second");
});
