/** Changes one expression of the pure code at a time and runs the unit tests: a change that no test detects is a gap. */
import { execFileSync } from "node:child_process";
import { readFileSync } from "node:fs";
import { availableParallelism } from "node:os";
import { join, relative } from "node:path";
import { parseArgs } from "node:util";
import { Stryker } from "@stryker-mutator/core";
import { type Mutant, findOmission, onOneLine, getOriginal } from "./mutation-checker.ts";
import { listMutatedProjects, type MutatedProject } from "./mutation-scope.ts";

const ROOT = join(import.meta.dirname, "../..");
/** Average number of mutants per line of code. */
const MUTANTS_PER_LINE = 1;
const USAGE = `Usage: npm run mutate -- [PROJECT...] [--changed] [--base main] [--sample N] [--seed TEXT] [--file TEXT]

  --changed  only files that differ from the branch of --base
  --sample   about N mutants of each project instead of all
  --seed     another sample
  --file     only files whose path contains the text
`;

type Result = Mutant & { status: string; location: Mutant["location"] };

const { values, positionals } = parseArgs({
  allowPositionals: true,
  options: {
    changed: { type: "boolean", default: false },
    base: { type: "string", default: "main" },
    sample: { type: "string" },
    seed: { type: "string", default: "1" },
    file: { type: "string", default: "" },
    help: { type: "boolean", default: false },
  },
});

if (values.help) process.stdout.write(USAGE);
else await mutateAll();

async function mutateAll(): Promise<void> {
  const all = listMutatedProjects(ROOT);
  const unknown = positionals.find((name) => !all.some((project) => project.name === name));
  if (unknown !== undefined) {
    process.stderr.write(
      `error: ${unknown} is not a mutated project; choose one of: ${all.map(({ name }) => name).join(", ")}\n`,
    );
    process.exitCode = 2;
    return;
  }
  const changed = values.changed ? changedFiles(values.base) : undefined;
  const summary: string[] = [];
  const sum = { killed: 0, all: 0 };
  for (const project of all) {
    if (positionals.length > 0 && !positionals.includes(project.name)) continue;
    const files = project.files.filter((file) => (changed?.has(file) ?? true) && file.includes(values.file));
    if (files.length === 0) continue;
    const { killed, survivors } = await mutateProject({ ...project, files });
    for (const survivor of survivors) process.stdout.write(`${survivor}\n`);
    summary.push(describeScore(project.name, killed, killed + survivors.length));
    sum.killed += killed;
    sum.all += killed + survivors.length;
  }
  process.stdout.write(`\n${[...summary, describeScore("all", sum.killed, sum.all)].join("\n")}\n`);
}

async function mutateProject(project: MutatedProject): Promise<{ killed: number; survivors: string[] }> {
  const sources = new Map(project.files.map((file) => [file, readFileSync(join(ROOT, file), "utf8")]));
  const lines = [...sources.values()].reduce((count, source) => count + source.split("\n").length, 0);
  const share = values.sample === undefined ? 1 : Number(values.sample) / (lines * MUTANTS_PER_LINE);
  const sample = JSON.stringify([share, values.seed]);
  Object.assign(process.env, {
    MUSTER_MUTATION_SAMPLE: sample,
    MUSTER_MUTATION_ROOT: ROOT,
    MUSTER_MUTATION_PROJECT: project.root,
  });
  const results = (await runStryker(project.files)).map((result) => ({ ...result, location: fromZero(result) }));
  const judged = results.filter((result) => {
    const file = relative(ROOT, result.fileName);
    return findOmission(file, result, sources.get(file) ?? "", sample) === undefined;
  });
  const survivors = judged.filter(({ status }) => status === "Survived" || status === "NoCoverage");
  return {
    killed: judged.filter(({ status }) => status === "Killed" || status === "Timeout").length,
    survivors: survivors.map((result) => {
      const file = relative(ROOT, result.fileName);
      return describeSurvivor(file, sources.get(file) ?? "", result);
    }),
  };
}

async function runStryker(files: readonly string[]): Promise<readonly Result[]> {
  const stryker = new Stryker({
    mutate: [...files],
    testRunner: "vitest",
    plugins: ["@stryker-mutator/vitest-runner", join(import.meta.dirname, "mutation-checker.ts")],
    checkers: ["sample"],
    // Half of the processes check the sample first.
    concurrency: availableParallelism(),
    coverageAnalysis: "perTest",
    // Beyond one and a half times the duration of the tests without a mutant: a busy machine detects nothing.
    timeoutMS: 20_000,
    vitest: { configFile: "tools/repo/mutate.vitest.config.ts", related: false },
    // Stryker cannot copy links to folders.
    ignorePatterns: ["deploy/helm/muster/files", ".nx", ".muster"],
    tempDirName: ".muster/mutation",
    reporters: [],
    allowConsoleColors: false,
    logLevel: "error",
  } as unknown as ConstructorParameters<typeof Stryker>[0]);
  return await stryker.runMutationTest();
}

/** Results count lines from 1, the input of a checker counts from 0. */
function fromZero({ location: { start, end } }: Result): Mutant["location"] {
  return {
    start: { line: start.line - 1, column: start.column - 1 },
    end: { line: end.line - 1, column: end.column - 1 },
  };
}

function changedFiles(base: string): ReadonlySet<string> {
  const git = (...args: string[]): string[] =>
    execFileSync("git", args, { cwd: ROOT, encoding: "utf8" }).trim().split("\n");
  const [mergeBase = base] = git("merge-base", "HEAD", base);
  return new Set([...git("diff", "--name-only", mergeBase), ...git("ls-files", "--others", "--exclude-standard")]);
}

function describeSurvivor(file: string, source: string, mutant: Result): string {
  const { line, column } = mutant.location.start;
  const place = `${file}:${String(line + 1)}:${String(column + 1)}`;
  const untested = mutant.status === "NoCoverage" ? " (runs in no test)" : "";
  return `${place}  ${onOneLine(getOriginal(source, mutant))} -> ${onOneLine(mutant.replacement)}${untested}`;
}

function describeScore(name: string, killed: number, all: number): string {
  const score = all === 0 ? "-" : `${((100 * killed) / all).toFixed(1)}%`;
  return `${name.padEnd(22)} ${score.padStart(6)}  ${String(killed)} of ${String(all)} mutants detected`;
}
