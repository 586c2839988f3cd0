import { execFileSync, spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtempDisposable, open } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { buildProcessEnv, until } from "@muster/testkit";
import { afterAll, beforeAll, expect, it } from "vitest";
import { startSessionWorld, type SessionWorld } from "./session-world.ts";

const BIN = join(import.meta.dirname, "../bin/muster.mjs");
/** Removes the functions that Node 20 lacks. */
const NODE_20 =
  "data:text/javascript,delete Promise.withResolvers;delete Object.groupBy;delete Map.groupBy;delete Array.fromAsync";

let world: SessionWorld;
beforeAll(async () => {
  world = await startSessionWorld();
});
afterAll(() => world[Symbol.asyncDispose]());

/** Starts `muster run` of a session with the oldest supported Node, in a separate process group, and waits until the session is submitted. */
async function runSession(name: string) {
  const child = spawn(process.execPath, ["--import", NODE_20, BIN, "run", "-"], {
    env: { ...buildProcessEnv(), MUSTER_NATS_URL: world.url, MUSTER_NATS_TOKEN: world.token },
    stdio: ["pipe", "ignore", "pipe"],
    detached: true,
  });
  let stderr = "";
  child.stderr.setEncoding("utf8").on("data", (text: string) => (stderr += text));
  child.stdin.end(`apiVersion: muster.dev/v1
kind: Session
metadata: { name: ${name} }
spec: { components: [{ name: driver, kind: driver, pool: p, image: i }] }
`);
  const ended = once(child, "close").then(([code]: unknown[]) => code);
  const pid = child.pid ?? 0;
  await until("the session is followed", () => stderr.includes("QUEUE"));
  return { pid, stderr: () => stderr, ended, [Symbol.dispose]: () => kill(-pid, "SIGKILL") };
}

function kill(pid: number, signal: NodeJS.Signals): void {
  try {
    process.kill(pid, signal);
  } catch {
    // The error means that no process of the group remains.
  }
}

it.each<[title: string, signal: NodeJS.Signals, to: (pid: number) => number]>([
  ["SIGTERM to the whole group, as of timeout(1)", "SIGTERM", (pid) => -pid],
  ["SIGTERM to the process that was started", "SIGTERM", (pid) => pid],
  ["SIGINT to the whole group, as of Ctrl-C", "SIGINT", (pid) => -pid],
  ["SIGINT to the process that was started", "SIGINT", (pid) => pid],
])("counts %s once: the first cancels and waits, the second leaves", async (_title, signal, to) => {
  const name = `${signal.toLowerCase()}-${to(1) < 0 ? "group" : "one"}`;
  using waits = await runSession(name);
  kill(to(waits.pid), signal);
  await until("the cancel has arrived", () => world.sessions.get(name)?.cancelRequested);
  world.move(name, "CANCELLED", { why: "asked to" });
  expect(await waits.ended).toBe(130);
  expect(waits.stderr()).toContain("CANCELLED");
  expect(waits.stderr()).not.toContain("left: ");

  using leaves = await runSession(`${name}-2`);
  kill(to(leaves.pid), signal);
  await until("the cancel has arrived", () => world.sessions.get(`${name}-2`)?.cancelRequested);
  kill(to(leaves.pid), signal);
  expect(await leaves.ended).toBe(130);
  expect(leaves.stderr()).toContain("left: ");
});

it("ends immediately on a signal before a command handles signals", async () => {
  await using directory = await mkdtempDisposable(join(tmpdir(), "muster-bin-"));
  const pipe = join(directory.path, "pipe");
  execFileSync("mkfifo", ["-m", "600", pipe]);
  const child = spawn(process.execPath, ["--import", NODE_20, BIN, "keys", "show", "--key-file", pipe], {
    env: buildProcessEnv(),
    stdio: "ignore",
    detached: true,
  });
  const ended = once(child, "exit");
  const pid = child.pid ?? 0;
  try {
    // Opening succeeds once the command reads the pipe; the command then waits for input that never arrives.
    await using _writer = await open(pipe, "w");
    kill(pid, "SIGTERM");
    expect(await ended).toEqual([null, "SIGTERM"]);
  } finally {
    kill(-pid, "SIGKILL");
  }
});

it("states in one line that its output cannot be written", async () => {
  await using full = await open("/dev/full", "w");
  const child = spawn(process.execPath, [BIN, "schema", "lease"], {
    env: buildProcessEnv(),
    stdio: ["ignore", full.fd, "pipe"],
  });
  let stderr = "";
  child.stderr?.setEncoding("utf8").on("data", (text: string) => (stderr += text));
  expect(await once(child, "close")).toEqual([1, null]);
  expect(stderr).toBe("error: writing the output: no space left on device\n");
});
