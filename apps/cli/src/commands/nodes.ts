import { nodeCalls } from "../adapters/node-calls.ts";
import type { Cli } from "../cli.ts";
import { CommandError } from "../command-error.ts";
import { buildNodeTable, buildScalerDump } from "../domain/build-node-views.ts";
import { buildRecord } from "../domain/build-record.ts";
import { plain } from "../domain/build-table.ts";
import { EXIT, type ExitCode } from "../domain/decide-exit.ts";
import type { ScaledNode } from "../adapters/node-messages.ts";
import { NODE, nodeRecord } from "../kinds/node.ts";
import { print, printLine, printList, type Format } from "./output.ts";

/** `muster nodes [-p POOL]`: the nodes of the node scaler, and those of pools that it did not make; with `all` also those that are terminated. */
export async function listNodes(
  cli: Cli,
  { pool, all, output }: { readonly pool: string | undefined; readonly all: boolean; readonly output: Format },
): Promise<ExitCode> {
  await using connected = await cli.connect();
  const { nodes: listed, trouble } = await nodeCalls(connected.link).listWithMachines(pool);
  const nodes = all ? listed : listed.filter(({ phase }) => phase !== "TERMINATED");
  printList(cli.io, output, nodes, {
    none: pool === undefined ? NODE.none : `${NODE.none} in pool ${pool}`,
    table: (style) => buildNodeTable(nodes, cli.now(), style),
    record: nodeRecord,
  });
  if (trouble !== undefined) cli.io.err([`note: the node scaler does not answer: ${trouble}`]);
  return EXIT.ok;
}

/** `muster nodes dump`: the state of the scaler's loops, and what they remember. */
export async function dumpNodes(cli: Cli, output: Format): Promise<ExitCode> {
  await using connected = await cli.connect();
  const dump = await nodeCalls(connected.link).dump();
  print(cli.io, output, {
    table: (style) => buildScalerDump(dump, cli.now(), style),
    data: () => buildRecord(dump),
  });
  return EXIT.ok;
}

/** `muster nodes terminate NAME`: asks at a terminal before that, unless `sure`. Fails without a question for a node that does not exist. */
export async function terminateNode(
  cli: Cli,
  name: string,
  { sure, output }: { readonly sure: boolean; readonly output: Format },
): Promise<ExitCode> {
  await using connected = await cli.connect();
  if (!sure && !(await confirm(cli, await NODE.get(connected, name)))) {
    cli.io.err(["nothing was done"]);
    return EXIT.interrupted;
  }
  const node = await nodeCalls(connected.link).terminate(name, cli.caller());
  printLine(cli.io, output, describeEnd(node), () => buildRecord(node));
  return EXIT.ok;
}

async function confirm(cli: Cli, node: ScaledNode): Promise<boolean> {
  const answer = await cli.io.ask(
    `End node ${node.name} (${describeState(node)})? It is drained first; what still runs on it then is stopped. [y/N] `,
    cli.interrupts.first,
  );
  if (answer === undefined)
    throw new CommandError(EXIT.usage, "there is no terminal to ask on", {
      hint: "--yes ends the node without asking",
    });
  return /^\s*y(?:es)?\s*$/i.test(answer);
}

function describeEnd(node: ScaledNode): string {
  return `node ${node.name} is to end: it is ${describeState(node)}; \`muster nodes\` shows how far it is`;
}

function describeState({ phase, holder }: ScaledNode): string {
  return holder === "" ? phase : `${phase}, held by ${plain(holder)}`;
}
