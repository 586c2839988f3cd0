import { nearestName } from "@muster/documents";
import type { Command } from "commander";
import { dumpNodes, listNodes, terminateNode } from "../commands/nodes.ts";
import { argument, command, option, type CommandRow } from "./command-row.ts";
import { OUTPUT } from "./shared-options.ts";

/** `muster nodes`, and what it is divided into. */
export const NODES: CommandRow = {
  name: "nodes",
  description: "Nodes of pools, and what is free on them: list them, show the scaler of elastic pools, end one.",
  text: `Options of \`nodes\` alone and of \`nodes list\`:
  -p, --pool <pool>      only those of this pool
  -a, --all              also those whose instance is gone already
  -o, --output <format>  form of the output: table, json or yaml`,
  examples: [
    "muster nodes",
    "muster nodes -p elastic -o json",
    "muster nodes --all",
    "muster nodes dump",
    "muster nodes terminate elastic-7f3k2",
    "muster nodes terminate elastic-7f3k2 --yes",
  ],
  commands: [
    command({
      name: "list",
      isDefault: true,
      description: "List them, who they are for, and what is free; the same as `nodes` alone.",
      options: {
        pool: option("-p, --pool <pool>", "only those of this pool"),
        all: option("-a, --all", "also those whose instance is gone already"),
        output: OUTPUT,
      },
      examples: ["muster nodes list -p elastic", "muster nodes list --all -o json"],
      // A misspelt command is taken for an argument of this one, which has none.
      hasExcessArguments: true,
      run: (cli, _, options, list) => {
        refuseArguments(list);
        return listNodes(cli, options);
      },
    }),
    command({
      name: "dump",
      description: "Show what the scaler does: its loops, what is short, pools, and which node is for whom.",
      options: { output: OUTPUT },
      examples: ["muster nodes dump", "muster nodes dump -o json | jq '.troubles'"],
      run: (cli, _, { output }) => dumpNodes(cli, output),
    }),
    command({
      name: "terminate",
      description: "End a node: it is drained first. Asks before that on a terminal.",
      arguments: [argument("<node>", "its name")],
      options: { sure: option("-y, --yes", "do not ask"), output: OUTPUT },
      examples: ["muster nodes terminate elastic-7f3k2", "muster nodes terminate elastic-7f3k2 --yes"],
      run: (cli, [name], options) => terminateNode(cli, name, options),
    }),
  ],
};

/** Refuses the first argument as commander refuses a command that it does not know. */
function refuseArguments({ args: [word], parent }: Command): void {
  if (word === undefined) return;
  const near = nearestName(word, parent?.commands.map((each) => each.name()) ?? []);
  parent?.error(`error: unknown command '${word}'${near === undefined ? "" : `\n(Did you mean ${near}?)`}`);
}
