import type { CommandLine } from "../kinds/resources.ts";
import { buildWorkRecord } from "../domain/build-views.ts";
import { EXIT, type ExitCode } from "../domain/decide-exit.ts";
import type { Resource } from "../kinds/resource.ts";
import { askOf, kindOfName, readWorkTarget } from "./find-work.ts";
import { print, printLine, type Format } from "./output.ts";

/** `muster get KIND [NAME]` */
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

/** `muster describe KIND NAME` */
export async function describeItem(
  cli: CommandLine,
  resource: Resource,
  name: string,
  output: Format,
): Promise<ExitCode> {
  await using connected = await cli.connect();
  const item = await askOf(
    connected,
    resource,
    name,
    () => resource.getWhole?.(connected, name) ?? resource.get(connected, name),
  );
  print(cli.io, output, {
    table: (style) => resource.describe?.(item, { nowMs: cli.now(), style }) ?? [],
    data: () => resource.record(item),
  });
  return EXIT.ok;
}

/** `muster cancel NAME` */
export async function cancelWork(cli: CommandLine, target: string, output: Format): Promise<ExitCode> {
  const { kind: meant, name } = readWorkTarget(cli, target, "cancel");
  await using connected = await cli.connect();
  const kind = target.includes("/") ? meant : await kindOfName(cli, connected, name);
  const work = await kind.calls(connected.link).cancel(name);
  const how =
    work.finishedAtMs === undefined
      ? `is being cancelled; \`muster describe ${kind.noun} ${name}\` shows how far it is`
      : "was over already: nothing changed";
  printLine(cli.io, output, `${kind.noun} ${name} ${how}`, () => buildWorkRecord(work));
  return EXIT.ok;
}
