import { findFault } from "@muster/faults";
import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { buildLegacyOrderBytes } from "../build-signed-bytes.ts";
import { parsePublicKey } from "../user-id.ts";
import { readSigner, verifySignature } from "./ed25519.ts";

const SEED = Array.from({ length: 32 }, (_, at) => at.toString(16).padStart(2, "0")).join("");
const PUBLIC = "03a107bff3ce10be1d70dd18e74bc09967e4d6309ba50d5f1ddc8664125531b8";
const USER = "FAe4sisG95oZ42w7buUn5qEE4TAnfTTFPiguZUHmhiF";
const signer = readSigner("key", SEED);
const hex = (bytes: Uint8Array): string => Buffer.from(bytes).toString("hex");
/** The bytes that nodes of the original sign for a result: the number of its state, its message and its data. */
const resultBytes = (state: number, text: string) => new Uint8Array([state, ...new TextEncoder().encode(text)]);

describe("the golden vectors of the original", () => {
  it("have the public key and the user id", () => {
    expect(hex(signer.publicKey)).toBe(PUBLIC);
    expect(signer.userId).toBe(USER);
    expect(hex(parsePublicKey(USER) ?? new Uint8Array())).toBe(PUBLIC);
  });

  it.each([
    [
      "an order",
      buildLegacyOrderBytes({ engine: "node1", user: USER, type: "volume", data: '{"size":20,"type":"ssd"}' }),
      "1e4c9680b2ce6fb9478b0d65db41b92bcdfb1a00878e094958b6f4eb5f87c092067761d6c9f9153d1d4febd076b267c411616ed1e48d45442731228ef7ff7f02",
    ],
    [
      "a result",
      resultBytes(1, '{"volume_id":"1-1"}'),
      "5f4454020b61bdb3328949a15c025c90a10349c2847fa22bf5899bcd62d6a432da123ba77589a9595489f60ad81dfb1903f34dd446804617677bea82c5bfdc04",
    ],
    [
      "an error",
      resultBytes(0, "boomnull"),
      "3a3ebe7a8d538b0b7a0df370dfc936043d5e8ee4039c23ba282e779125b16dc111be2530d65425b0b54cfff47c124635f399f3364ef9a6ec377f9c6f6b955405",
    ],
  ])("have the signature of %s", (_what, content, signature) => {
    expect(hex(signer.sign(content))).toBe(signature);
    expect(verifySignature(signer.publicKey, content, Buffer.from(signature, "hex"))).toBe(true);
  });
});

it("refuses other content, and invalid signatures and keys", () => {
  const content = new TextEncoder().encode("content");
  const signature = signer.sign(content);
  expect(verifySignature(signer.publicKey, content, signature)).toBe(true);
  expect(verifySignature(signer.publicKey, new TextEncoder().encode("contents"), signature)).toBe(false);
  expect(verifySignature(signer.publicKey.subarray(1), content, signature)).toBe(false);
  expect(verifySignature(signer.publicKey, content, signature.subarray(1))).toBe(false);
  expect(verifySignature(new Uint8Array(32).fill(255), content, signature)).toBe(false);
  fc.assert(
    fc.property(fc.nat({ max: 63 }), fc.integer({ min: 1, max: 255 }), (at, flip) => {
      const altered = signature.map((byte, index) => (index === at ? byte ^ flip : byte));
      expect(verifySignature(signer.publicKey, content, altered)).toBe(false);
    }),
  );
});

it("reads a seed, or a seed with its public key", () => {
  expect(readSigner("key", ` ${SEED}${PUBLIC}\n`).userId).toBe(USER);
});

it.each([
  ["", "is no private key: 32 or 64 bytes in hexadecimal are needed"],
  [SEED.slice(2), "is no private key: 32 or 64 bytes in hexadecimal are needed"],
  [SEED.replace("0", "g"), "is no private key: 32 or 64 bytes in hexadecimal are needed"],
  [SEED + PUBLIC.replace("03", "04"), "its public half does not belong to its private half"],
])("refuses %j as a private key without repeating it", (text, reason) => {
  let fault;
  try {
    readSigner("PROVISION_KEY", text);
  } catch (error) {
    fault = findFault(error);
  }
  expect(fault).toEqual({ code: "invalid_request", field: "PROVISION_KEY", reason });
});
