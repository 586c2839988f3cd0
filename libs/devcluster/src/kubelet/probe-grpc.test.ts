import { once } from "node:events";
import { createServer, type ServerHttp2Stream } from "node:http2";
import { afterEach, expect, it } from "vitest";
import { buildHealthRequest, probeGrpc } from "./probe-grpc.ts";

let stop = new AsyncDisposableStack();
afterEach(async () => {
  await stop.disposeAsync();
  stop = new AsyncDisposableStack();
});

/** A health service that knows some services, by the numbers of `ServingStatus`. */
async function serve(statuses: Readonly<Record<string, number>>): Promise<number> {
  const server = createServer();
  const sessions = new Set<{ destroy: () => void }>();
  server.on("session", (session) => sessions.add(session));
  server.on("stream", (stream: ServerHttp2Stream, headers) => {
    const parts: Buffer[] = [];
    stream.on("data", (part: Buffer) => parts.push(part));
    stream.on("error", () => undefined);
    stream.on("end", () => {
      const request = Buffer.concat(parts);
      const service = Object.keys(statuses).find((name) => buildHealthRequest(name).equals(request));
      if (headers[":path"] !== "/grpc.health.v1.Health/Check" || service === undefined) {
        stream.respond({ ":status": 200, "grpc-status": "5" }, { endStream: true });
        return;
      }
      stream.respond({ ":status": 200, "content-type": "application/grpc" }, { waitForTrailers: true });
      stream.on("wantTrailers", () => stream.sendTrailers({ "grpc-status": "0" }));
      stream.end(Buffer.from([0, 0, 0, 0, 2, 8, statuses[service] ?? 0]));
    });
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  stop.defer(async () => {
    for (const session of sessions) session.destroy();
    server.close();
    await once(server, "close");
  });
  const address = server.address();
  return typeof address === "object" && address !== null ? address.port : 0;
}

it.each([
  ["", true],
  ["ready", true],
  ["starting", false],
  ["unknown-to-the-server", false],
])("asks for the health of service %j: %j", async (service, expected) => {
  const port = await serve({ "": 1, ready: 1, starting: 2 });
  expect(await probeGrpc({ host: "127.0.0.1", port, service, timeoutMs: 5_000 })).toBe(expected);
});

it("writes the name of a service as protobuf does, also one that is longer than 127 bytes", () => {
  expect([...buildHealthRequest("ab")]).toEqual([0, 0, 0, 0, 4, 0x0a, 2, 97, 98]);
  expect([...buildHealthRequest("a".repeat(200)).subarray(0, 8)]).toEqual([0, 0, 0, 0, 203, 0x0a, 0xc8, 0x01]);
});

it("does not hold where nobody listens, and where nobody answers in time", async () => {
  const silent = createServer();
  silent.listen(0, "127.0.0.1");
  await once(silent, "listening");
  const address = silent.address();
  const port = typeof address === "object" && address !== null ? address.port : 0;
  expect(await probeGrpc({ host: "127.0.0.1", port, service: "", timeoutMs: 50 })).toBe(false);
  silent.close();
  await once(silent, "close");
  expect(await probeGrpc({ host: "127.0.0.1", port, service: "", timeoutMs: 5_000 })).toBe(false);
});
