import fc from "fast-check";
import { expect, it } from "vitest";
import { encodeFrame, frameDecoder, OPCODE } from "./web-socket.ts";

/** As a client sends it. */
function masked(opcode: number, payload: Buffer, mask: Buffer): Buffer {
  const frame = encodeFrame(opcode, payload);
  const head = frame.subarray(0, frame.length - payload.length);
  head.writeUInt8(head.readUInt8(1) | 0x80, 1);
  const hidden = payload.map((byte, index) => byte ^ (mask[index % 4] ?? 0));
  return Buffer.concat([head, mask, hidden]);
}

it("reads every frame whole, however its bytes are cut", () => {
  const size = fc.oneof(fc.constantFrom(0, 125, 126, 65_535, 65_536), fc.nat(300));
  const message = size.map((length) => Buffer.alloc(length, "payload"));
  const anyMask = fc.uint8Array({ minLength: 4, maxLength: 4 }).map((bytes) => Buffer.from(bytes));
  fc.assert(
    fc.property(fc.array(message, { maxLength: 4 }), anyMask, fc.integer({ min: 1, max: 5000 }), (sent, mask, cut) => {
      const bytes = Buffer.concat(sent.map((payload) => masked(OPCODE.binary, payload, mask)));
      const decode = frameDecoder();
      const read: Buffer[] = [];
      for (let at = 0; at < bytes.length; at += cut) {
        for (const frame of decode(bytes.subarray(at, at + cut)) ?? []) read.push(frame.payload);
      }
      expect(Buffer.concat(read).equals(Buffer.concat(sent))).toBe(true);
      expect(read.map((payload) => payload.length)).toEqual(sent.map((payload) => payload.length));
    }),
    { numRuns: 50 },
  );
});

it("refuses a frame that is not masked, and one that says it is larger than 1 MiB", () => {
  expect(frameDecoder()(encodeFrame(OPCODE.binary, Buffer.from("plain")))).toBeUndefined();
  const large = Buffer.from([0x82, 0xff, 0, 0, 0, 0, 0, 0x10, 0, 1, 0, 0, 0, 0]);
  expect(frameDecoder()(large)).toBeUndefined();
});
