/**
 * The users of NATS. Without an argument: writes deploy/nats/users.conf from the table in libs/nats-server/src/rights.ts. With a folder: makes a key for each user, the
 * seeds for the services in it under `nkeys`, and the public keys for the server in `public.env`.
 */
import { mkdir, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { keyVariable, makeNkey, NATS_USERS, renderUsers } from "@muster/nats-server";

const FILE = join(import.meta.dirname, "../../deploy/nats/users.conf");

/** What stands in deploy/nats/users.conf. */
export function usersConf(): string {
  const head =
    "# Written by `npm run nats-users` from libs/nats-server/src/rights.ts, which is the place to change it.\n" +
    "# The public keys are in the environment of the server.\n";
  return head + renderUsers((user) => `$${keyVariable(user)}`);
}

/** Makes the keys. Rejects when the folder has some already: nobody wants to lose those in use. */
export async function writeKeys(directory: string): Promise<void> {
  await mkdir(join(directory, "nkeys"), { recursive: true, mode: 0o700 });
  const lines: string[] = [];
  for (const user of NATS_USERS) {
    const { publicKey, seed } = makeNkey();
    await writeFile(join(directory, "nkeys", `${user}.nk`), `${seed}\n`, { mode: 0o600, flag: "wx" });
    lines.push(`${keyVariable(user)}=${publicKey}`);
  }
  await writeFile(join(directory, "public.env"), `${lines.join("\n")}\n`, { flag: "wx" });
}

if (import.meta.main) {
  const [directory] = process.argv.slice(2);
  if (directory === undefined) await writeFile(FILE, usersConf());
  else await writeKeys(directory);
}
