/**
 * Writes the NATS users. Without an argument: writes deploy/nats/users.conf from the table in libs/nats-server/src/rights.ts. With a folder: creates the
 * missing keys, with the seeds for the services in `nkeys`, and the public keys for the server in `public.env`.
 */
import { existsSync } from "node:fs";
import { mkdir, readFile, rename, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { parseEnv } from "node:util";
import {
  buildKeyVariable,
  makeNkey,
  NATS_USERS,
  type NatsUserName,
  getPublicKey,
  renderUsers,
} from "@muster/nats-server";

const FILE = join(import.meta.dirname, "../../deploy/nats/users.conf");

/** Returns the content of deploy/nats/users.conf. */
export function buildUsersConf(): string {
  const head =
    "# Written by `npm run nats-users` from libs/nats-server/src/rights.ts, which is the place to change it.\n" +
    "# The public keys are in the environment of the server.\n";
  return head + renderUsers((user) => `$${buildKeyVariable(user)}`);
}

export type WrittenKeys = { readonly made: readonly NatsUserName[]; readonly kept: readonly NatsUserName[] };

/**
 * Creates the missing keys. Existing keys stay, because they are in use; a user whose seed is stored elsewhere only needs its public key here. Rejects if a
 * file has other content.
 */
export async function writeKeys(directory: string): Promise<WrittenKeys> {
  const seeds = join(directory, "nkeys");
  await mkdir(seeds, { recursive: true, mode: 0o700 });
  const known = parseEnv(await readIfExists(join(directory, "public.env")));
  const made: NatsUserName[] = [];
  const keys = new Map<NatsUserName, string>();
  for (const user of NATS_USERS) {
    const file = join(seeds, `${user}.nk`);
    const seed = (await readIfExists(file)).trim();
    const publicKey = seed === "" ? known[buildKeyVariable(user)] : readPublicKey(file, seed);
    if (publicKey !== undefined) {
      keys.set(user, publicKey);
      continue;
    }
    const fresh = makeNkey();
    await writeAtomically(file, `${fresh.seed}\n`, 0o600);
    keys.set(user, fresh.publicKey);
    made.push(user);
  }
  const lines = [...keys].map(([user, publicKey]) => `${buildKeyVariable(user)}=${publicKey}\n`);
  await writeAtomically(join(directory, "public.env"), lines.join(""), 0o644);
  return { made, kept: NATS_USERS.filter((user) => !made.includes(user)) };
}

async function readIfExists(file: string): Promise<string> {
  return existsSync(file) ? await readFile(file, "utf8") : "";
}

/** Writes the file atomically: concurrent readers, also after a kill, find the complete file or none. */
async function writeAtomically(file: string, text: string, mode: number): Promise<void> {
  await writeFile(`${file}.new`, text, { mode });
  await rename(`${file}.new`, file);
}

function readPublicKey(file: string, seed: string): string {
  try {
    return getPublicKey(seed);
  } catch (cause) {
    throw new Error(`${file} is not the seed of an nkey, which begins with SU: remove the file to create a new one`, {
      cause,
    });
  }
}

if (import.meta.main) {
  const [directory] = process.argv.slice(2);
  if (directory === undefined) await writeFile(FILE, buildUsersConf());
  else {
    const { made, kept } = await writeKeys(directory);
    const result = made.length === 0 ? "no key is missing" : `made the keys of ${made.join(", ")}`;
    console.log(`${directory}: ${result}${kept.length === 0 ? "" : `; kept ${String(kept.length)} existing keys`}`);
  }
}
