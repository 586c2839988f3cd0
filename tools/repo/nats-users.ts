/**
 * The users of NATS. Without an argument: writes deploy/nats/users.conf from the table in libs/nats-server/src/rights.ts. With a folder: makes a key for each user that has none, the
 * seeds for the services in it under `nkeys`, and the public keys for the server in `public.env`.
 */
import { existsSync } from "node:fs";
import { mkdir, readFile, rename, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { parseEnv } from "node:util";
import { keyVariable, makeNkey, NATS_USERS, type NatsUserName, publicKeyOf, renderUsers } from "@muster/nats-server";

const FILE = join(import.meta.dirname, "../../deploy/nats/users.conf");

/** What stands in deploy/nats/users.conf. */
export function usersConf(): string {
  const head =
    "# Written by `npm run nats-users` from libs/nats-server/src/rights.ts, which is the place to change it.\n" +
    "# The public keys are in the environment of the server.\n";
  return head + renderUsers((user) => `$${keyVariable(user)}`);
}

export type WrittenKeys = { readonly made: readonly NatsUserName[]; readonly kept: readonly NatsUserName[] };

/**
 * Makes the keys that are missing. Those that are there stay, for they are in use; of one whose seed was taken elsewhere the public key is enough. Rejects where a
 * file holds something else.
 */
export async function writeKeys(directory: string): Promise<WrittenKeys> {
  const seeds = join(directory, "nkeys");
  await mkdir(seeds, { recursive: true, mode: 0o700 });
  const known = parseEnv(await readIfThere(join(directory, "public.env")));
  const made: NatsUserName[] = [];
  const keys = new Map<NatsUserName, string>();
  for (const user of NATS_USERS) {
    const file = join(seeds, `${user}.nk`);
    const seed = (await readIfThere(file)).trim();
    const publicKey = seed === "" ? known[keyVariable(user)] : publicKeyIn(file, seed);
    if (publicKey !== undefined) {
      keys.set(user, publicKey);
      continue;
    }
    const fresh = makeNkey();
    await writeWhole(file, `${fresh.seed}\n`, 0o600);
    keys.set(user, fresh.publicKey);
    made.push(user);
  }
  const lines = [...keys].map(([user, publicKey]) => `${keyVariable(user)}=${publicKey}\n`);
  await writeWhole(join(directory, "public.env"), lines.join(""), 0o644);
  return { made, kept: NATS_USERS.filter((user) => !made.includes(user)) };
}

async function readIfThere(file: string): Promise<string> {
  return existsSync(file) ? await readFile(file, "utf8") : "";
}

/** Whoever reads it meanwhile, or is left with it after a kill, finds all of it or nothing. */
async function writeWhole(file: string, text: string, mode: number): Promise<void> {
  await writeFile(`${file}.new`, text, { mode });
  await rename(`${file}.new`, file);
}

function publicKeyIn(file: string, seed: string): string {
  try {
    return publicKeyOf(seed);
  } catch (cause) {
    throw new Error(`${file} is not the seed of an nkey, which begins with SU: take it away to have a new one made`, {
      cause,
    });
  }
}

if (import.meta.main) {
  const [directory] = process.argv.slice(2);
  if (directory === undefined) await writeFile(FILE, usersConf());
  else {
    const { made, kept } = await writeKeys(directory);
    const told = made.length === 0 ? "no key is missing" : `made the keys of ${made.join(", ")}`;
    console.log(`${directory}: ${told}${kept.length === 0 ? "" : `; ${String(kept.length)} were there and stay`}`);
  }
}
