import { existsSync } from "node:fs";
import { mkdir } from "node:fs/promises";
import { dirname } from "node:path";
import { faultOf } from "@muster/faults";
import { makeKeyFile, readKeyFile, readSigner } from "@muster/leases/keys";
import type { Keys } from "../cli.ts";
import { CommandError } from "../command-error.ts";
import type { Config } from "../config.ts";
import { EXIT } from "../domain/decide-exit.ts";

const VARIABLE = "MUSTER_KEY";
const FILE = "the key file";
/** Of a folder that is made for a key. */
const OWNER_ONLY = 0o700;

/** The key of the configuration, read when it is needed. */
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
          throw new CommandError(EXIT.usage, `there is no key at ${path}`, { hint: adviseNew(file), cause: error });
        throw refused(error, "`muster keys --help` says how a key is kept");
      }
    },
    make: async (file) => {
      const path = file ?? keyFile;
      try {
        await mkdir(dirname(path), { recursive: true, mode: OWNER_ONLY });
        return { signer: await makeKeyFile(FILE, path), file: path };
      } catch (error) {
        if (faultOf(error)?.code !== "already_exists") throw refused(error, undefined);
        throw new CommandError(EXIT.usage, `there is a key at ${path}, and what it signed would be nobody's`, {
          hint: "`muster keys show` shows it; `muster keys new --key-file FILE` makes another one elsewhere",
          cause: error,
        });
      }
    },
  };
}

function adviseNew(file: string | undefined): string {
  const option = file === undefined ? "" : ` --key-file ${file}`;
  return `\`muster keys new${option}\` makes one; MUSTER_KEY_FILE and MUSTER_KEY say where one is`;
}

/** Says what is wrong with the key, and nothing of what is in it. */
function refused(error: unknown, hint: string | undefined): unknown {
  const fault = faultOf(error);
  if (fault?.code === "invalid_request")
    return new CommandError(EXIT.usage, `${fault.field} ${fault.reason}`, {
      ...(hint !== undefined && { hint }),
      cause: error,
    });
  // The folder cannot be made.
  if (error instanceof Error && "code" in error)
    return new CommandError(EXIT.usage, `making ${FILE}: ${error.message}`, { cause: error });
  return error;
}
