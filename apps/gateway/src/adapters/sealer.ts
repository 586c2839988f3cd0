import { createHash, hkdfSync, randomBytes } from "node:crypto";
import { open } from "node:fs/promises";
import { throwFault } from "@muster/faults";
import { EncryptJWT, errors, jwtDecrypt, type JWTPayload } from "jose";

/** The purpose of a sealed text: only an `open` with this purpose succeeds. */
export type Purpose = "session" | "sign-in";

/** Encrypts data that a browser stores for the gateway. Every replica with the same keys can decrypt it. */
export type Sealer = {
  seal(purpose: Purpose, claims: JWTPayload, expiresAtMs: number): Promise<string>;
  /** Returns undefined if the text has another key or purpose, was changed, or has expired. */
  open(purpose: Purpose, text: string): Promise<JWTPayload | undefined>;
};

const ALGORITHM = { alg: "dir", enc: "A256GCM" } as const;
const KEY_BYTES = 32;
const MIN_KEY_CHARACTERS = 32;
const MAX_KEYS = 16;
/** Permission bits of other users, and of a group that writes. A mounted Secret belongs to root, so its reader needs the group's read permission. */
const OTHERS = 0o027;
const FIELD = "GATEWAY_SESSION_KEY_FILE";

/** Seals with the first key, and opens with any key. */
export function makeSealer(secrets: readonly [string, ...string[]]): Sealer {
  const keys = new Map(secrets.map(keyOf));
  const [kid, first] = keyOf(secrets[0]);
  return {
    seal: (purpose, claims, expiresAtMs) =>
      new EncryptJWT(claims)
        .setProtectedHeader({ ...ALGORITHM, kid })
        .setAudience(purpose)
        .setExpirationTime(Math.ceil(expiresAtMs / 1000))
        .encrypt(first),
    open: async (purpose, text) => {
      try {
        const { payload } = await jwtDecrypt(text, ({ kid: id }) => keys.get(String(id)) ?? unknownKey(), {
          audience: purpose,
          requiredClaims: ["exp"],
          keyManagementAlgorithms: [ALGORITHM.alg],
          contentEncryptionAlgorithms: [ALGORITHM.enc],
        });
        return payload;
      } catch (error) {
        if (error instanceof errors.JOSEError) return undefined;
        throw error;
      }
    },
  };
}

/**
 * Reads the keys of the file; without a file, returns a random key. Throws FaultError invalid_request for a file without keys, and for a file that other users
 * can access.
 */
export async function readSessionKeys(path: string | undefined): Promise<readonly [string, ...string[]]> {
  if (path === undefined) return [randomBytes(KEY_BYTES).toString("base64url")];
  await using file = await open(path).catch((error: unknown) =>
    refuse(error instanceof Error ? error.message : String(error)),
  );
  const mode = (await file.stat()).mode & 0o777;
  if ((mode & OTHERS) !== 0)
    return refuse(`${path}: others can use it, its mode is ${mode.toString(8).padStart(4, "0")}; chmod 0640 is needed`);
  const text = await file.readFile("utf8");
  const [first, ...others] = text
    .split("\n")
    .map((line) => line.trim())
    .filter((line) => line !== "");
  if (first === undefined || others.length >= MAX_KEYS) return refuse(`${path}: 1 to ${MAX_KEYS} keys are needed`);
  const short = [first, ...others].findIndex((key) => key.length < MIN_KEY_CHARACTERS);
  if (short >= 0)
    return refuse(
      `${path}: key ${short + 1} has fewer than ${MIN_KEY_CHARACTERS} characters; openssl rand -base64 32 makes one`,
    );
  return [first, ...others];
}

function keyOf(secret: string): readonly [kid: string, key: Uint8Array] {
  const key = new Uint8Array(hkdfSync("sha256", secret, "", "muster-gateway-session", KEY_BYTES));
  return [createHash("sha256").update(key).digest("base64url").slice(0, 8), key];
}

function unknownKey(): never {
  throw new errors.JWEDecryptionFailed();
}

function refuse(reason: string): never {
  return throwFault({ code: "invalid_request", field: FIELD, reason });
}
