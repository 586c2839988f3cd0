import { nodeCalls } from "../adapters/node-calls.ts";
import type { Cli } from "../cli.ts";
import { CommandError } from "../command-error.ts";
import { buildNodeTable, buildScalerDump, troubleOf } from "../domain/build-node-views.ts";
import { buildRecord } from "../domain/build-record.ts";
import { EXIT, type ExitCode } from "../domain/decide-exit.ts";
import type { ScaledNode } from "../domain/scaled-node.ts";
import { print, type Format } from "./output.ts";

/** `muster nodes [-p POOL]`: the nodes that the node scaler made, or makes; with `all` those that are gone already too. */
export async function listNodes(
  cli: Cli,
  { pool, all, format }: { readonly pool: string | undefined; readonly all: boolean; readonly format: Format },
): Promise<ExitCode> {
  await using connected = await cli.connect();
  const listed = await nodeCalls(connected.link).list(pool);
  const nodes = all ? listed : listed.filter(({ phase }) => phase !== "TERMINATED");
  const none = pool === undefined ? "no nodes" : `no nodes in pool ${pool}`;
  print(cli.io, format, {
    table: (style) => (nodes.length === 0 ? [none] : buildNodeTable(nodes, cli.now(), style)),
    data: () => nodes.map((node) => buildRecord({ ...node, reason: troubleOf(node) })),
  });
  return EXIT.ok;
}

/** `muster nodes dump`: the state of the scaler's loops, and what they remember. */
export async function dumpNodes(cli: Cli, format: Format): Promise<ExitCode> {
  await using connected = await cli.connect();
  const dump = await nodeCalls(connected.link).dump();
  print(cli.io, format, {
    table: (style) => buildScalerDump(dump, cli.now(), style),
    data: () => buildRecord(dump),
  });
  return EXIT.ok;
}

/** `muster nodes terminate NAME`: asks somebody at a terminal first, unless `sure`. */
export async function terminateNode(
  cli: Cli,
  name: string,
  { sure, format }: { readonly sure: boolean; readonly format: Format },
): Promise<ExitCode> {
  if (!sure && !(await confirm(cli, name))) {
    cli.io.err(["nothing was done"]);
    return EXIT.interrupted;
  }
  await using connected = await cli.connect();
  const node = await nodeCalls(connected.link).terminate(name);
  print(cli.io, format, { table: () => [describeEnd(node)], data: () => buildRecord(node) });
  return EXIT.ok;
}

async function confirm(cli: Cli, name: string): Promise<boolean> {
  const answer = await cli.io.ask(
    `End node ${name}? It is drained first; what still runs on it then is stopped. [y/N] `,
    cli.interrupts.first,
  );
  if (answer === undefined)
    throw new CommandError(EXIT.usage, "there is no terminal to ask on", {
      hint: "--yes ends the node without asking",
    });
  return /^\s*y(?:es)?\s*$/i.test(answer);
}

function describeEnd({ name, phase, holder }: ScaledNode): string {
  const whose = holder === "" ? "" : `, held by ${holder}`;
  return `node ${name} is to end: it is ${phase}${whose}; \`muster nodes\` shows how far it is`;
}
