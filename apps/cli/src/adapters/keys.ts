import { existsSync } from "node:fs";
import { mkdir, stat } from "node:fs/promises";
import { dirname } from "node:path";
import { findFault } from "@muster/faults";
import { makeKeyFile, readKeyFile, readSigner } from "@muster/leases/keys";
import type { Keys } from "../cli.ts";
import { CommandError } from "../command-error.ts";
import type { Config } from "../config.ts";
import { EXIT } from "../domain/decide-exit.ts";

const VARIABLE = "MUSTER_KEY";
const FILE = "the key file";
/** Only the owner may open the folder of a key. */
const OWNER_ONLY = 0o700;

/** Reads the key of the configuration at the first use. */
export function makeKeys({ key, keyFile }: Pick<Config, "key" | "keyFile">): Keys {
  return {
    whereIs: (file) => (file === undefined && key !== undefined ? { variable: VARIABLE } : { file: file ?? keyFile }),
    read: async (file) => {
      const path = file ?? keyFile;
      const inEnvironment = file === undefined && key !== undefined;
      try {
        return inEnvironment ? readSigner(VARIABLE, key) : await readKeyFile(FILE, path);
      } catch (error) {
        const isMissing = !inEnvironment && !existsSync(path);
        if (isMissing)
          throw new CommandError(EXIT.usage, `no key exists at ${path}`, {
            hint: buildMissingKeyHint(file),
            cause: error,
          });
        throw refused(error, "`muster keys --help` describes how to create one");
      }
    },
    make: async (file) => {
      const path = file ?? keyFile;
      try {
        await makeFolder(dirname(path));
        return { signer: await makeKeyFile(FILE, path), file: path };
      } catch (error) {
        if (findFault(error)?.code !== "already_exists") throw refused(error, undefined);
        throw await occupied(path, error);
      }
    },
  };
}

/** Creates the folder and its parents one by one: `recursive` of Node never returns if a folder cannot contain another one, as in /proc. */
async function makeFolder(folder: string): Promise<void> {
  if (existsSync(folder)) return;
  const above = dirname(folder);
  if (above !== folder) await makeFolder(above);
  try {
    await mkdir(folder, OWNER_ONLY);
  } catch (error) {
    if (!(error instanceof Error && "code" in error)) throw error;
    // Another process created the folder first.
    if (error.code === "EEXIST") return;
    throw new CommandError(EXIT.usage, `the folder ${folder} of ${FILE} cannot be created: ${error.message}`, {
      hint: "choose another file with --key-file FILE or MUSTER_KEY_FILE",
      cause: error,
    });
  }
}

/** The error for a path of a new key that is in use, with advice. */
async function occupied(path: string, cause: unknown): Promise<CommandError> {
  const elsewhere = "`muster keys new --key-file FILE` creates a key in another file";
  const found = await stat(path);
  if (found.isDirectory())
    return new CommandError(EXIT.usage, `${path} is a folder, and a file is needed`, { hint: elsewhere, cause });
  if (found.size === 0)
    return new CommandError(EXIT.usage, `${path} exists, and is empty: no key was ever written to it`, {
      hint: `remove it with \`rm ${path}\` and try again; or ${elsewhere}`,
      cause,
    });
  return new CommandError(EXIT.usage, `${path} exists, and was not overwritten`, {
    hint: `\`muster keys show\` shows the key in it, which alone can renew or end its leases; ${elsewhere}`,
    cause,
  });
}

function buildMissingKeyHint(file: string | undefined): string {
  const option = file === undefined ? "" : ` --key-file ${file}`;
  return `\`muster keys new${option}\` creates one; MUSTER_KEY_FILE or MUSTER_KEY provides an existing one`;
}

/** States the problem of a key without its content. */
function refused(error: unknown, hint: string | undefined): unknown {
  const fault = findFault(error);
  if (fault?.code === "invalid_request")
    return new CommandError(EXIT.usage, `${fault.field} ${fault.reason}`, { hint, cause: error });
  return error;
}
