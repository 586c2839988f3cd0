import { EXIT, type ExitCode } from "../domain/decide-exit.ts";
import { readApplied } from "../kinds/documents.ts";
import type { ApplyOptions, CheckDocuments, ApplyResult } from "../kinds/resource.ts";
import type { CommandLine } from "../kinds/resources.ts";
import { printRecords } from "./output.ts";
import { readFiles, refuseProblems } from "./read-files.ts";

/** `muster apply -f FILE`: creates or updates the items of the files, resource by resource, in the order of the table. */
export async function applyFiles(cli: CommandLine, files: readonly string[], options: ApplyOptions): Promise<ExitCode> {
  const documents = await readFiles(cli, files, {
    read: (document) => readApplied(cli.resources, document),
    titleOf: ({ applying, value }) => applying.titleOf(value),
  });
  const checks: CheckDocuments[] = [];
  for (const applying of cli.resources.flatMap((resource) => resource.documents?.applying ?? [])) {
    const own = documents.filter(({ value }) => value.applying === applying);
    const placed = own.map(({ value, ...place }) => ({ ...place, value: value.value }));
    if (own.length > 0) checks.push(await applying.prepare(cli, placed, options));
  }
  await using connected = await cli.connect();
  const checked: Awaited<ReturnType<CheckDocuments>>[] = [];
  for (const check of checks) checked.push(await check(connected));
  refuseProblems(
    cli,
    checked.flatMap(({ problems }) => problems),
  );
  const all: unknown[] = [];
  let last: ApplyResult = { code: EXIT.ok, records: [] };
  for (const { send } of checked) {
    last = await send();
    all.push(...last.records);
    if (last.code !== EXIT.ok) break;
  }
  printRecords(cli.io, options.output, all);
  if (last.failure !== undefined) throw last.failure;
  return last.code;
}
