import { hash, randomBytes, timingSafeEqual } from "node:crypto";
import { link, open, rm, writeFile } from "node:fs/promises";
import { userInfo } from "node:os";
import { throwFault } from "@muster/faults";
import type { Authenticate, User } from "../api/user.ts";

/** Permission bits of all users except the owner of the file. */
const OTHERS = 0o077;
const TOKEN_BYTES = 32;
const MIN_TOKEN = 32;

/**
 * Reads the token of the file. Creates a missing file, readable only by its owner. Throws FaultError invalid_request for a file that other users can access,
 * and for a file without a token. Processes that start concurrently use one token.
 */
export async function openTokenFile(path: string): Promise<string> {
  await makeTokenFile(path);
  await using file = await open(path, "r");
  const mode = (await file.stat()).mode & 0o777;
  if ((mode & OTHERS) !== 0)
    refuse(`${path}: others can use it, its mode is ${mode.toString(8).padStart(4, "0")}; chmod 0600 is needed`);
  const token = (await file.readFile("utf8")).trim();
  if (token.length < MIN_TOKEN || /\s/.test(token))
    refuse(`${path}: one token of ${MIN_TOKEN} characters or more is needed`);
  return token;
}

/** Creates the file atomically with its content. */
async function makeTokenFile(path: string): Promise<void> {
  const whole = `${path}.${randomBytes(6).toString("hex")}`;
  try {
    await writeFile(whole, `${randomBytes(TOKEN_BYTES).toString("base64url")}\n`, { mode: 0o600, flag: "wx" });
    await link(whole, path);
  } catch (error) {
    if (!(error instanceof Error && "code" in error)) throw error;
    // EEXIST means that an earlier start created the file. Otherwise the following read reports the problem of the path.
    if (error.code !== "EEXIST" && error.code !== "EROFS" && error.code !== "EACCES") refuse(error.message);
  } finally {
    await rm(whole, { force: true });
  }
}

/** Authenticates the owner of the local token. */
export function localAuthenticator(token: string): Authenticate {
  const expected = digest(token);
  const user: User = { name: userName(), groups: [], isLocal: true };
  return (given) => Promise.resolve(timingSafeEqual(digest(given), expected) ? user : undefined);
}

function digest(text: string): Buffer {
  return hash("sha256", text, "buffer");
}

function userName(): string {
  try {
    return `local:${userInfo().username}`;
  } catch {
    // Containers often run with a user id that has no name.
    return `local:${process.getuid?.() ?? ""}`;
  }
}

function refuse(reason: string): never {
  return throwFault({ code: "invalid_request", field: "GATEWAY_TOKEN_FILE", reason });
}
