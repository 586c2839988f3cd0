import type { Signer } from "@muster/leases/keys";
import type { Cli } from "../cli.ts";
import { printForms, type Format } from "../commands/output.ts";
import { buildFacts } from "../domain/build-facts.ts";
import { EXIT } from "../domain/decide-exit.ts";
import { defineCommand, type CommandRow } from "./command-row.ts";
import { KEY_FILE, OUTPUT } from "./shared-options.ts";

/** `muster keys`: creates and shows the key that signs orders of leases. */
export const KEYS: CommandRow = {
  name: "keys",
  description: "Create and show the key that signs lease orders.",
  text: `A private key is a file that only its owner may read (MUSTER_KEY_FILE, default
~/.config/muster/key), or it stands in MUSTER_KEY; it is never printed. The user
id is its public half. Only this file can renew or end its leases.`,
  examples: ["muster keys new", "muster keys show"],
  commands: [
    defineCommand({
      name: "new",
      description: "Create a key in a file that only its owner may read. An existing file stays unchanged.",
      options: { keyFile: KEY_FILE, output: OUTPUT },
      examples: ["muster keys new", "muster keys new --key-file team.key -o json"],
      run: async (cli, _, { keyFile, output }) => {
        const { signer, file } = await cli.keys.make(keyFile);
        show(cli, signer, file, output);
        const used = cli.keys.whereIs(keyFile);
        if ("variable" in used) cli.io.err([`note: ${used.variable} is set and overrides this file`]);
        return EXIT.ok;
      },
    }),
    defineCommand({
      name: "show",
      description: "Show the user id and the public key; neither is a secret.",
      options: { keyFile: KEY_FILE, output: OUTPUT },
      examples: ["muster keys show", "muster keys show -o json | jq -r .user"],
      run: async (cli, _, { keyFile, output }) => {
        const signer = await cli.keys.read(keyFile);
        const used = cli.keys.whereIs(keyFile);
        show(cli, signer, "file" in used ? used.file : used.variable, output);
        return EXIT.ok;
      },
    }),
  ],
};

function show({ io }: Cli, { userId, publicKey }: Signer, from: string, output: Format): void {
  const hex = Buffer.from(publicKey).toString("hex");
  printForms(io, output, {
    table: () =>
      buildFacts([
        ["user", userId],
        ["public key", hex],
        ["private key", `in ${from}`],
      ]),
    data: () => ({ user: userId, publicKey: hex, from }),
  });
}
