import { createHash } from "node:crypto";
import type { IncomingMessage } from "node:http";

/** One frame as it was sent: a message may come in several. */
export type Frame = { readonly opcode: number; readonly payload: Buffer };

export const OPCODE = { continuation: 0, text: 1, binary: 2, close: 8, ping: 9, pong: 10 } as const;

/** From RFC 6455: the same for everybody. */
const ACCEPT_SUFFIX = "258EAFA5-E914-47DA-95CA-C5AB0DC85B11";
const FRAME_MAX_BYTES = 1 << 20;
const EXTENDED_16 = 126;
const EXTENDED_64 = 127;
const HEADER_BYTES = 2;
const MASK_BYTES = 4;

/** The head of the answer that opens a WebSocket with the first of the server's protocols that the client offers; undefined when it offers none. */
export function acceptWebSocket(request: IncomingMessage, protocols: readonly string[]): string | undefined {
  const key = request.headers["sec-websocket-key"] ?? "";
  const offered = (request.headers["sec-websocket-protocol"] ?? "").split(",").map((name) => name.trim());
  const protocol = protocols.find((name) => offered.includes(name));
  if (key === "" || protocol === undefined) return undefined;
  const accept = createHash("sha1")
    .update(key + ACCEPT_SUFFIX)
    .digest("base64");
  const lines = ["Upgrade: websocket", "Connection: Upgrade", `Sec-WebSocket-Accept: ${accept}`];
  return ["HTTP/1.1 101 Switching Protocols", ...lines, `Sec-WebSocket-Protocol: ${protocol}`, "", ""].join("\r\n");
}

/** A whole message of a server. */
export function encodeFrame(opcode: number, payload: Buffer): Buffer {
  const { length } = payload;
  const head = Buffer.alloc(length < EXTENDED_16 ? HEADER_BYTES : length < 1 << 16 ? 4 : 10);
  head[0] = 0x80 | opcode;
  head[1] = length < EXTENDED_16 ? length : length < 1 << 16 ? EXTENDED_16 : EXTENDED_64;
  if (head[1] === EXTENDED_16) head.writeUInt16BE(length, HEADER_BYTES);
  if (head[1] === EXTENDED_64) head.writeBigUInt64BE(BigInt(length), HEADER_BYTES);
  return Buffer.concat([head, payload]);
}

/** Takes bytes of a client as they come and gives the frames that they complete; undefined once they are no frames of a client, or one is larger than 1 MiB. */
export function frameDecoder(): (chunk: Buffer) => Frame[] | undefined {
  let pending: Buffer = Buffer.alloc(0);
  return (chunk) => {
    pending = Buffer.concat([pending, chunk]);
    const frames: Frame[] = [];
    for (;;) {
      const taken = takeFrame(pending);
      if (taken === "wrong") return undefined;
      if (taken === "incomplete") return frames;
      frames.push(taken.frame);
      pending = pending.subarray(taken.bytes);
    }
  };
}

function takeFrame(bytes: Buffer): { readonly frame: Frame; readonly bytes: number } | "incomplete" | "wrong" {
  if (bytes.length < HEADER_BYTES) return "incomplete";
  const [first = 0, second = 0] = bytes;
  // Clients have to mask what they send.
  if ((second & 0x80) === 0) return "wrong";
  const short = second & 0x7f;
  const extended = short === EXTENDED_16 ? 2 : short === EXTENDED_64 ? 8 : 0;
  const maskAt = HEADER_BYTES + extended;
  const start = maskAt + MASK_BYTES;
  if (bytes.length < start) return "incomplete";
  const length =
    extended === 0
      ? short
      : extended === 2
        ? bytes.readUInt16BE(HEADER_BYTES)
        : Number(bytes.readBigUInt64BE(HEADER_BYTES));
  if (length > FRAME_MAX_BYTES) return "wrong";
  if (bytes.length < start + length) return "incomplete";
  const payload = Buffer.from(bytes.subarray(start, start + length));
  for (let index = 0; index < length; index++)
    payload[index] = payload.readUInt8(index) ^ (bytes[maskAt + (index % 4)] ?? 0);
  return { frame: { opcode: first & 0x0f, payload }, bytes: start + length };
}
