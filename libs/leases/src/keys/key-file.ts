import { open } from "node:fs/promises";
import { throwFault } from "@muster/faults";
import { makeSigner, readSigner, type Signer } from "./ed25519.ts";

/** Mode bits of group and others. */
const OTHERS = 0o077;
const OWNER_ONLY = 0o600;

/**
 * Reads a private key from a file that only its owner may access. Throws FaultError invalid_request, which names the field and the file, and never the key.
 */
export async function readKeyFile(field: string, path: string): Promise<Signer> {
  const refuse = (reason: string): never =>
    throwFault({ code: "invalid_request", field, reason: `${path}: ${reason}` });
  await using file = await open(path).catch((error: unknown) => refuse(error instanceof Error ? error.message : ""));
  const mode = (await file.stat()).mode & 0o777;
  if ((mode & OTHERS) !== 0)
    return refuse(`others may use it, its mode is ${mode.toString(8).padStart(4, "0")}: chmod 0600 is needed`);
  return readSigner(`${field} ${path}`, await file.readFile("utf8"));
}

/**
 * Creates a private key in a new file that only its owner may read. Throws FaultError already_exists rather than overwrite a key, and invalid_request if the
 * file cannot be written.
 */
export async function makeKeyFile(field: string, path: string): Promise<Signer> {
  const { signer, text } = makeSigner();
  const refuse = (error: unknown): never => {
    if (error instanceof Error && "code" in error && error.code === "EEXIST")
      return throwFault({ code: "already_exists", kind: "key file", id: path });
    const reason = error instanceof Error ? error.message : String(error);
    return throwFault({ code: "invalid_request", field, reason: `${path}: ${reason}` });
  };
  await using file = await open(path, "wx", OWNER_ONLY).catch(refuse);
  // The umask may have changed the requested mode.
  await file.chmod(OWNER_ONLY);
  await file.writeFile(`${text}\n`);
  await file.sync();
  return signer;
}
