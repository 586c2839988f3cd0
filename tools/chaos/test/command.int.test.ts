import { spawn } from "node:child_process";
import { once } from "node:events";
import { existsSync, readdirSync, readFileSync } from "node:fs";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { until } from "@muster/testkit";
import { describe, expect, it } from "vitest";

const MAIN = join(import.meta.dirname, "../src/main.ts");

function start(args: readonly string[], env: Readonly<Record<string, string | undefined>> = {}) {
  const child = spawn(process.execPath, [MAIN, ...args], { env: { ...process.env, ...env }, stdio: "pipe" });
  const ended = once(child, "close").then(([code]: unknown[]) => code);
  let output = "";
  let errors = "";
  child.stdout.on("data", (part: Buffer) => (output += part.toString()));
  child.stderr.on("data", (part: Buffer) => (errors += part.toString()));
  return { child, ended, output: () => output, errors: () => errors };
}

async function run(args: readonly string[]): Promise<{ code: unknown; output: string; errors: string }> {
  const { ended, output, errors } = start(args);
  const code = await ended;
  return { code, output: output(), errors: errors() };
}

describe("npm run chaos", () => {
  it("prints the plan, which is the same for the same seed", async () => {
    const plan = ["--seed", "7", "--sessions", "20", "--plan", "-o", "json"];
    const [first, second, other] = await Promise.all([run(plan), run(plan), run(["--seed=8", ...plan.slice(2)])]);
    expect(first).toMatchObject({ code: 0, errors: "" });
    expect(second.output).toBe(first.output);
    expect(other.output).not.toBe(first.output);
    const plan7 = JSON.parse(first.output) as { seed: number } & Record<"faults" | "shapes" | "jobs", unknown[]>;
    expect([plan7.seed, plan7.shapes.length, plan7.jobs.length, plan7.faults.length]).toEqual([7, 20, 10, 8]);
  });

  it("prints its help, and refuses wrong arguments", async () => {
    expect(await run(["--help"])).toMatchObject({ code: 0, output: expect.stringContaining("--seed 7") as string });
    const wrong = await run(["--seed=much"]);
    expect(wrong).toMatchObject({ code: 2, output: "" });
    expect(wrong.errors).toContain('--seed is "much"');
  });

  it("leaves no process and no file behind after Ctrl-C during a run", async () => {
    const place = await mkdtemp(join(tmpdir(), "muster-chaos-test-"));
    try {
      const running = start(["--seed", "7", "--sessions", "20"], { TMPDIR: place });
      await until(
        "a session was accepted",
        () => readdirSync(place).some((name) => logsOf(join(place, name)).includes('"kind":"accept"')),
        { timeoutMs: 240_000 },
      );
      running.child.kill("SIGINT");
      expect(await running.ended).toBe(130);
      expect(readdirSync(place).filter((name) => name.startsWith("muster-chaos-"))).toEqual([]);
      await until("no process of the run is left", () => processesOf(place).length === 0);
    } finally {
      await rm(place, { recursive: true, force: true });
    }
  }, 400_000);
});

function logsOf(directory: string): string {
  const logs = join(directory, "stack/logs");
  if (!existsSync(logs)) return "";
  return readdirSync(logs)
    .map((name) => readFileSync(join(logs, name), "utf8"))
    .join("");
}

/** Command lines that name the directory, like those of all servers of a run. */
function processesOf(place: string): string[] {
  return readdirSync("/proc")
    .filter((name) => /^\d+$/.test(name))
    .map((pid) => {
      try {
        return readFileSync(`/proc/${pid}/cmdline`, "utf8");
      } catch {
        return "";
      }
    })
    .filter((line) => line.includes(place));
}
