import { once } from "node:events";
import { writeFile } from "node:fs/promises";
import { connect as connectHttp2 } from "node:http2";
import { connect, type Socket } from "node:net";
import { join } from "node:path";
import { connect as connectTls } from "node:tls";
import { makeSignedCertificate, makeCertificateAuthority, until } from "@muster/testkit";
import { afterAll, beforeAll, expect, it } from "vitest";
import { startGatewayWorld, writeCertificate, type Gateway, type GatewayWorld } from "./gateway-world.ts";
import { RawConnection } from "./raw-request.ts";

/** The slow connections of this file end after these times. */
const PATIENCE = { GATEWAY_HEADERS_TIMEOUT_MS: "300", GATEWAY_REQUEST_TIMEOUT_MS: "600" };

let world: GatewayWorld;
let gateway: Gateway;
let secure: Gateway;

beforeAll(async () => {
  world = await startGatewayWorld({ listPools: () => ({ pools: [{ name: "a" }] }) });
  gateway = await world.start(PATIENCE);
  secure = await world.start({ ...PATIENCE, ...(await writeCertificate(world.directory)) });
});

afterAll(() => world[Symbol.asyncDispose]());

it("ends a request whose headers arrive too slowly", async () => {
  await using raw = new RawConnection(gateway.port);
  await raw.write("GET /v1/pools HTTP/1.1\r\nhost: x\r\nx-slow: ");
  await until("the connection is closed", () => raw.isOver);
  expect(raw.text).toContain("HTTP/1.1 408");
  expect(raw.text).toContain("REQUEST_TIMEOUT");
});

it("refuses a path with a raw NUL as invalid HTTP", async () => {
  await using raw = new RawConnection(gateway.port);
  await raw.write("GET /v1/sessions/a\0b HTTP/1.1\r\nhost: x\r\n\r\n");
  await until("the connection is closed", () => raw.isOver);
  expect(raw.text).toContain("HTTP/1.1 400");
});

it("refuses headers of 20 kB", async () => {
  await using raw = new RawConnection(gateway.port);
  await raw.write(`GET /v1/pools HTTP/1.1\r\nhost: x\r\nx-large: ${"a".repeat(20_000)}\r\n\r\n`);
  await until("the connection is closed", () => raw.isOver);
  expect(raw.text).toContain("HEADERS_TOO_LARGE");
});

it("serves again soon after slow clients, which never close, have taken every connection", async () => {
  const small = await world.start({ ...PATIENCE, GATEWAY_CONNECTIONS_MAX: "20" });
  const slow = Array.from({ length: 20 }, () => new RawConnection(small.port, { isHalfOpen: true }));
  for (const each of slow) await each.write("GET /v1/pools HTTP/1.1\r\nhost: x\r\nx-slow: ");
  await until("the slow clients are connected", () => slow.every(({ socket }) => !socket.connecting));
  await using refused = new RawConnection(small.port);
  await until("a further connection is closed without an answer", () => refused.isOver);
  expect(refused.text).toBe("");
  await until("the slow clients have their answer", () => slow.every(({ text }) => text.includes("HTTP/1.1 408")));
  await until("the gateway serves", async () => (await small.ask("/v1/pools")).status === 200);
  for (const each of slow) await each[Symbol.asyncDispose]();
});

/** Opens a connection that stays half-open, on which the client sends nothing. */
async function openSilent({ port }: Gateway): Promise<Socket> {
  const socket = connect({ port, host: "127.0.0.1", allowHalfOpen: true });
  socket.on("error", () => undefined).resume();
  await once(socket, "connect");
  return socket;
}

/** Opens a connection of HTTP/2 that stays half-open, on which the client sends its preface, its settings and the frame. */
const openFrames =
  (frame: readonly number[]) =>
  async (to: Gateway): Promise<Socket> => {
    const silent = await openSilent(to);
    silent.removeAllListeners("error").pause();
    const socket = connectTls({ socket: silent, rejectUnauthorized: false, ALPNProtocols: ["h2"] });
    socket.on("error", () => undefined).resume();
    await once(socket, "secureConnect");
    socket.write("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n");
    socket.write(Buffer.from([0, 0, 0, 4, 0, 0, 0, 0, 0, ...frame]));
    return silent;
  };

/** A frame HEADERS without END_HEADERS. */
const openHeaders = openFrames([0, 0, 1, 1, 0, 0, 0, 0, 1, 0x82]);
/** A frame GOAWAY with NO_ERROR. */
const openGoAway = openFrames([0, 0, 8, 7, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]);

it.each<[string, (to: Gateway) => Promise<Socket>]>([
  ["begin no TLS handshake", openSilent],
  ["never end their headers over HTTP/2", openHeaders],
  ["end their session of HTTP/2, but not the connection", openGoAway],
])("serves again soon after clients that %s have taken every connection", async (_what, open) => {
  const tls = await writeCertificate(world.directory);
  const small = await world.start({ ...PATIENCE, ...tls, GATEWAY_CONNECTIONS_MAX: "4" });
  const clients = await Promise.all(Array.from({ length: 4 }, () => open(small)));
  await until("the gateway serves", async () => (await small.ask("/v1/pools")).status === 200);
  for (const each of clients) each.destroy();
});

it("keeps a silent connection of HTTP/2 while a request of it is in flight", async () => {
  const tls = await writeCertificate(world.directory);
  const small = await world.start({ ...PATIENCE, ...tls, GATEWAY_CONNECTIONS_MAX: "2" });
  const answer = Promise.withResolvers<object>();
  world.answers["getSession"] = () => answer.promise;
  const session = connectHttp2(small.url, { rejectUnauthorized: false });
  const stream = session.request({ ":path": "/v1/sessions/slow", authorization: `Bearer ${small.token}` });
  const replied = once(stream, "response");
  await once(session, "goaway");
  const later = await openHeaders(small);
  await until("a later connection without a request is closed", async () => {
    return (await small.ask("/v1/pools")).status === 200;
  });
  answer.resolve({ session: { name: "slow" } });
  const [reply] = (await replied) as [Record<string, unknown>];
  expect(reply[":status"]).toBe(200);
  session.destroy();
  later.destroy();
});

it("does not wait for watches over HTTP/2 when it stops", async () => {
  const stopped = await world.start(await writeCertificate(world.directory));
  const session = connectHttp2(stopped.url, { rejectUnauthorized: false });
  session.on("error", () => undefined);
  const watch = session.request({ ":path": "/v1/pools?watch=true", authorization: `Bearer ${stopped.token}` });
  watch.on("error", () => undefined);
  await once(watch, "response");
  await stopped[Symbol.asyncDispose]();
  await until("the connection is closed", () => session.destroyed);
});

it("serves HTTP/2 and HTTP/1.1 with TLS, and requires TLS of browsers", async () => {
  const { status, headers } = await secure.ask("/v1/pools");
  expect([status, headers["strict-transport-security"]]).toEqual([200, "max-age=31536000"]);
  const session = connectHttp2(secure.url, { rejectUnauthorized: false });
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
    const made = await makeSignedCertificate(await makeCertificateAuthority("test-authority"), {
      commonName,
      use: "server",
    });
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
  await writeFile(files.cert, "");
  await until("the empty file is logged", () => secure.logged.some((line) => line.includes("a file is empty")));
  expect(await served()).toBe("first");
  await renew("second", ["cert", "key"]);
  await until("the second certificate is served", async () => (await served()) === "second");
});
