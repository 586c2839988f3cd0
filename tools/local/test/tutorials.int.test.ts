import { spawn } from "node:child_process";
import { once } from "node:events";
import { globSync, readFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { listCommands, findKubectl } from "@muster/testkit";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { TUTORIAL } from "./console-tutorial/follow-tutorial.ts";
import { ELASTIC, POOLS } from "../src/elastic.ts";
import { ROOT } from "../src/root.ts";
import { startWorld, type World } from "./stack-world.ts";

/** console-tutorial.int.test.ts follows the one of the console. */
const PAGES = globSync("docs/tutorials/*.md", { cwd: ROOT, exclude: [TUTORIAL] }).toSorted();

/** Lines that start the local stack, or name its cluster; the test has done both. */
const isStart = (line: string): boolean =>
  line.startsWith("export KUBECONFIG=") ||
  listCommands(`\`\`\`sh\n${line}\n\`\`\``).some(({ words }) => words.join(" ").startsWith("npm start"));

/** The command lines of a page, in order. A line marked `exits with N` must exit with this code. */
function linesOf(page: string): readonly string[] {
  const blocks = [...readFileSync(join(ROOT, page), "utf8").matchAll(/^```sh\n([^]*?)^```$/gm)];
  return blocks.flatMap(([, block = ""]) => block.split("\n").filter((line) => line.trim() !== "" && !isStart(line)));
}

function scriptOf(page: string): string {
  const steps = linesOf(page).map((line) => {
    const [, code] = /# exits with (\d+)$/.exec(line) ?? [];
    const command = line.replace(/ # .*$/, "");
    return code === undefined ? command : `{ ${command}; } && exit 99 || test $? = ${code}`;
  });
  return ["set -ex", ...steps].join("\n");
}

describe("the tutorials, on the local stack", () => {
  let world: World;

  beforeAll(async () => {
    world = await startWorld({ elastic: ELASTIC, pools: POOLS });
  }, 180_000);

  afterAll(() => world[Symbol.asyncDispose]());

  it.for(PAGES)("%s runs from top to bottom unchanged", { timeout: 300_000 }, async (page, { skip }) => {
    expect(linesOf(page).length).toBeGreaterThan(5);
    const kubectl = linesOf(page).some((line) => line.startsWith("kubectl ")) ? findKubectl() : { path: "" };
    if ("reason" in kubectl) return skip(kubectl.reason);
    const bin = [
      join(ROOT, "node_modules/.bin"),
      dirname(process.execPath),
      dirname(kubectl.path),
      process.env["PATH"],
    ];
    const home = join(dirname(world.stack.kubeconfig), page.replaceAll("/", "-"));
    const shell = spawn("bash", ["-c", scriptOf(page)], {
      cwd: ROOT,
      env: { ...world.stack.clientEnv, PATH: bin.join(":"), HOME: home, KUBECONFIG: world.stack.kubeconfig },
      stdio: ["ignore", "pipe", "pipe"],
    });
    let output = "";
    for (const stream of [shell.stdout, shell.stderr])
      stream.setEncoding("utf8").on("data", (chunk: string) => (output += chunk));
    const [code] = (await once(shell, "close")) as [number];
    expect(code, output).toBe(0);
  });
});
