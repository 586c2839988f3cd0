import { newKey, showKey } from "../commands/keys.ts";
import { command, type CommandRow } from "./command-row.ts";
import { KEY_FILE, OUTPUT } from "./shared-options.ts";

/** Make and show the key that orders of leases are signed with. */
export const KEYS: CommandRow = {
  name: "keys",
  description: "Make and show the key by which a lease is its user's.",
  text: `A private key is a file that only its owner may read (MUSTER_KEY_FILE, default
~/.config/muster/key), or it stands in MUSTER_KEY; it is never printed. The user
id is its public half. Only this file can renew or end its leases.`,
  examples: ["muster keys new", "muster keys show"],
  commands: [
    command({
      name: "new",
      description: "Make a key, in a file that only its owner may read. An existing file is left as it is.",
      options: { keyFile: KEY_FILE, output: OUTPUT },
      examples: ["muster keys new", "muster keys new --key-file team.key -o json"],
      run: (cli, _, options) => newKey(cli, options),
    }),
    command({
      name: "show",
      description: "Show the user id and the public key, which are no secrets.",
      options: { keyFile: KEY_FILE, output: OUTPUT },
      examples: ["muster keys show", "muster keys show -o json | jq -r .user"],
      run: (cli, _, options) => showKey(cli, options),
    }),
  ],
};
