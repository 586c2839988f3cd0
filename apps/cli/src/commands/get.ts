import { EXIT, type ExitCode } from "../domain/decide-exit.ts";
import type { Resource } from "../kinds/resource.ts";
import type { CommandLine } from "../kinds/resources.ts";
import { askOf } from "./find-work.ts";
import { print, type Format } from "./output.ts";

/** `muster get KIND [NAME]`: prints one item or a list. */
export async function getItems(
  cli: CommandLine,
  resource: Resource,
  name: string | undefined,
  output: Format,
): Promise<ExitCode> {
  await using connected = await cli.connect();
  const items =
    name === undefined
      ? await resource.list(connected)
      : [await askOf(connected, resource, name, () => resource.get(connected, name))];
  const nowMs = cli.now();
  print(cli.io, output, {
    table: (style) =>
      items.length === 0
        ? [resource.none]
        : resource.table(items, { nowMs, style }, ...(name === undefined ? [] : [true as const])),
    data: () => {
      const records = items.map((item) => resource.record(item));
      return name === undefined ? records : records[0];
    },
  });
  cli.io.err(resource.notes?.(items, nowMs) ?? []);
  return EXIT.ok;
}
