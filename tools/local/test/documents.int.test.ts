import { readFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { kubeCalls, loadKube, unlessMissing, type KubeObject } from "@muster/kube";
import { commandsOf, until, type DocumentedCommand } from "@muster/testkit";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { ELASTIC, POOLS } from "../src/elastic.ts";
import { ROOT } from "../src/root.ts";
import { muster } from "./muster-run.ts";
import { startWorld, type World } from "./stack-world.ts";

/** Documents for the local stack, and where their steps stand: the text of a guide also names commands without arguments. */
const PAGES: readonly (readonly [page: string, steps: "all" | "blocks"])[] = [
  ["README.md", "all"],
  ["examples/README.md", "all"],
  ["apps/cli/README.md", "all"],
  ["docs/leases.md", "blocks"],
  ["docs/tracing.md", "blocks"],
];

/** Commands that do not run here, and why. */
const NOT_RUN: readonly (readonly [command: RegExp, because: string])[] = [
  [/^npm (?:start|test|ci)\b/, "installs, tests or starts a stack, as CI and start.int.test.ts do"],
  [/^npm (?:run archive|install -g)$/, "packs and installs the command, as its own start.int.test.ts does"],
  [/^npm run images$/, "builds images, as the tests of the containers do"],
  [/^docker compose /, "needs Docker, as the tests of the containers do"],
  [/^kubectl\b/, "is another program; definitions.int.test.ts applies the same files"],
  [/ (?:FILE|COMMAND)\b/, "names a file or a command of the reader"],
  [/^(?:npx )?muster(?: run)?$/, "names the program, or a command of it without its arguments"],
  [/ (?:4711-1|lease\.json)\b/, "names a lease or a file of the reader"],
  [/ --secret kubeconfig$/, "needs a lease of type kubernetes; leases.int.test.ts opens the secret of one"],
];

const textOf = ({ words }: DocumentedCommand): string => words.join(" ");
const pages = PAGES.map(([page, steps]) => {
  const text = readFileSync(join(ROOT, page), "utf8");
  const all = commandsOf(text);
  const blocks = all.filter(({ isMentioned }) => !isMentioned);
  const isInBlock = (command: DocumentedCommand): boolean => blocks.some((each) => textOf(each) === textOf(command));
  const commands = steps === "all" ? all.filter((each) => !each.isMentioned || !isInBlock(each)) : blocks;
  return { page, lines: text.split("\n"), commands };
});

describe("the commands of a document, on the local stack", () => {
  let world: World;

  beforeAll(async () => {
    world = await startWorld({ elastic: ELASTIC, pools: POOLS });
  }, 180_000);

  afterAll(() => world[Symbol.asyncDispose]());

  const anySession = async (): Promise<string> => (await world.sessions.listSessions({})).sessions[0]?.name ?? "";

  /** Each page assumes a new stack: no job has the name of an example. */
  const deleteJobs = async (): Promise<void> => {
    await using calls = kubeCalls(loadKube(world.stack.kubeconfig));
    const jobs = { apiVersion: "muster.dev/v1", plural: "jobs", namespace: "default" };
    for (const { metadata } of (await calls.list<KubeObject>(jobs)).items) {
      const name = metadata?.name ?? "";
      await unlessMissing(calls.delete(jobs, name));
      await until(`job ${name} is gone`, async () => (await unlessMissing(calls.get(jobs, name))) === undefined);
    }
  };

  it.each(pages)(
    "$page: each ends with 0, or as the document states",
    { timeout: 300_000 },
    async ({ page, lines, commands }) => {
      await deleteJobs();
      const home = join(dirname(world.stack.kubeconfig), page.replaceAll("/", "-"));
      const stack = { clientEnv: { ...world.stack.clientEnv, HOME: home } };
      const wrong: string[] = [];
      let lease = "";
      for (const command of commands) {
        const text = textOf(command);
        if (NOT_RUN.some(([pattern]) => pattern.test(text))) continue;
        const [, expected = "0"] = /exits with (\d+)/.exec(lines[command.line - 1] ?? "") ?? [];
        const values: Readonly<Record<string, string>> = { "<session>": await anySession(), ID: lease };
        const words = command.words.slice(command.words.indexOf("muster") + 1).map((word) => values[word] ?? word);
        const { code, output } = await muster({ stack }, words);
        if (text.includes(" lease order ")) [lease = ""] = /\d+-\d+/.exec(output) ?? [];
        if (code !== Number(expected)) wrong.push(`${page}:${command.line}: ${text}: exit code ${code}: ${output}`);
      }
      expect(wrong).toEqual([]);
    },
  );
});

it.each(NOT_RUN)("a document has the excluded command %s: it %s", (pattern) => {
  expect(pages.flatMap(({ commands }) => commands.map(textOf)).filter((text) => pattern.test(text))).not.toEqual([]);
});
