import { CommandError } from "../command-error.ts";
import { EXIT, type ExitCode } from "../domain/decide-exit.ts";
import type { ResourceRow } from "../kinds/resource.ts";
import type { CommandLine } from "../kinds/resources.ts";
import { askResource } from "./find-work.ts";
import { printForms, type Format } from "./output.ts";

export type GetOptions = {
  readonly output: Format;
  /** Limits a list to the items whose labels match. */
  readonly selector?: string | undefined;
};

/** `muster get KIND [NAME]`: prints one item or a list. */
export async function getItems(
  cli: CommandLine,
  resource: ResourceRow,
  name: string | undefined,
  { output, selector }: GetOptions,
): Promise<ExitCode> {
  if (selector !== undefined) checkSelectable(resource, name);
  await using connected = await cli.connect();
  const items =
    name === undefined
      ? await resource.list(connected, selector)
      : [await askResource(connected, resource, name, () => resource.get(connected, name))];
  const nowMs = cli.now();
  printForms(cli.io, output, {
    table: (style) =>
      items.length === 0
        ? [selector === undefined ? resource.none : `no ${resource.plural} match ${selector}`]
        : resource.table(items, { nowMs, style }, ...(name === undefined ? [] : [true as const])),
    data: () => {
      const records = items.map((item) => resource.record(item));
      return name === undefined ? records : records[0];
    },
  });
  cli.io.err(resource.notes?.(items, nowMs) ?? []);
  return EXIT.ok;
}

function checkSelectable({ plural, hasLabels }: ResourceRow, name: string | undefined): void {
  if (hasLabels !== true)
    throw new CommandError(EXIT.usage, `${plural} have no labels`, { hint: "--selector is for jobs and replica sets" });
  if (name !== undefined)
    throw new CommandError(EXIT.usage, "--selector is for a list, not for one name", {
      hint: `muster get ${plural} --selector ...`,
    });
}
