import { createHash } from "node:crypto";
import { readFileSync } from "node:fs";
import { join, relative } from "node:path";

type Position = { line: number; column: number };
/** One mutant of a file, as Stryker describes it: lines and columns count from 0. */
export type Mutant = {
  id: string;
  fileName: string;
  replacement: string;
  location: { start: Position; end: Position };
};
/** A mutant that no test can detect, because the program behaves the same. */
export type EquivalentMutant = { file: string; line: string; original: string; mutant: string; reason: string };

/** Mutants that have no effect, with the reason for each. */
export const equivalentMutants = JSON.parse(
  readFileSync(join(import.meta.dirname, "equivalent-mutants.json"), "utf8"),
) as readonly EquivalentMutant[];

/** Returns the text that a mutant replaces. */
export function getOriginal(source: string, { location: { start, end } }: Pick<Mutant, "location">): string {
  const lines = source.split("\n").slice(start.line, end.line + 1);
  lines.push((lines.pop() ?? "").slice(0, end.column));
  lines[0] = (lines[0] ?? "").slice(start.column);
  return lines.join("\n");
}

/** Writes code in one line, so that a change of its format is no change. */
export function onOneLine(code: string): string {
  return code.replaceAll(/\s+/g, " ").trim();
}

/** Asserts that a mutant is in the sample: the same for the same seed, file, place and replacement. */
export function isSampled(file: string, { location, replacement }: Mutant, share: number, seed: string): boolean {
  const key = [seed, file, location.start.line, location.start.column, replacement].join(":");
  return createHash("sha256").update(key).digest().readUInt32BE(0) / 2 ** 32 < share;
}

/** Returns the reason for which a mutant is equivalent, if the list has it. */
export function findEquivalence(
  file: string,
  mutant: Mutant,
  source: string,
  known: readonly EquivalentMutant[] = equivalentMutants,
): string | undefined {
  const line = source.split("\n")[mutant.location.start.line]?.trim();
  const original = onOneLine(getOriginal(source, mutant));
  const replacement = onOneLine(mutant.replacement);
  return known.find(
    (each) => each.file === file && each.line === line && each.original === original && each.mutant === replacement,
  )?.reason;
}

/** Returns why a mutant is left out: it is outside the sample, or equivalent. */
export function findOmission(file: string, mutant: Mutant, source: string, sample: string): string | undefined {
  const [share, seed] = JSON.parse(sample) as [number, string];
  if (!isSampled(file, mutant, share, seed)) return "outside the sample";
  return findEquivalence(file, mutant, source);
}

/** Stryker runs no tests for a mutant that a checker refuses. */
class SampleChecker {
  readonly #sources = new Map<string, string>();

  init(): Promise<void> {
    return Promise.resolve();
  }

  group(mutants: readonly Mutant[]): Promise<string[][]> {
    return Promise.resolve([mutants.map(({ id }) => id)]);
  }

  check(mutants: readonly Mutant[]): Promise<Record<string, object>> {
    const { MUSTER_MUTATION_SAMPLE: sample = '[1,""]', MUSTER_MUTATION_ROOT: root = "." } = process.env;
    const answers = mutants.map((mutant) => {
      const source = this.#sources.get(mutant.fileName) ?? readFileSync(mutant.fileName, "utf8");
      this.#sources.set(mutant.fileName, source);
      const reason = findOmission(relative(root, mutant.fileName), mutant, source, sample);
      return [mutant.id, reason === undefined ? { status: "passed" } : { status: "compileError", reason }] as const;
    });
    return Promise.resolve(Object.fromEntries(answers));
  }
}

export const strykerPlugins = [{ kind: "Checker", name: "sample", factory: () => new SampleChecker() }];
