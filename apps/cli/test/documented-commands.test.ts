import { existsSync, globSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { listCommands, type DocumentedCommand } from "@muster/testkit";
import { CommanderError } from "commander";
import { describe, expect, it } from "vitest";
import { CommandError } from "../src/command-error.ts";
import { EXIT } from "../src/domain/decide-exit.ts";
import { RESOURCES, type CommandLine } from "../src/kinds/resources.ts";
import { buildProgram } from "../src/program.ts";

const ROOT = join(import.meta.dirname, "../../..");
const PAGES = ["*.md", "docs/**/*.md", "examples/**/*.md", "{apps,libs}/**/README.md"];
const pages = globSync(PAGES, { cwd: ROOT, exclude: ["**/node_modules/**"] }).toSorted();

const { scripts } = JSON.parse(readFileSync(join(ROOT, "package.json"), "utf8")) as { scripts: object };
const projects = globSync("{apps,libs,tools}/*", { cwd: ROOT }).map((path) => path.split("/")[1] ?? "");
const TARGETS = ["bench", "build", "generate", "lint", "test", "typecheck"];
/** Placeholders that the reader replaces. */
const PLACEHOLDER = /^(?:[A-Z]+(?:\.ts)?|<\w+>)$/;
/** Values that make a placeholder valid on a command line. */
const VALUES: Readonly<Record<string, string>> = { ID: "4711-1", N: "3", P: "ACTIVE", T: "machine" };
/** Variables that the commands of a tutorial set. */
const VARIABLES: Readonly<Record<string, string>> = {
  $FAILED: "failing-x7k2p",
  $ID: "4711-1",
  $LEASE: "4711-1",
  $SESSION: "http-benchmark-x7k2p",
};
/** Files of the repository, which exist in every clone. */
const OWN_FILE = /^(?:apps|deploy|docs|examples|libs|proto|schemas|tools)\/[\w./-]*$/;

/** Thrown when a program starts its action, because its command line is valid by then. */
class Understood extends Error {}

function understood(): never {
  throw new Understood();
}

/** Returns the part of a command line that the program does not know; undefined where it would execute. */
async function problemOfMuster(args: readonly string[], isMentioned: boolean): Promise<string | undefined> {
  if (isMentioned && args.length === 0) return undefined;
  const printed: string[] = [];
  const io = { err: (lines: readonly string[]) => void printed.push(...lines), out: () => undefined };
  const parts: Partial<Record<string, unknown>> = {
    resources: RESOURCES,
    io: new Proxy(io, { get: partOf }),
  };
  // A command uses any other dependency only after it has accepted its arguments.
  const cli = new Proxy({} as CommandLine, { get: (_target, name) => parts[String(name)] ?? understood() });
  try {
    await buildProgram(() => cli, undefined).parse(args.map(valueOf));
  } catch (error) {
    const isIncomplete = error instanceof CommanderError && /^commander\.(?:m|optionM)issing/.test(error.code);
    if (error instanceof CommanderError && error.exitCode !== 0 && !(isMentioned && isIncomplete))
      return printed[0] ?? error.message;
    const isUnderstood = isMentioned || (error instanceof CommandError && error.message.startsWith("ENOENT"));
    if (error instanceof CommandError && error.exitCode === EXIT.usage && !isUnderstood) return error.message;
    if (!(error instanceof CommanderError || error instanceof CommandError || error instanceof Understood)) throw error;
  }
  return undefined;
}

function valueOf(word: string): string {
  return VALUES[word] ?? word.replace(/\$[A-Z]+/, (name) => VARIABLES[name] ?? name);
}

function partOf(io: object, name: string | symbol): unknown {
  return Reflect.get(io, name) ?? understood();
}

async function problemOf({ words, isMentioned }: DocumentedCommand): Promise<string | undefined> {
  const [program = "", ...rest] = words;
  const missing = words.find((word) => OWN_FILE.test(word) && !existsSync(join(ROOT, word)));
  if (missing !== undefined) return `${missing} does not exist`;
  if (program === "node" && rest.some((word) => word.endsWith(".ts")))
    return "runs on the Node of the reader; npx node";
  if (program === "muster") return problemOfMuster(rest, isMentioned);
  if (program === "npm") return problemOfNpm(rest);
  if (program === "npx") return problemOfNpx(rest, isMentioned);
  return undefined;
}

function problemOfNpm(words: readonly string[]): string | undefined {
  const [verb = "", name = ""] = words.filter((word) => !word.startsWith("-"));
  const script = verb === "run" ? name : verb;
  if (["audit", "ci", "install", "uninstall", "version"].includes(script) || script in scripts) return undefined;
  return `package.json has no script ${script}`;
}

function problemOfNpx([program = "", ...rest]: readonly string[], isMentioned: boolean) {
  if (program === "muster") return problemOfMuster(rest, isMentioned);
  if (program === "nx") {
    const [project = "", target = ""] = (rest[1] ?? "").split(":");
    const isKnown = projects.includes(project) || PLACEHOLDER.test(project);
    return isKnown && TARGETS.includes(target) ? undefined : `there is no target ${rest[1] ?? ""}`;
  }
  if (program === "vitest") {
    const project = rest[rest.indexOf("--project") + 1];
    return project === undefined || projects.includes(project) ? undefined : `there is no project ${project}`;
  }
  return program === "node" ? undefined : `npx would fetch ${program}`;
}

describe("the commands of the documents", () => {
  it.each(pages)("of %s are understood, and name scripts, projects and files that exist", async (page) => {
    const problems: string[] = [];
    for (const command of listCommands(readFileSync(join(ROOT, page), "utf8"))) {
      const problem = await problemOf(command);
      if (problem !== undefined) problems.push(`${page}:${command.line}: ${command.words.join(" ")}: ${problem}`);
    }
    expect(problems).toEqual([]);
  });

  it.each([
    ["muster logs job/training worker-0 # of one", undefined],
    ["muster logs <session> server | less", undefined],
    ["muster lease end ID --wati", "error: unknown option '--wati'"],
    ["muster sesions", "error: unknown command 'sesions'"],
    ["npm run chart-scheme", "package.json has no script chart-scheme"],
    ["npx nx run reservation:bench", "there is no target reservation:bench"],
    ["npx cowsay", "npx would fetch cowsay"],
    ["kubectl apply -f deploy/crds/none.yaml", "deploy/crds/none.yaml does not exist"],
    ["node libs/bus/bench/main.ts", "runs on the Node of the reader; npx node"],
  ])("has a word for %s", async (text, problem) => {
    const [command] = listCommands(`\`\`\`sh\n${text}\n\`\`\``);
    if (command === undefined) throw new Error("no command");
    const found = await problemOf(command);
    if (problem === undefined) expect(found).toBeUndefined();
    else expect(found).toContain(problem);
  });
});
