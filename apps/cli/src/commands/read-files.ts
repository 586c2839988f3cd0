import {
  describePlace,
  describeProblem,
  MAX_FILE_BYTES,
  parseDocuments,
  type DocumentPlace,
  type PlacedDocument,
  type DocumentProblem,
} from "../adapters/parse-documents.ts";
import type { Cli } from "../cli.ts";
import { CommandError } from "../command-error.ts";
import { EXIT } from "../domain/decide-exit.ts";
import { formatCount } from "../domain/plural.ts";
import type { ReadDocument } from "../domain/read-document.ts";

/** Limits the printed problems of a file, because the first ones usually explain the rest. */
const MAX_PROBLEMS = 50;

/** Reads the documents of all files. If any has a problem, or two have the same title, prints every problem and throws CommandError. */
export async function readFiles<Value>(
  cli: Cli,
  files: readonly string[],
  {
    read,
    titleOf,
    hint,
  }: {
    readonly read: (document: unknown) => ReadDocument<Value>;
    /** Unique among the documents; undefined if the name is generated later. */
    readonly titleOf: (value: Value) => string | undefined;
    /** The remedy for the problems; undefined: the remedy for submitted work. */
    readonly hint?: string;
  },
): Promise<PlacedDocument<Value>[]> {
  const documents: PlacedDocument<Value>[] = [];
  const problems: DocumentProblem[] = [];
  const firstOf = new Map<string, DocumentPlace>();
  for (const file of files) {
    const parsed = parseDocuments(file === "-" ? "stdin" : file, await cli.io.read(file, MAX_FILE_BYTES), read);
    problems.push(...parsed.problems);
    for (const placed of parsed.documents) {
      documents.push(placed);
      const { value, place } = placed;
      const title = titleOf(value);
      const first = title === undefined ? undefined : firstOf.get(title);
      if (title === undefined) continue;
      if (first === undefined) firstOf.set(title, place);
      else problems.push({ ...place, message: `${title} is given twice, first at ${describePlace(first)}` });
    }
  }
  refuseProblems(cli, problems, hint);
  return documents;
}

/** Prints the problems, and throws CommandError if any exist. */
export function refuseProblems(
  cli: Cli,
  problems: readonly DocumentProblem[],
  hint = "nothing was submitted; examples/ has valid files",
): void {
  if (problems.length === 0) return;
  const more = problems.length - MAX_PROBLEMS;
  cli.io.err(problems.slice(0, MAX_PROBLEMS).map((problem) => `error: ${describeProblem(problem)}`));
  if (more > 0) cli.io.err([`error: ${formatCount(more, "more problem")}`]);
  throw new CommandError(EXIT.usage, `${formatCount(problems.length, "problem")} found`, { hint });
}
