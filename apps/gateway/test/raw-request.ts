import { once } from "node:events";
import { connect as connectHttp2, type ClientHttp2Session } from "node:http2";
import { connect, type Socket } from "node:net";
import type { Writable } from "node:stream";
import type { Gateway } from "./gateway-world.ts";

/** A request on its own connection, whose path, headers and body the test writes unchecked. */
export type RawRequest = AsyncDisposable & {
  /** Writes a part of the body. Resolves when the connection takes more, or the request is over. */
  write(part: string): Promise<void>;
  /** Undefined until the headers of the answer arrive. */
  readonly status: () => number | undefined;
  /** The body of the answer so far; over HTTP/1.1 with its headers. */
  readonly text: () => string;
  /** Whether the gateway has ended the request: over HTTP/1.1 its connection, over HTTP/2 its stream. */
  readonly isOver: () => boolean;
  /** Stops and resumes reading the answer. */
  pause(): void;
  resume(): void;
};

export type RawAsking = {
  readonly method?: string;
  readonly path: string;
  readonly headers?: Readonly<Record<string, string>>;
};

/** Sends the head of a request over the protocol of the gateway: HTTP/2 with TLS, and HTTP/1.1 without. */
export function openRawRequest(gateway: Gateway, asking: RawAsking): RawRequest {
  return openRawRequests(gateway, 1, asking)[0]!;
}

/** Sends the heads of equal requests. Those of HTTP/2 share a connection, which ends with the first that is disposed of. */
export function openRawRequests(
  gateway: Gateway,
  count: number,
  { method = "GET", path, headers }: RawAsking,
): readonly RawRequest[] {
  const asking = { method, path, headers: { authorization: `Bearer ${gateway.token}`, ...headers } };
  if (!gateway.url.startsWith("https:")) return Array.from({ length: count }, () => openHttp1(gateway, asking));
  const session = connectHttp2(gateway.url, { rejectUnauthorized: false });
  session.on("error", () => undefined);
  return Array.from({ length: count }, () => openHttp2(session, asking));
}

function openHttp1({ port }: Gateway, { method, path, headers }: Required<RawAsking>): RawRequest {
  const raw = new RawConnection(port);
  const isChunked = method === "POST" && !("content-length" in headers);
  const framing = { host: "x", ...(isChunked && { "transfer-encoding": "chunked" }) };
  const lines = Object.entries({ ...framing, ...headers }).map(([name, value]) => `${name}: ${value}`);
  raw.socket.write([`${method} ${path} HTTP/1.1`, ...lines, "", ""].join("\r\n"));
  return {
    write: (part) => raw.write(isChunked ? `${part.length.toString(16)}\r\n${part}\r\n` : part),
    status: () => {
      const status = /^HTTP\/1\.1 (\d+)/.exec(raw.text)?.[1];
      return status === undefined ? undefined : Number(status);
    },
    text: () => raw.text,
    isOver: () => raw.isOver,
    pause: () => raw.socket.pause(),
    resume: () => raw.socket.resume(),
    [Symbol.asyncDispose]: () => raw[Symbol.asyncDispose](),
  };
}

function openHttp2(session: ClientHttp2Session, { method, path, headers }: Required<RawAsking>): RawRequest {
  const stream = session.request({ ":method": method, ":path": path, ...headers }, { endStream: method !== "POST" });
  let status: number | undefined;
  let text = "";
  let isOver = false;
  stream
    .setEncoding("utf8")
    .on("response", (reply) => (status = reply[":status"]))
    .on("data", (part: string) => (text += part))
    .on("close", () => (isOver = true))
    .on("error", () => undefined);
  return {
    write: async (part) => {
      if (stream.writable && !stream.write(part)) await drain(stream);
    },
    status: () => status,
    text: () => text,
    isOver: () => isOver,
    pause: () => stream.pause(),
    resume: () => stream.resume(),
    [Symbol.asyncDispose]: async () => {
      session.destroy();
      if (!isOver) await new Promise((resolve) => stream.once("close", resolve));
    },
  };
}

/** Resolves when the stream takes more, or is closed. */
async function drain(stream: Writable): Promise<void> {
  const done = new AbortController();
  const { signal } = done;
  await Promise.race([once(stream, "drain", { signal }), once(stream, "close", { signal })]).catch(() => undefined);
  done.abort();
}

/** A connection on which the test writes arbitrary bytes. */
export class RawConnection implements AsyncDisposable {
  readonly socket: Socket;
  text = "";
  isOver = false;

  /** A half-open connection stays open after the gateway has ended its side. */
  constructor(port: number, { isHalfOpen = false } = {}) {
    this.socket = connect({ port, host: "127.0.0.1", allowHalfOpen: isHalfOpen });
    this.socket.setEncoding("utf8").on("data", (part: string) => (this.text += part));
    this.socket.on("close", () => (this.isOver = true)).on("error", () => undefined);
  }

  async write(text: string): Promise<void> {
    if (!this.socket.write(text)) await drain(this.socket);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.socket.destroy();
    if (!this.isOver) await once(this.socket, "close");
  }
}
