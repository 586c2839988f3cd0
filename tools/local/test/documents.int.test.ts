import { globSync, readFileSync } from "node:fs";
import { mkdir, readFile, writeFile } from "node:fs/promises";
import { dirname, join } from "node:path";
import { makeKubeCalls, loadKube, unlessMissing, type KubeObject } from "@muster/kube";
import { listCommands, until, type DocumentedCommand } from "@muster/testkit";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { ELASTIC, POOLS } from "../src/elastic.ts";
import { ROOT } from "../src/root.ts";
import { runMuster } from "./muster-run.ts";
import { startWorld, type World } from "./stack-world.ts";

/** Documents whose commands are run; tutorials.int.test.ts runs the tutorials, with the shell. */
const DOCUMENTS = "{*.md,{apps,libs,tools}/*/README.md,{deploy,docs,examples}/**/*.md}";
const NOT_GUIDES = ["**/node_modules/**", "docs/decisions/**", "docs/tutorials/**"];

/** Commands that do not run here, and why. documented-commands.test.ts reads them, and those of other programs. */
const NOT_RUN: readonly (readonly [command: RegExp, because: string])[] = [
  [/ get queue leases$/, "needs a queue that the reader creates"],
  [/ wait job\/yielding /, "needs queues that kubectl creates; the tests of the examples run it"],
  [/(?:^|[ /=<])(?:[A-Z]{2,}|[A-Z](?= |$))/, "names a value of the reader"],
  [/^(?:npx )?muster(?: \w+)?$/, "is the name of a command, which may lack its arguments"],
  [/ (?:lease verify|nodes terminate|roll (?:re|un)do|--(?:key-file|nats-url))$/, "lacks its argument in a text"],
  [/ (?:4711-1|lease\.json)\b/, "names a lease or a file of the reader"],
  [/ --secret kubeconfig$/, "needs a lease of type kubernetes; leases.int.test.ts opens the secret of one"],
  [/ -n team-a /, "needs a job-controller with JOB_NAMESPACES=all; job-namespaces.int.test.ts has one"],
  [/ --server /, "needs a gateway at that address; the tests of the command line have one"],
  [/ restore /, "needs an empty NATS; one-to-three.int.test.ts restores"],
];
/** Named without arguments, and complete without them. */
const COMPLETE = new Set(["doctor", "nodes", "pools", "sessions", "jobs", "leases"]);

const textOf = ({ words }: DocumentedCommand): string => words.join(" ");
const isOfMuster = ({ words: [program, command] }: DocumentedCommand): boolean =>
  program === "muster" || (program === "npx" && command === "muster");
const isExcluded = ({ words }: DocumentedCommand): boolean => {
  const command = words.slice(words.indexOf("muster") + 1);
  if (command.length === 1 && COMPLETE.has(command[0] ?? "")) return false;
  return NOT_RUN.some(([pattern]) => pattern.test(words.join(" ")));
};

const pages = globSync(DOCUMENTS, { cwd: ROOT, exclude: NOT_GUIDES })
  .toSorted()
  .map((page) => {
    const text = readFileSync(join(ROOT, page), "utf8");
    const all = listCommands(text).filter(isOfMuster);
    const blocks = new Set(all.filter(({ isMentioned }) => !isMentioned).map(textOf));
    const mentioned = new Set<string>();
    const commands = all.filter((command) => {
      const name = textOf(command);
      if (!command.isMentioned) return true;
      const isNew = !blocks.has(name) && !mentioned.has(name);
      mentioned.add(name);
      return isNew;
    });
    return { page, text, commands };
  })
  .filter(({ commands }) => commands.length > 0);

/** Returns the content of a file that the reader of a page writes: with `cat`, or as the document of that name. */
function writtenBy(text: string, file: string): string | undefined {
  const [, written] = new RegExp(`cat > ${file} <<'END'\\n([^]*?)\\nEND\\n`).exec(text) ?? [];
  if (written !== undefined) return written;
  const documents = [...text.matchAll(/^```yaml\n([^]*?)^```$/gm)].map(([, document = ""]) => document);
  return documents.find((document) => document.includes(`{ name: ${file.replace(/\.yaml$/, "")} }`));
}

describe("the commands of a document, on the local stack", () => {
  let world: World;
  let backupKey: string;

  beforeAll(async () => {
    world = await startWorld({ elastic: ELASTIC, pools: POOLS });
    const local = await readFile(join(dirname(world.stack.kubeconfig), "local.json"), "utf8");
    ({ natsBackupNkeyFile: backupKey } = JSON.parse(local) as { natsBackupNkeyFile: string });
  }, 180_000);

  afterAll(() => world[Symbol.asyncDispose]());

  const anySession = async (): Promise<string> => (await world.sessions.listSessions({})).sessions[0]?.name ?? "";

  /** Each page assumes a new stack: no job has the name of an example. */
  const deleteJobs = async (): Promise<void> => {
    await using calls = makeKubeCalls(loadKube(world.stack.kubeconfig));
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
    async ({ page, text, commands }) => {
      await deleteJobs();
      const home = join(dirname(world.stack.kubeconfig), page.replaceAll("/", "-"));
      await mkdir(home, { recursive: true });
      const clientEnv = { ...world.stack.clientEnv, HOME: home };
      const lines = text.split("\n");
      const wrong: string[] = [];
      let lease = "ID";
      let backup = "";

      const valueOf = async (word: string): Promise<string> => {
        if (word === "<session>") return anySession();
        if (word === "ID") return lease;
        if (/^(?:muster|before)-/.test(word)) return backup;
        const written = word.endsWith(".yaml") ? writtenBy(text, word) : undefined;
        if (written === undefined) return word;
        await writeFile(join(home, word), written);
        return join(home, word);
      };

      for (const command of commands) {
        const isBackup = / backup [^-]/.test(textOf(command));
        if (isBackup) backup = join(home, `line-${String(command.line)}`);
        const words = await Promise.all(command.words.map(valueOf));
        if (isExcluded({ ...command, words })) continue;
        const [, expected = "0"] = /exits with (\d+)/.exec(lines[command.line - 1] ?? "") ?? [];
        const stack = { clientEnv: { ...clientEnv, ...(isBackup ? { MUSTER_NATS_NKEY_FILE: backupKey } : {}) } };
        const { code, output } = await runMuster({ stack }, words.slice(words.indexOf("muster") + 1));
        if (/ lease order /.test(textOf(command))) [lease = "ID"] = /\d+-\d+/.exec(output) ?? [];
        if (code !== Number(expected))
          wrong.push(`${page}:${String(command.line)}: ${textOf(command)}: exit code ${String(code)}: ${output}`);
      }
      expect(wrong).toEqual([]);
    },
  );

  it("docs/gateway.md: its session can be planned, submitted and read over HTTP, and ends with DONE", async () => {
    const page = await readFile(join(ROOT, "docs/gateway.md"), "utf8");
    const body = writtenBy(page, "session.json");
    const token = (await readFile(world.stack.api.tokenFile, "utf8")).trim();
    const ask = async (path: string, sent?: string): Promise<unknown> => {
      const headers = { authorization: `Bearer ${token}`, "content-type": "application/json" };
      const request = sent === undefined ? { headers } : { method: "POST", headers, body: sent };
      const reply = await fetch(`${world.stack.api.url}${path}`, request);
      expect(reply.ok, `${path}: ${await reply.clone().text()}`).toBe(true);
      return reply.json();
    };
    const [, commands = ""] = /cat > session\.json[^]*?\nEND\n([^]*?)```/.exec(page) ?? [];
    const sends = [...commands.matchAll(/^curl .*?(--json @session\.json)? http:\/\/127\.0\.0\.1:8480(\S+)$/gm)];
    expect(sends.map(([, sent, path]) => `${sent === undefined ? "GET" : "POST"} ${path ?? ""}`)).toEqual([
      "POST /v1/plan/sessions",
      "POST /v1/sessions",
      "GET /v1/sessions/echo",
    ]);
    for (const [, sent, path = ""] of sends) await ask(path, sent && body);
    await until("the session is done", async () => {
      const { events } = (await ask("/v1/sessions/echo")) as { events: { kind: string }[] };
      return events.at(-1)?.kind === "DONE";
    });
  });
});

it.each(NOT_RUN)("a document has the excluded command %s: it %s", (pattern) => {
  expect(pages.flatMap(({ commands }) => commands.map(textOf)).filter((text) => pattern.test(text))).not.toEqual([]);
});
