import { execFileSync, spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtempDisposable, open } from "node:fs/promises";
import { constants, tmpdir } from "node:os";
import { join } from "node:path";
import { processEnv, until } from "@muster/testkit";
import { afterAll, beforeAll, expect, it } from "vitest";
import { startSessionWorld, type SessionWorld } from "./session-world.ts";

const BIN = join(import.meta.dirname, "../bin/muster.mjs");
/** Makes any Node take itself for an old one, which hands over to the Node of the repository. */
const OLD_NODE = `data:text/javascript,Object.defineProperty(process,"versions",{value:{...process.versions,node:"20.0.0"}})`;

let world: SessionWorld;
beforeAll(async () => {
  world = await startSessionWorld();
});
afterAll(() => world[Symbol.asyncDispose]());

/** `muster run` of a session, started by an old Node in a process group of its own; followed until the session is submitted. */
async function runSession(name: string) {
  const child = spawn(process.execPath, ["--import", OLD_NODE, BIN, "run", "-"], {
    env: { ...processEnv(), MUSTER_NATS_URL: world.url, MUSTER_NATS_TOKEN: world.token },
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
    // Nobody of the group is left.
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

it("ends with the process that was started, however that ends", async () => {
  using left = await runSession("orphan");
  kill(left.pid, "SIGKILL");
  await until("it leaves", () => left.stderr().includes("left: "));
});

it("ends at once while nobody would heed a signal, and so does what it has handed over to", async () => {
  await using directory = await mkdtempDisposable(join(tmpdir(), "muster-bin-"));
  const pipe = join(directory.path, "pipe");
  execFileSync("mkfifo", ["-m", "600", pipe]);
  const child = spawn(process.execPath, ["--import", OLD_NODE, BIN, "keys", "show", "--key-file", pipe], {
    env: processEnv(),
    stdio: "ignore",
    detached: true,
  });
  const ended = once(child, "exit");
  const pid = child.pid ?? 0;
  try {
    // Opens once somebody reads: the command waits for what is never written.
    await using _writer = await open(pipe, "w");
    kill(pid, "SIGTERM");
    expect(await ended).toEqual([128 + constants.signals.SIGTERM, null]);
  } finally {
    kill(-pid, "SIGKILL");
  }
});

it("says in one line that what it tells cannot be written", async () => {
  await using full = await open("/dev/full", "w");
  const child = spawn(process.execPath, [BIN, "schema", "lease"], {
    env: processEnv(),
    stdio: ["ignore", full.fd, "pipe"],
  });
  let stderr = "";
  child.stderr?.setEncoding("utf8").on("data", (text: string) => (stderr += text));
  expect(await once(child, "close")).toEqual([1, null]);
  expect(stderr).toBe("error: writing the output: no space left on device\n");
});
