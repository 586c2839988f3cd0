import { Option, type Command } from "commander";
import type { Cli } from "../cli.ts";
import { newKey, showKey } from "../commands/keys.ts";
import { outputOption, type Answer, type OutputOption, examples } from "./command-options.ts";

type Options = OutputOption & { readonly keyFile?: string };

/** Commands that make and show the key that orders of leases are signed with. */
export function addKeyCommands(program: Command, cli: Cli, answer: Answer): void {
  const keys = program
    .command("keys")
    .description("Make and show the key by which a lease is its user's.")
    .addHelpText(
      "after",
      `
A private key is a file that only its owner may read (MUSTER_KEY_FILE, default
~/.config/muster/key), or it stands in MUSTER_KEY; it is never printed. The user
id is its public half. Only this file can renew or end its leases.

Examples:
  muster keys new
  muster keys show`,
    );
  keys
    .command("new")
    .description("Make a key, in a file that only its owner may read. An existing file is left as it is.")
    .addOption(keyFileOption())
    .addOption(outputOption())
    .addHelpText("after", examples("muster keys new", "muster keys new --key-file team.key -o json"))
    .action(answer(({ keyFile, output }: Options) => newKey(cli, { keyFile, output })));
  keys
    .command("show")
    .description("Show the user id and the public key, which are no secrets.")
    .addOption(keyFileOption())
    .addOption(outputOption())
    .addHelpText("after", examples("muster keys show", "muster keys show -o json | jq -r .user"))
    .action(answer(({ keyFile, output }: Options) => showKey(cli, { keyFile, output })));
}

/** The key of the user; precedes the environment. */
export function keyFileOption(): Option {
  return new Option("--key-file <file>", "the private key, instead of MUSTER_KEY and MUSTER_KEY_FILE");
}

/** Of the engine that orders are for. */
export function engineKeyOption(): Option {
  return new Option("--engine-key <id>", "seal secrets to this key only; end with 4 when the engine has another one");
}
