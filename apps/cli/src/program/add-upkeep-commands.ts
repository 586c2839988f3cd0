import { Argument, InvalidArgumentError, type Command } from "commander";
import { backup, checkBackup, restore } from "../commands/backup.ts";
import { complete, completion, SHELLS, type Shell } from "../commands/completion.ts";
import { dropDeadLetters, listDeadLetters, replayDeadLetters, showDeadLetter } from "../commands/dead-letters.ts";
import { doctor } from "../commands/doctor.ts";
import { print } from "../commands/output.ts";
import { EXIT } from "../domain/decide-exit.ts";
import { writeSchema } from "../domain/build-session-schema.ts";
import type { Resource, SchemaRow } from "../kinds/resource.ts";
import { findResource, type CommandLine } from "../kinds/resources.ts";
import { VERSION } from "../version.ts";
import { outputOption, type Answer, type OutputOption, examples } from "./command-options.ts";

/** Commands for the operation of Muster itself, and for editors and shells. */
export function addUpkeepCommands(program: Command, cli: CommandLine, answer: Answer): void {
  addDoctor(program, cli, answer);
  addDeadLetters(program, cli, answer);
  addBackup(program, cli, answer);
  addEditorAndShell(program, cli, answer);
}

function addDoctor(program: Command, cli: CommandLine, answer: Answer): void {
  program
    .command("doctor")
    .description("Check everything that work needs, and say what to do about what is missing.")
    .addOption(outputOption())
    .addHelpText("after", examples("muster doctor", "muster doctor -o json"))
    .action(answer(({ output }: OutputOption) => doctor(cli, output)));
  program
    .command("version")
    .description("Print the version of this command and of Node.")
    .addOption(outputOption())
    .addHelpText("after", examples("muster version -o json"))
    .action(
      answer(({ output }: OutputOption) => {
        const versions = { muster: VERSION, node: process.versions.node };
        print(cli.io, output, {
          table: () => [`muster ${versions.muster}`, `node ${versions.node}`],
          data: () => versions,
        });
        return Promise.resolve(EXIT.ok);
      }),
    );
}

function addDeadLetters(program: Command, cli: CommandLine, answer: Answer): void {
  const letters = program
    .command("dead-letters")
    .description("Messages that no service could handle, and why; send them again, or drop them.")
    .addHelpText(
      "after",
      examples(
        "muster dead-letters list",
        "muster dead-letters show 12",
        "muster dead-letters replay 12 13",
        "muster dead-letters drop 14",
      ),
    );
  letters
    .command("list")
    .description("List them, oldest first.")
    .option("--area <area>", "only those of this area: session")
    .addOption(outputOption())
    .action(answer(({ area, output }: OutputOption & { area?: string }) => listDeadLetters(cli, area, output)));
  letters
    .command("show")
    .description("Show one, with the message itself.")
    .argument("<id>", "its id", letterArgument)
    .addOption(outputOption())
    .action(answer((id: number, { output }: OutputOption) => showDeadLetter(cli, id, output)));
  letters
    .command("replay")
    .description("Send messages again to where they were first sent, once the cause is fixed.")
    .argument("<id...>", "their ids", lettersArgument)
    .action(answer((ids: number[]) => replayDeadLetters(cli, ids)));
  letters
    .command("drop")
    .description("Drop them for good.")
    .argument("<id...>", "their ids", lettersArgument)
    .action(answer((ids: number[]) => dropDeadLetters(cli, ids)));
}

function addBackup(program: Command, cli: CommandLine, answer: Answer): void {
  program
    .command("backup")
    .description("Copy all that NATS keeps for Muster into a file, while everything runs.")
    .argument("<file>", "a file that does not exist; only its owner may read it")
    .option("--check", "copy nothing: say whether this file is a whole backup, without asking NATS")
    .addHelpText(
      "after",
      `\nThe key has to be that of the user \`backup\`. That of a local stack is\nfound; elsewhere MUSTER_NATS_NKEY_FILE names it.\n\nExamples:\n  muster backup muster-$(date +%F)\n  MUSTER_NATS_NKEY_FILE=keys/nkeys/backup.nk muster backup muster-$(date +%F)\n  muster backup --check muster-2026-01-31`,
    )
    .action(
      answer((file: string, { check }: { check?: true }) =>
        check === true ? checkBackup(cli, file) : backup(cli, file),
      ),
    );
  program
    .command("restore")
    .description("Put a backup into a NATS that has nothing of Muster's, with no service running.")
    .argument("<file>", "what `muster backup` wrote")
    .addHelpText("after", examples("MUSTER_NATS_NKEY_FILE=keys/nkeys/backup.nk muster restore muster-2026-01-31"))
    .action(answer((file: string) => restore(cli, file)));
}

/** By the word of its schema, by its noun, or as `kind` says it in documents. */
function readSchemaWord(resources: readonly Resource[], text: string): SchemaRow {
  const rows = resources.flatMap(({ schema }) => schema ?? []);
  const row = rows.find(({ word }) => word === text.toLowerCase()) ?? findResource(resources, text)?.schema;
  if (row !== undefined) return row;
  throw new InvalidArgumentError(`Allowed choices are ${rows.map(({ word }) => word).join(", ")}.`);
}

function addEditorAndShell(program: Command, cli: CommandLine, answer: Answer): void {
  const words = cli.resources.flatMap(({ schema: row }) => row?.word ?? []);
  program
    .command("schema")
    .description("Print the JSON Schema of documents, for editors and checks.")
    .addArgument(
      new Argument("[kind]", "the kind of document")
        .choices(words)
        .argParser((text: string) => readSchemaWord(cli.resources, text))
        .default(cli.resources[0].schema, cli.kinds[0].noun),
    )
    .addHelpText(
      "after",
      `
In an editor that knows yaml-language-server, as the first line of a file:
  # yaml-language-server: $schema=/path/to/session.schema.json

Examples:
  muster schema > session.schema.json
  muster schema job > job.schema.json
  muster schema PinnedReplicaSet
  muster schema lease`,
    )
    .action(
      answer(({ build }: SchemaRow) => {
        cli.io.out([writeSchema(build()).trimEnd()]);
        return Promise.resolve(EXIT.ok);
      }),
    );
  program
    .command("completion")
    .description("Print the script that completes commands and names in a shell.")
    .addArgument(new Argument("<shell>", "which shell").choices(SHELLS))
    .addHelpText(
      "after",
      `
Examples:
  source <(muster completion bash)
  muster completion zsh > "\${fpath[1]}/_muster"
  muster completion fish > ~/.config/fish/completions/muster.fish`,
    )
    .action(answer((shell: Shell) => Promise.resolve(completion(cli, shell))));
  program
    .command("__complete", { hidden: true })
    .argument("[words...]")
    .action(answer((words: string[]) => complete(cli, program, words)));
}

function letterArgument(text: string): number {
  if (!/^[1-9]\d{0,15}$/.test(text)) throw new InvalidArgumentError("The id of a letter is a whole number.");
  return Number(text);
}

function lettersArgument(text: string, before: number[] | undefined): number[] {
  return [...(before ?? []), letterArgument(text)];
}
