import { open } from "node:fs/promises";
import { throwFault } from "@muster/faults";
import { readSigner, type Signer } from "./ed25519.ts";

/** Others than the owner. */
const OTHERS = 0o077;

/** Reads a private key from a file that nobody but its owner may read. Throws FaultError invalid_request, which names the file and never the key. */
export async function readKeyFile(path: string): Promise<Signer> {
  const refuse = (reason: string): never =>
    throwFault({ code: "invalid_request", field: "PROVISION_KEY_FILE", reason: `${path}: ${reason}` });
  await using file = await open(path).catch((error: unknown) => refuse(error instanceof Error ? error.message : ""));
  const mode = (await file.stat()).mode & 0o777;
  if ((mode & OTHERS) !== 0)
    return refuse(`others may use it, its mode is ${mode.toString(8).padStart(4, "0")}: chmod 0600 is needed`);
  return readSigner(`PROVISION_KEY_FILE ${path}`, await file.readFile("utf8"));
}
