import type { Command } from "commander";
import { CommandError } from "../command-error.ts";
import { EXIT, type ExitCode } from "../domain/decide-exit.ts";
import type { CommandLine } from "../kinds/resources.ts";
import type { CommandRow } from "./command-row.ts";

/** Adds the commands to the parent; `ended` receives the exit code of the one that runs. */
export function installCommands(
  parent: Command,
  cli: CommandLine,
  rows: readonly CommandRow[],
  ended: (code: ExitCode) => void,
): void {
  for (const row of rows) installCommand(parent, cli, row, ended);
}

function installCommand(parent: Command, cli: CommandLine, row: CommandRow, ended: (code: ExitCode) => void): void {
  const { options = {}, run } = row;
  const command = parent.command(row.name, {
    hidden: row.description === undefined,
    isDefault: row.isDefault === true,
  });
  if (row.alias !== undefined) command.alias(row.alias);
  if (row.description !== undefined) command.description(row.description);
  for (const argument of row.arguments ?? []) command.addArgument(argument);
  for (const option of Object.values(options)) command.addOption(option);
  const after = buildHelp(row);
  if (after.length > 0) command.addHelpText("after", after.join("\n"));
  if (row.hasExcessArguments === true) command.allowExcessArguments();
  if (run !== undefined)
    command.action(async () => {
      ended(await run(cli, command.processedArgs, readOptions(command, options), command));
    });
  installCommands(command, cli, row.commands ?? [], ended);
  refuseWords(command, row.refused ?? []);
}

function buildHelp({ text, examples = [] }: CommandRow): readonly string[] {
  return [
    ...(text === undefined ? [] : ["", text]),
    ...(examples.length === 0 ? [] : ["", "Examples:", ...examples.map((each) => `  ${each}`)]),
  ];
}

/** A missing flag is false. */
function readOptions(command: Command, rows: NonNullable<CommandRow["options"]>): Readonly<Record<string, unknown>> {
  const given = command.opts();
  return Object.fromEntries(
    Object.entries(rows).map(([name, row]) => {
      const value: unknown = given[row.attributeName()];
      return [name, row.isBoolean() ? value === true : value];
    }),
  );
}

/** Adds hidden commands, whose errors name the commands to use. */
export function refuseWords(parent: Command, words: NonNullable<CommandRow["refused"]>): void {
  for (const [word, hint] of words)
    parent
      .command(word, { hidden: true })
      .argument("[words...]")
      .allowUnknownOption()
      .action(() => {
        throw new CommandError(EXIT.usage, `unknown command '${word}'`, { hint });
      });
}
