import { findFault } from "@muster/faults";
import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { MAX_SEALED_CHARACTERS, SEALED_PREFIX, MAX_SECRET_CHARACTERS, type SealedPlace } from "../secret-fields.ts";
import { buildUserId } from "../user-id.ts";
import { makeSigner, readSigner } from "./ed25519.ts";
import { openText, sealText } from "./seal.ts";
import { toX25519 } from "./x25519.ts";

const user = readSigner("key", "01".repeat(32));
const engine = readSigner("key", "02".repeat(32));
const PLACE: SealedPlace = { kind: "order", id: "4711-1", user: user.userId, field: "secret_env.TOKEN" };
const NOT_OPENED = {
  code: "invalid_request",
  field: "data.secret_env.TOKEN",
  reason: "cannot be opened: it was sealed for another key, lease, user or field, or altered",
};

function faultIn(work: () => unknown): unknown {
  try {
    return work();
  } catch (error) {
    return findFault(error);
  }
}

describe("pinned vectors", () => {
  it("have the key of libsodium's on the other curve", () => {
    const { publicKey } = readSigner("key", "421151a459faeade3d247115f94aedae42318124095afabe4d1451a559faedee");
    expect(Buffer.from(toX25519(publicKey)).toString("hex")).toBe(
      "f1814f0e8ff1043d8a44d25babff3cedcae6c22c3edaa48f857ae70de2baae50",
    );
  });

  it("have the sealed text, which a second implementation has opened", () => {
    const sealed = "muster-sealed-v1:GcKSWyoo2H209YaFhi2ya0tzZuXKMVeeW9Pfo9HXMS4eJQKIxJti6Arh7latOl9mj-JzheoEWQ";
    expect(sealText(user, engine.userId, "hunter2", PLACE)).toBe(sealed);
    expect(openText(engine, sealed, PLACE)).toBe("hunter2");
  });
});

it("opens every text that was sealed to it, and seals deterministically", () => {
  fc.assert(
    fc.property(fc.string({ unit: "grapheme", maxLength: 200 }), (text) => {
      const [from, to] = [makeSigner().signer, makeSigner().signer];
      const sealed = sealText(from, to.userId, text, PLACE);
      expect(openText(to, sealed, PLACE)).toBe(text);
      expect(sealText(from, to.userId, text, PLACE)).toBe(sealed);
      expect(faultIn(() => openText(from, sealed, PLACE))).toEqual(NOT_OPENED);
    }),
    { numRuns: 25 },
  );
});

it("gives two texts, places or recipients no common bytes", () => {
  const keyIn = (sealed: string) =>
    Buffer.from(sealed.slice(SEALED_PREFIX.length), "base64url").subarray(0, 32).toString("hex");
  const keys = [
    sealText(user, engine.userId, "hunter2", PLACE),
    sealText(user, engine.userId, "hunter3", PLACE),
    sealText(user, engine.userId, "hunter2", { ...PLACE, field: "secret_env.OTHER" }),
    sealText(user, makeSigner().signer.userId, "hunter2", PLACE),
    sealText(engine, engine.userId, "hunter2", PLACE),
  ].map(keyIn);
  expect(new Set(keys).size).toBe(keys.length);
});

it.each<[string, Partial<SealedPlace>]>([
  ["a result", { kind: "result" }],
  ["another lease", { id: "4711-2" }],
  ["the order of another user", { user: engine.userId }],
  ["another field", { field: "secret_env.TOKEM" }],
])("opens no text that was copied into %s", (_where, changes) => {
  const place = { ...PLACE, ...changes };
  const sealed = sealText(user, engine.userId, "hunter2", PLACE);
  expect(faultIn(() => openText(engine, sealed, place))).toMatchObject({ field: `data.${place.field}` });
});

it("opens no altered or unsealed text, and shows none of its content", () => {
  const sealed = Buffer.from(sealText(user, engine.userId, "hunter2", PLACE).slice(SEALED_PREFIX.length), "base64url");
  const open = (bytes: Uint8Array) =>
    faultIn(() => openText(engine, SEALED_PREFIX + Buffer.from(bytes).toString("base64url"), PLACE));
  fc.assert(
    fc.property(fc.nat({ max: sealed.length - 1 }), fc.integer({ min: 0, max: 7 }), (at, bit) => {
      // X25519 ignores the highest bit of a key; the salt includes it.
      expect(open(sealed.map((byte, index) => (index === at ? byte ^ (1 << bit) : byte)))).toEqual(NOT_OPENED);
    }),
  );
  expect(open(sealed.subarray(0, 47))).toEqual(NOT_OPENED);
  expect(open(new Uint8Array(64))).toEqual(NOT_OPENED);
  expect(faultIn(() => openText(engine, "hunter2", PLACE))).toEqual(NOT_OPENED);
});

it("refuses recipients without a key, and weak public keys whose shared secret is public", () => {
  expect(faultIn(() => sealText(engine, "1", "hunter2", PLACE))).toMatchObject({
    reason: 'cannot be sealed: "1" is no public key',
  });
  const neutral = buildUserId(Uint8Array.from({ length: 32 }, (_, at) => (at === 0 ? 1 : 0)));
  expect(faultIn(() => sealText(engine, neutral, "hunter2", PLACE))).toMatchObject({
    reason: `cannot be sealed: "${neutral}" is no public key`,
  });
});

it("seals the longest secret to no more than a sealed text may have", () => {
  const longest = "\u{ffff}".repeat(MAX_SECRET_CHARACTERS);
  expect(sealText(user, engine.userId, longest, PLACE).length).toBe(MAX_SEALED_CHARACTERS);
});
