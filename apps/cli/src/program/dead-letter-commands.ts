import { InvalidArgumentError } from "commander";
import { describeFault, findFault } from "@muster/faults";
import type { Cli, ConnectedCli } from "../cli.ts";
import { buildDeadLetter, buildDeadLetterRecord, buildDeadLetterTable } from "../domain/build-dead-letters.ts";
import { decideExit, EXIT, type ExitCode } from "../domain/decide-exit.ts";
import { formatCount } from "../domain/plural.ts";
import { printForms, printList } from "../commands/output.ts";
import { argument, defineCommand, option, type CommandRow } from "./command-row.ts";
import { OUTPUT } from "./shared-options.ts";

/** Limits one list; `--area` and dropped letters reveal the rest. */
const MAX_LETTERS = 500;

const LETTERS = argument("<id...>", "their ids", (text, before: readonly number[] = []) => [
  ...before,
  letterArgument(text),
]);

/** `muster dead-letters`: handles messages that no service could handle. */
export const DEAD_LETTERS: CommandRow = {
  name: "dead-letters",
  description: "List messages that no service could handle, with the reason; replay or drop them.",
  examples: [
    "muster dead-letters list",
    "muster dead-letters show 12",
    "muster dead-letters replay 12 13",
    "muster dead-letters drop 14",
  ],
  commands: [
    defineCommand({
      name: "list",
      description: "List dead letters, oldest first.",
      options: { area: option("--area <area>", "only letters of this area, such as session"), output: OUTPUT },
      run: async (cli, _, { area, output }) => {
        await using connected = await cli.connect();
        const letters = await connected.deadLetters.list(area, MAX_LETTERS);
        printList(cli.io, output, letters, {
          none: "no dead letters",
          table: (style) => buildDeadLetterTable(letters, cli.now(), style),
          record: buildDeadLetterRecord,
        });
        if (letters.length === MAX_LETTERS)
          cli.io.err([`note: only the oldest ${MAX_LETTERS} letters; more may exist`]);
        return EXIT.ok;
      },
    }),
    defineCommand({
      name: "show",
      description: "Show one dead letter with its message.",
      arguments: [argument("<id>", "its id", letterArgument)],
      options: { output: OUTPUT },
      run: async (cli, [id], { output }) => {
        await using connected = await cli.connect();
        const letter = await connected.deadLetters.show(id);
        printForms(cli.io, output, {
          table: (style) => buildDeadLetter(letter, style),
          data: () => buildDeadLetterRecord(letter),
        });
        return EXIT.ok;
      },
    }),
    defineCommand({
      name: "replay",
      description: "Send messages to their original subjects again, after the cause is fixed.",
      arguments: [LETTERS],
      run: (cli, [ids]) =>
        runForEach(cli, ids, async ({ deadLetters }, id) => {
          const { duplicate } = await deadLetters.replay(id);
          return duplicate ? `letter ${id}: its work is queued already; dropped` : `letter ${id}: sent again`;
        }),
    }),
    defineCommand({
      name: "drop",
      description: "Drop dead letters. A dropped letter cannot be replayed.",
      arguments: [LETTERS],
      run: (cli, [ids]) =>
        runForEach(cli, ids, async ({ deadLetters }, id) => {
          await deadLetters.drop(id);
          return `letter ${id}: dropped`;
        }),
    }),
  ],
};

/** Continues after a refusal; the first refusal decides the exit code. */
async function runForEach(
  cli: Cli,
  ids: readonly number[],
  act: (connected: ConnectedCli, id: number) => Promise<string>,
): Promise<ExitCode> {
  await using connected = await cli.connect();
  let refused: { readonly code: ExitCode; readonly hint: string | undefined; count: number } | undefined;
  for (const id of ids) {
    try {
      cli.io.out([await act(connected, id)]);
    } catch (error) {
      const fault = findFault(error);
      if (fault === undefined) throw error;
      refused = refused ?? { ...decideExit(fault), count: 0 };
      refused.count += 1;
      const about = fault.code === "not_found" ? "" : `letter ${id}: `;
      cli.io.err([`error: ${about}${describeFault(fault)}`]);
    }
  }
  if (refused === undefined) return EXIT.ok;
  cli.io.err([
    `${refused.count} of ${formatCount(ids.length, "letter")} failed`,
    ...(refused.hint === undefined ? [] : [`hint: ${refused.hint}`]),
  ]);
  return refused.code;
}

function letterArgument(text: string): number {
  if (!/^[1-9]\d{0,15}$/.test(text)) throw new InvalidArgumentError("The id of a letter is a whole number.");
  return Number(text);
}
