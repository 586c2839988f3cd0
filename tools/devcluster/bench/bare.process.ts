/** A node HTTPS server that knows nothing: it answers as many bytes as it is told to, and tells its watchers as many. Prints one line of JSON when it answers. */
import { createServer } from "node:https";
import type { ServerResponse } from "node:http";
import { once } from "node:events";
import { makeAuthority, signLoopbackServer } from "../src/apiserver/certificates.ts";

const authority = await makeAuthority("bare");
const certificate = await signLoopbackServer(authority, "bare server");
const watchers = new Set<ServerResponse>();
const texts = new Map<number, Buffer>();
const textOf = (size: number): Buffer => {
  const known = texts.get(size) ?? Buffer.alloc(size, "x");
  texts.set(size, known);
  return known;
};

const server = createServer({ ...certificate, minVersion: "TLSv1.2" }, (request, response) => {
  const { pathname, searchParams } = new URL(request.url ?? "/", "https://127.0.0.1");
  const answer = textOf(Number(searchParams.get("bytes") ?? 0));
  if (pathname === "/watch") {
    response.writeHead(200, { "content-type": "application/json" });
    response.flushHeaders();
    watchers.add(response);
    response.once("close", () => watchers.delete(response));
    return;
  }
  const chunks: Buffer[] = [];
  request.on("data", (chunk: Buffer) => chunks.push(chunk));
  request.once("end", () => {
    Buffer.concat(chunks);
    const event = searchParams.get("event");
    if (event !== null) {
      const line = textOf(Number(event));
      line[line.length - 1] = 10;
      for (const watcher of watchers) watcher.write(line);
    }
    response.writeHead(200, { "content-type": "application/json", "content-length": answer.length });
    response.end(answer);
  });
});
server.listen(0, "127.0.0.1");
await once(server, "listening");
const address = server.address();
const port = typeof address === "object" && address !== null ? address.port : 0;
process.stdout.write(`${JSON.stringify({ url: `https://127.0.0.1:${port}`, ca: authority.cert, token: "bare" })}\n`);
process.on("message", () => process.send?.({ rss: process.memoryUsage().rss }));
