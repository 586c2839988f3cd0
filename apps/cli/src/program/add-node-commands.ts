import type { Command } from "commander";
import type { Cli } from "../cli.ts";
import { dumpNodes, listNodes, terminateNode } from "../commands/nodes.ts";
import { nearestName } from "@muster/documents";
import { outputOption, type Answer, type OutputOption, examples } from "./command-options.ts";

/** `muster nodes`, and what it is divided into. */
export function addNodeCommands(program: Command, cli: Cli, answer: Answer): void {
  const nodes = program
    .command("nodes")
    .description("Nodes that are made when work needs them: list them, show their scaler, end one.")
    .addHelpText(
      "after",
      `
Options of \`nodes\` alone and of \`nodes list\`:
  -p, --pool <pool>      only those of this pool
  -a, --all              also those whose instance is gone already
  -o, --output <format>  form of the output: table, json or yaml

Examples:
  muster nodes
  muster nodes -p elastic -o json
  muster nodes --all
  muster nodes dump
  muster nodes terminate elastic-7f3k2
  muster nodes terminate elastic-7f3k2 --yes`,
    );
  nodes
    .command("list", { isDefault: true })
    .description("List them, and who they are for; the same as `nodes` alone.")
    .option("-p, --pool <pool>", "only those of this pool")
    .option("-a, --all", "also those whose instance is gone already")
    .addOption(outputOption())
    .addHelpText("after", examples("muster nodes list -p elastic", "muster nodes list --all -o json"))
    // A misspelt command is taken for an argument of this one, which has none.
    .allowExcessArguments()
    .action(
      answer(({ pool, all, output }: OutputOption & { pool?: string; all?: true }, command: Command) => {
        const [word] = command.args;
        if (word !== undefined) refuseWord(nodes, word);
        return listNodes(cli, { pool, all: all === true, format: output });
      }),
    );
  nodes
    .command("dump")
    .description("Show what the scaler does: its loops, what is short, pools, and which node is for whom.")
    .addOption(outputOption())
    .addHelpText("after", examples("muster nodes dump", "muster nodes dump -o json | jq '.troubles'"))
    .action(answer(({ output }: OutputOption) => dumpNodes(cli, output)));
  nodes
    .command("terminate")
    .description("End a node: it is drained first. Asks before that on a terminal.")
    .argument("<node>", "its name")
    .option("-y, --yes", "do not ask")
    .addOption(outputOption())
    .addHelpText(
      "after",
      examples("muster nodes terminate elastic-7f3k2", "muster nodes terminate elastic-7f3k2 --yes"),
    )
    .action(
      answer((name: string, { yes, output }: OutputOption & { yes?: true }) =>
        terminateNode(cli, name, { sure: yes === true, format: output }),
      ),
    );
}

/** As commander refuses a command that it does not know. */
function refuseWord(parent: Command, word: string): never {
  const near = nearestName(
    word,
    parent.commands.map((command) => command.name()),
  );
  return parent.error(`error: unknown command '${word}'${near === undefined ? "" : `\n(Did you mean ${near}?)`}`);
}
