import { execFileSync, spawn } from "node:child_process";
import { randomUUID } from "node:crypto";
import { once } from "node:events";
import { existsSync, readdirSync, readFileSync, readlinkSync } from "node:fs";
import { mkdtemp, readFile, rm, stat, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { isAbsolute, join, relative } from "node:path";
import { findFreePorts, buildProcessEnv, until } from "@muster/testkit";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { ROOT } from "../src/root.ts";

let directory: string;
let examples: string;
let mark: string;
beforeEach(async () => {
  directory = await mkdtemp(join(tmpdir(), "muster-start-"));
  examples = await mkdtemp(join(tmpdir(), "muster-example-"));
  mark = randomUUID();
});
afterEach(async () => {
  for (const { pid } of left()) process.kill(pid, "SIGKILL");
  for (const path of [directory, examples]) await rm(path, { recursive: true, force: true });
});

/** The link has the address and the token of the owner, whom the API allows everything. */
async function expectApi(output: string, port: number): Promise<void> {
  const link = new URL(/^ {2}(http:\S+)$/m.exec(output)?.[1] ?? "");
  expect(link.port).toBe(String(port));
  const token = new URLSearchParams(link.hash.slice(1)).get("token") ?? "";
  const file = join(directory, "gateway.token");
  expect((await stat(file)).mode & 0o077).toBe(0);
  expect((await readFile(file, "utf8")).trim()).toBe(token);
  const pools = (headers: Record<string, string>) => fetch(new URL("/v1/pools", link), { headers });
  expect((await pools({})).status).toBe(401);
  const answer = await pools({ authorization: `Bearer ${token}` });
  expect(await answer.json()).toMatchObject({ items: [{ name: "drivers" }, {}, {}] });
}

/** The example, with a session that no pause of this machine can outlast. */
async function lastingExample(): Promise<string> {
  const text = await readFile(join(ROOT, "examples/http-benchmark.yaml"), "utf8");
  const lasting = text.replace("seconds: 5\n", "seconds: 1000\n").replace("timeout: 2m\n", "timeout: 30m\n");
  expect(lasting.match(/ 1000\n| 30m\n/g)).toHaveLength(2);
  await writeFile(join(examples, "lasting.yaml"), lasting);
  return join(examples, "lasting.yaml");
}

function start(...args: string[]) {
  const child = spawn(process.execPath, [join(ROOT, "tools/local/src/main.ts"), ...args], {
    cwd: ROOT,
    env: {
      ...buildProcessEnv(),
      HOME: process.env["HOME"],
      MUSTER_LOCAL_DIRECTORY: relative(ROOT, directory),
      MUSTER_TEST_MARK: mark,
    },
    detached: true,
    stdio: ["ignore", "pipe", "pipe"],
  });
  let output = "";
  for (const stream of [child.stdout, child.stderr]) {
    stream.setEncoding("utf8").on("data", (chunk: string) => {
      output += chunk;
    });
  }
  const closed = once(child, "close");
  /** How it ended. Its last output has been read; the processes that a killed one leaves behind may still hold its output. */
  const exit = (once(child, "exit") as Promise<[number | null, string | null]>).then(async ([code, signal]) => {
    if (signal === null) await closed;
    return [code, signal];
  });
  /** Signals the whole foreground process group, like a terminal on Ctrl-C. */
  const interrupt = () => process.kill(-(child.pid ?? 0), "SIGINT");
  const seen = (text: string) =>
    until(`"${text}" is printed`, () => output.includes(text), { timeoutMs: 150_000, everyMs: 5 }).catch(
      (error: unknown) => {
        throw new Error(`${String(error)}\n${output}`);
      },
    );
  return { child, exit, interrupt, seen, output: () => output };
}

/** Processes with the mark of this test in their environment, or its directory in the environment, arguments or working directory (for pods). */
function left(): { pid: number; command: string }[] {
  return readdirSync("/proc")
    .map(Number)
    .filter((pid) => Number.isInteger(pid) && pid !== process.pid)
    .flatMap((pid) => {
      try {
        const command = readFileSync(`/proc/${pid}/cmdline`, "utf8").replaceAll("\0", " ");
        const environment = readFileSync(`/proc/${pid}/environ`, "utf8");
        const ours = [command, environment, readlinkSync(`/proc/${pid}/cwd`)];
        return ours.some((text) => text.includes(directory) || text.includes(mark)) ? [{ pid, command }] : [];
      } catch {
        return [];
      }
    });
}

/** Returns the command lines of this test's processes that docs/elastic-pools-local.md ends, while a scaler of another stack runs. */
async function selectScaler(pidOfStack: string): Promise<(string | undefined)[]> {
  const page = await readFile(join(ROOT, "docs/elastic-pools-local.md"), "utf8");
  const [, command = ""] = /`kill \$\((pgrep .*)\)`/.exec(page) ?? [];
  const selection = command.replace("$(jq -r .pid .muster/local.json)", pidOfStack);
  const foreign = spawn("sleep", ["1000"], { argv0: "node apps/node-scaler/src/main.ts" });
  try {
    await once(foreign, "spawn");
    const pids = execFileSync("sh", ["-c", selection], { encoding: "utf8" }).trim().split("\n").map(Number);
    const own = left();
    return pids.map((pid) => own.find((each) => each.pid === pid)?.command);
  } finally {
    foreign.kill();
  }
}

describe.skipIf(!existsSync("/proc/self/environ"))(
  "npm start (needs /proc to find processes)",
  { timeout: 400_000 },
  () => {
    it("runs the example, prints its result, exits with 0 and leaves no process", async () => {
      const run = start();
      expect(await run.exit, run.output()).toEqual([0, null]);
      expect(run.output()).toMatch(/requestsPerSecond +[1-9]/);
      expect(left()).toEqual([]);
    });

    it("exits with 1 when the session fails", async () => {
      const run = start("examples/failing-session.yaml");
      expect(await run.exit, run.output()).toEqual([1, null]);
      expect(left()).toEqual([]);
    });

    it.each(["nats-server", "embedded cluster", "are ready", "PROVISION", "RUN"])(
      'leaves no process when Ctrl-C comes right after "%s"',
      async (moment) => {
        const run = start(await lastingExample());
        await run.seen(moment);
        run.interrupt();
        expect(await run.exit, run.output()).toEqual([130, null]);
        expect(left()).toEqual([]);
      },
    );

    it("leaves no process when it is killed by SIGKILL", async () => {
      const run = start(await lastingExample());
      await run.seen("RUN");
      run.child.kill("SIGKILL");
      await run.exit;
      await until("all processes have ended by themselves", () => left().length === 0, { timeoutMs: 90_000 });
    });

    it("ends the pods of an earlier stack that was killed together with its cluster", async () => {
      const killed = start(await lastingExample());
      await killed.seen("RUN");
      const cluster = left().find(({ command }) => command.includes("devcluster/src/main.ts"));
      process.kill(cluster?.pid ?? 0, "SIGKILL");
      killed.child.kill("SIGKILL");
      await killed.exit;
      const services = /apps\/|tools\/|devcluster|nats-server/;
      await until("only pods are left", () => left().every(({ command }) => !services.test(command)), {
        timeoutMs: 90_000,
      });
      const orphans = left().map(({ pid }) => pid);
      expect(orphans.length).toBeGreaterThan(0);
      const next = start();
      expect(await next.exit, next.output()).toEqual([0, null]);
      expect(left()).toEqual([]);
      // Two whole stacks start, one after the other, on a possibly slow machine.
    }, 600_000);

    it("with --keep: keeps running, lets the CLI and kubectl find it, and refuses a second stack", async () => {
      const [port = 0] = await findFreePorts(1);
      const run = start("--keep", "--api-port", String(port));
      await run.seen("Muster is running");
      await expectApi(run.output(), port);
      const local = JSON.parse(await readFile(join(directory, "local.json"), "utf8")) as Record<string, string>;
      expect(run.output()).toContain("npx muster pools");
      for (const secret of [local["natsNkeyFile"], local["natsBackupNkeyFile"], local["kubeconfig"]]) {
        expect(isAbsolute(secret ?? ""), secret).toBe(true);
        expect((await stat(secret ?? "")).mode & 0o077).toBe(0);
      }
      expect(await selectScaler(local["pid"] ?? "")).toEqual([expect.stringContaining("apps/node-scaler/src/main.ts")]);
      const second = start();
      expect(await second.exit).toEqual([1, null]);
      expect(second.output()).toContain("already runs");

      for (const args of [["pools"], ["backup", join(directory, "backup")]]) {
        const command = spawn(process.execPath, [join(ROOT, "apps/cli/src/main.ts"), ...args], {
          env: { ...buildProcessEnv(), MUSTER_LOCAL_FILE: join(directory, "local.json") },
        });
        expect(await once(command, "exit"), args.join(" ")).toEqual([0, null]);
      }
      run.interrupt();
      expect(await run.exit).toEqual([0, null]);
      expect(left()).toEqual([]);
    });
  },
);

it.each([["--kubeconfig", "/nonexistent"], ["nofile.yaml"]])(
  "reports a missing file immediately: %s %s",
  async (...args) => {
    const run = start(...args);
    expect(await run.exit).toEqual([2, null]);
    expect(run.output()).toContain("does not exist");
  },
);

it("with --keep: reports the end of the embedded cluster, and stops", async () => {
  const run = start("--keep");
  await run.seen("Muster is running");
  const cluster = left().find(({ command }) => command.includes("devcluster/src/main.ts"));
  process.kill(cluster?.pid ?? 0, "SIGKILL");
  expect(await run.exit, run.output()).toEqual([1, null]);
  expect(run.output()).toContain("the embedded cluster ended (SIGKILL)");
});

it("does not empty a directory with other files", async () => {
  await writeFile(join(directory, "thesis.txt"), "years of work");
  const run = start();
  expect(await run.exit).toEqual([1, null]);
  expect(run.output()).toContain("holds files that are not Muster's");
  expect(await readFile(join(directory, "thesis.txt"), "utf8")).toBe("years of work");
});

it("refuses an unknown option and prints its help", async () => {
  const run = start("--kube", "x");
  expect(await run.exit).toEqual([2, null]);
  expect(run.output()).toContain("npm start -- --kubeconfig FILE");
});
