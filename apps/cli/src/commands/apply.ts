import { faultOf } from "@muster/faults";
import { farmCalls, type FarmCalls } from "../adapters/farm-calls.ts";
import type { Placed, Problem } from "../adapters/parse-documents.ts";
import type { Cli, Connected } from "../cli.ts";
import { CommandError } from "../command-error.ts";
import { EXIT, type ExitCode } from "../domain/decide-exit.ts";
import { SET_NOUN } from "../domain/replica-set.ts";
import { buildSetDocument, type SetDocument } from "../domain/set-document.ts";
import { readSet } from "../kinds/kinds.ts";
import { askOfSet, documentField } from "./farm-questions.ts";
import { print, type Format } from "./output.ts";
import { readFiles, refuseProblems } from "./read-files.ts";
import { followSet, recordOf } from "./replica-sets.ts";

type Applied = Awaited<ReturnType<FarmCalls["apply"]>>;

export type ApplyOptions = {
  readonly replace: boolean;
  readonly dryRun: boolean;
  readonly wait: boolean;
  readonly timeoutMs: number | undefined;
  readonly output: Format;
};

/** `muster apply -f FILE`: makes the replica sets of the files, or makes them what the files say. */
export async function apply(cli: Cli, files: readonly string[], options: ApplyOptions): Promise<ExitCode> {
  const documents = await readSets(cli, files);
  await using connected = await cli.connect();
  const farms = farmCalls(connected.link);
  const checked = await checkAll(cli, farms, documents, options.replace);
  const applied: Applied[] = [];
  const done = (each: Applied): void => {
    applied.push(each);
    const dry = options.dryRun ? " (dry run: nothing was done)" : "";
    if (options.output === "table") cli.io.out([`${SET_NOUN}/${each.set.name} ${each.outcome}${dry}`]);
  };
  if (options.dryRun) for (const each of checked) done(each);
  else
    for (const { value } of documents)
      done(
        await askOfSet(connected, value.name, (asked) =>
          asked.apply(value, { replace: options.replace, dryRun: false }),
        ),
      );
  const code = options.wait && !options.dryRun ? await followAll(cli, connected, applied, options) : EXIT.ok;
  if (options.output !== "table")
    print(cli.io, options.output, {
      table: () => [],
      data: () =>
        options.dryRun
          ? documents.map(({ value }) => buildSetDocument(value))
          : applied.map(({ set, outcome }) => ({ outcome, ...recordOf(set) })),
    });
  return code;
}

/** The sets of the files. Throws CommandError when anything in them is wrong. */
export function readSets(cli: Cli, files: readonly string[]): Promise<Placed<SetDocument>[]> {
  return readFiles(cli, files, {
    read: (document) => readSet(cli.kinds, document),
    titleOf: ({ name }) => `${SET_NOUN} ${name}`,
  });
}

/** All that the farms would refuse is told before anything is done, at the places where it stands. */
async function checkAll(
  cli: Cli,
  farms: FarmCalls,
  documents: readonly Placed<SetDocument>[],
  replace: boolean,
): Promise<Applied[]> {
  const problems: Problem[] = [];
  const checked: Applied[] = [];
  for (const { value, placeOf } of documents) {
    try {
      checked.push(await farms.apply(value, { replace, dryRun: true }));
    } catch (error) {
      const fault = faultOf(error);
      if (fault?.code !== "invalid_request") throw error;
      const field = documentField(fault.field);
      problems.push({ ...placeOf(field), message: `${field}: ${adviceOn(field, fault.reason, value)}` });
    }
  }
  refuseProblems(cli, problems);
  return checked;
}

function adviceOn(field: string, reason: string, { name }: SetDocument): string {
  return field === "spec.template" && reason.includes("`replace`")
    ? `${reason}. \`muster roll ${name} -f FILE --minimum N\`, with another name in the file, rolls it; \`muster apply --replace\` does not keep a minimum`
    : reason;
}

async function followAll(
  cli: Cli,
  connected: Connected,
  applied: readonly Applied[],
  { timeoutMs, output }: ApplyOptions,
): Promise<ExitCode> {
  for (const { set } of applied) {
    const code = await followSet(cli, connected, set, timeoutMs);
    if (code !== EXIT.ok) return code;
    if (output === "table") cli.io.out([`${SET_NOUN}/${set.name} ready`]);
  }
  return EXIT.ok;
}

/** The one set of a file. */
export async function readOneSet(cli: Cli, file: string): Promise<SetDocument> {
  const [only, ...others] = await readSets(cli, [file]);
  if (only === undefined || others.length > 0)
    throw new CommandError(EXIT.usage, `${file} has ${others.length + 1} documents; one is needed`);
  return only.value;
}
