import { findNearestName } from "@muster/documents";
import type { Command } from "commander";
import { makeNodeCalls } from "../adapters/node-calls.ts";
import type { ScaledNode } from "../adapters/node-messages.ts";
import type { Cli } from "../cli.ts";
import { CommandError } from "../command-error.ts";
import { printForms, printLine, printList } from "../commands/output.ts";
import { buildNodeTable, buildScalerDump } from "../domain/build-node-views.ts";
import { buildRecord } from "../domain/build-record.ts";
import { escapeControls } from "../domain/build-table.ts";
import { EXIT } from "../domain/decide-exit.ts";
import { NODE, buildNodeRecord } from "../kinds/node.ts";
import { argument, defineCommand, option, type CommandRow } from "./command-row.ts";
import { OUTPUT } from "./shared-options.ts";

/** `muster nodes` and its subcommands. */
export const NODES: CommandRow = {
  name: "nodes",
  description: "List the nodes of pools and their free amounts, show the node scaler, or end a node.",
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
    defineCommand({
      name: "list",
      isDefault: true,
      description: "List the nodes, their owners and free amounts; the same as `nodes` alone.",
      options: {
        pool: option("-p, --pool <pool>", "only nodes of this pool"),
        all: option("-a, --all", "also nodes whose instance is gone"),
        output: OUTPUT,
      },
      examples: ["muster nodes list -p elastic", "muster nodes list --all -o json"],
      // commander passes a misspelt subcommand as an argument, and this command has none.
      hasExcessArguments: true,
      run: async (cli, _, { pool, all, output }, list) => {
        refuseArguments(list);
        await using connected = await cli.connect();
        const { nodes: listed, trouble } = await makeNodeCalls(connected.link).listWithMachines(pool);
        const nodes = all ? listed : listed.filter(({ phase }) => phase !== "TERMINATED");
        printList(cli.io, output, nodes, {
          none: pool === undefined ? NODE.none : `${NODE.none} in pool ${pool}`,
          table: (style) => buildNodeTable(nodes, cli.now(), style),
          record: buildNodeRecord,
        });
        if (trouble !== undefined) cli.io.err([`note: the node scaler does not answer: ${trouble}`]);
        return EXIT.ok;
      },
    }),
    defineCommand({
      name: "dump",
      description: "Show the state of the node scaler: loops, shortages, pools, and the owner of each node.",
      options: { output: OUTPUT },
      examples: ["muster nodes dump", "muster nodes dump -o json | jq '.troubles'"],
      run: async (cli, _, { output }) => {
        await using connected = await cli.connect();
        const dump = await makeNodeCalls(connected.link).dump();
        printForms(cli.io, output, {
          table: (style) => buildScalerDump(dump, cli.now(), style),
          data: () => buildRecord(dump),
        });
        return EXIT.ok;
      },
    }),
    defineCommand({
      name: "terminate",
      description: "Drain and end a node. Asks for confirmation on a terminal.",
      arguments: [argument("<node>", "its name")],
      options: { sure: option("-y, --yes", "do not ask"), output: OUTPUT },
      examples: ["muster nodes terminate elastic-7f3k2", "muster nodes terminate elastic-7f3k2 --yes"],
      run: async (cli, [name], { sure, output }) => {
        await using connected = await cli.connect();
        if (!sure && !(await confirm(cli, await NODE.get(connected, name)))) {
          cli.io.err(["nothing was done"]);
          return EXIT.interrupted;
        }
        const node = await makeNodeCalls(connected.link).terminate(name, cli.caller());
        printLine(cli.io, output, describeEnd(node), () => buildRecord(node));
        return EXIT.ok;
      },
    }),
  ],
};

/** Refuses the first argument in the same way as commander refuses an unknown command. */
function refuseArguments({ args: [word], parent }: Command): void {
  if (word === undefined) return;
  const near = findNearestName(word, parent?.commands.map((each) => each.name()) ?? []);
  parent?.error(`error: unknown command '${word}'${near === undefined ? "" : `\n(Did you mean ${near}?)`}`);
}

async function confirm(cli: Cli, node: ScaledNode): Promise<boolean> {
  const answer = await cli.io.ask(
    `End node ${node.name} (${describeState(node)})? It is drained first; pods that remain are stopped. [y/N] `,
    cli.interrupts.first,
  );
  if (answer === undefined)
    throw new CommandError(EXIT.usage, "no terminal exists to ask for confirmation", {
      hint: "--yes ends the node without asking",
    });
  return /^\s*y(?:es)?\s*$/i.test(answer);
}

function describeEnd(node: ScaledNode): string {
  return `node ${node.name} will end: it is ${describeState(node)}; \`muster nodes\` shows its progress`;
}

function describeState({ phase, holder }: ScaledNode): string {
  return holder === "" ? phase : `${phase}, held by ${escapeControls(holder)}`;
}
