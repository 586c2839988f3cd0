import { describeFault, faultOf } from "@muster/faults";
import type { Cli, Connected } from "../cli.ts";
import { buildDeadLetter, buildDeadLetterRecord, buildDeadLetterTable } from "../domain/build-dead-letters.ts";
import { decideExit, EXIT, type ExitCode } from "../domain/decide-exit.ts";
import { plural } from "../domain/plural.ts";
import { print, printList, type Format } from "./output.ts";

/** In one list; `--area` and dropping show the rest. */
const MAX_LETTERS = 500;

/** `muster dead-letters list`: the messages that no service could handle, oldest first. */
export async function listDeadLetters(cli: Cli, area: string | undefined, format: Format): Promise<ExitCode> {
  await using connected = await cli.connect();
  const letters = await connected.deadLetters.list(area, MAX_LETTERS);
  printList(cli.io, format, letters, {
    none: "no dead letters",
    table: (style) => buildDeadLetterTable(letters, cli.now(), style),
    record: buildDeadLetterRecord,
  });
  if (letters.length === MAX_LETTERS) cli.io.err([`note: the oldest ${MAX_LETTERS}; there may be more`]);
  return EXIT.ok;
}

/** `muster dead-letters show ID` */
export async function showDeadLetter(cli: Cli, id: number, format: Format): Promise<ExitCode> {
  await using connected = await cli.connect();
  const letter = await connected.deadLetters.show(id);
  print(cli.io, format, {
    table: (style) => buildDeadLetter(letter, style),
    data: () => buildDeadLetterRecord(letter),
  });
  return EXIT.ok;
}

/** `muster dead-letters replay ID...`: sends messages again to where they were first sent, and drops their letters. */
export function replayDeadLetters(cli: Cli, ids: readonly number[]): Promise<ExitCode> {
  return each(cli, ids, async ({ deadLetters }, id) => {
    const { duplicate } = await deadLetters.replay(id);
    return duplicate ? `letter ${id}: its work is queued already; dropped` : `letter ${id}: sent again`;
  });
}

/** `muster dead-letters drop ID...` */
export function dropDeadLetters(cli: Cli, ids: readonly number[]): Promise<ExitCode> {
  return each(cli, ids, async ({ deadLetters }, id) => {
    await deadLetters.drop(id);
    return `letter ${id}: dropped`;
  });
}

/** Continues after a refusal; the exit code is that of the first refusal. */
async function each(
  cli: Cli,
  ids: readonly number[],
  act: (connected: Connected, id: number) => Promise<string>,
): Promise<ExitCode> {
  await using connected = await cli.connect();
  let refused: { readonly code: ExitCode; readonly hint: string | undefined; count: number } | undefined;
  for (const id of ids) {
    try {
      cli.io.out([await act(connected, id)]);
    } catch (error) {
      const fault = faultOf(error);
      if (fault === undefined) throw error;
      refused = refused ?? { ...decideExit(fault), count: 0 };
      refused.count += 1;
      const about = fault.code === "not_found" ? "" : `letter ${id}: `;
      cli.io.err([`error: ${about}${describeFault(fault)}`]);
    }
  }
  if (refused === undefined) return EXIT.ok;
  cli.io.err([
    `${refused.count} of ${plural(ids.length, "letter")} failed`,
    ...(refused.hint === undefined ? [] : [`hint: ${refused.hint}`]),
  ]);
  return refused.code;
}
