import { faultOf, unlessMissing } from "@muster/faults";
import { CommandError } from "../command-error.ts";
import { EXIT, type ExitCode } from "../domain/decide-exit.ts";
import { readOwner } from "../domain/owner.ts";
import { findResource, splitTarget, type CommandLine } from "../kinds/resources.ts";
import { askAbout } from "./find-work.ts";
import { print, type Format } from "./output.ts";
import { showReservation } from "./show-reservation.ts";

/** `muster explain KIND/NAME`: why it is in its phase; where only the ledger knows the name, what it holds or waits for. */
export async function explain(cli: CommandLine, text: string, output: Format): Promise<ExitCode> {
  const { word, name } = splitTarget(text);
  const found = text.includes("/") ? findResource(cli.resources, word) : cli.resources[0];
  const nouns = cli.resources.flatMap((each) => (each.explain === undefined ? [] : [each.noun]));
  const owner = readOwner(found?.explain === undefined ? text : `${found.noun}/${name}`, nouns);
  if ("trouble" in owner) throw new CommandError(EXIT.usage, owner.trouble);
  const { kind, id } = owner;
  await using connected = await cli.connect();
  const reservation = () => unlessMissing(connected.services.explanation(kind, id));
  const shown = await askAbout(cli, connected, { resource: found ?? {}, text, name: id }, async () => {
    if (found?.explain === undefined) return showReservation(cli, connected, owner, await reservation());
    try {
      return await found.explain(cli, connected, id);
    } catch (error) {
      if (faultOf(error)?.code !== "not_found" || found.hasOwnerIds !== true) throw error;
      const known = await reservation();
      if (known === undefined) throw error;
      return showReservation(cli, connected, owner, known);
    }
  });
  print(cli.io, output, shown);
  return EXIT.ok;
}
