import type { IncomingMessage, ServerResponse } from "node:http";
import { buildFailureStatus } from "../apiserver/status.ts";
import { WATCH_TOO_OLD } from "./build-fault-answer.ts";
import type { PassedWatch } from "./open-watches.ts";

/** Headers of one connection, which are not forwarded. */
export const CONNECTION_HEADERS = [
  "connection",
  "keep-alive",
  "transfer-encoding",
  "upgrade",
  "proxy-connection",
  "te",
];

const NEWLINE = 10;
const EXPIRED_EVENT = `${JSON.stringify({ type: "ERROR", object: buildFailureStatus(WATCH_TOO_OLD) })}\n`;

/** Passes an answer on as it arrives, and returns the operations on it meanwhile. When either side ends, so does the other. */
export function passAnswer(incoming: IncomingMessage, response: ServerResponse): Omit<PassedWatch, "request"> {
  let mode: "passing" | "silent" | "expiring" = "passing";
  let isBetweenLines = true;
  writeHead(incoming, response);
  const pass = (chunk: Buffer): void => {
    isBetweenLines = chunk.at(-1) === NEWLINE;
    if (response.write(chunk)) return;
    incoming.pause();
    response.once("drain", () => incoming.resume());
  };
  const endExpired = (): void => {
    response.end(EXPIRED_EVENT);
    incoming.destroy();
  };
  incoming.on("data", (chunk: Buffer) => {
    if (mode === "silent" || response.writableEnded) return;
    if (mode === "passing") {
      pass(chunk);
      return;
    }
    const end = chunk.indexOf(NEWLINE);
    pass(end < 0 ? chunk : chunk.subarray(0, end + 1));
    if (end >= 0) endExpired();
  });
  incoming.once("end", () => {
    if (mode !== "silent") response.end();
  });
  incoming.once("error", () => {
    if (mode !== "silent" && !response.writableEnded) response.destroy();
  });
  return {
    drop: () => response.destroy(),
    silence: () => {
      mode = "silent";
      incoming.resume();
    },
    expire: () => {
      if (!String(incoming.headers["content-type"]).startsWith("application/json")) response.destroy();
      else if (isBetweenLines) endExpired();
      else mode = "expiring";
    },
  };
}

function writeHead(incoming: IncomingMessage, response: ServerResponse): void {
  for (const [name, values] of Object.entries(incoming.headersDistinct)) {
    if (values !== undefined && !CONNECTION_HEADERS.includes(name)) response.setHeader(name, values);
  }
  response.writeHead(incoming.statusCode ?? 502);
  response.flushHeaders();
}
