import { fork } from "node:child_process";
import { once } from "node:events";
import { access, mkdtemp, readdir, readFile, rm, stat } from "node:fs/promises";
import { connect } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { findNatsServer, startNatsServer, type NatsServer } from "../src/index.ts";
import type { NatsServerOptions } from "../src/start-nats-server.ts";

const PATIENCE = { timeout: 60_000 };

let directory: string;

beforeEach(async () => {
  directory = await mkdtemp(join(tmpdir(), "muster-nats-start-"));
});
afterEach(async () => {
  await rm(directory, { recursive: true, force: true });
});

async function start(options: Partial<NatsServerOptions> = {}): Promise<NatsServer> {
  const { path: binary } = await findNatsServer({ env: process.env });
  return startNatsServer({ binary, directory, port: 0, token: "secret", ...options });
}

function isAlive(pid: number): boolean {
  try {
    process.kill(pid, 0);
    return true;
  } catch {
    return false;
  }
}

async function greeting(port: number): Promise<{ readonly jetstream?: boolean; readonly auth_required?: boolean }> {
  const socket = connect(port, "127.0.0.1");
  const [bytes] = (await once(socket, "data")) as [Buffer];
  socket.destroy();
  return JSON.parse(bytes.toString().replace(/^INFO /, "")) as { jetstream?: boolean; auth_required?: boolean };
}

/** Finds processes that were started for this directory, or guard such a process. */
async function processesOf(text: string): Promise<string[]> {
  const found: string[] = [];
  for (const pid of await readdir("/proc")) {
    if (!/^\d+$/.test(pid)) continue;
    const line = await readFile(`/proc/${pid}/cmdline`, "utf8").catch(() => "");
    if (line.includes(text)) found.push(pid);
  }
  return found;
}

describe("starting", () => {
  it("starts a server with JetStream that requires its token, which is not on its command line", async () => {
    await using server = await start();
    expect(await greeting(server.port)).toMatchObject({ jetstream: true, auth_required: true });
    expect((await stat(join(directory, "nats.conf"))).mode & 0o777).toBe(0o600);
    expect((await stat(directory)).mode & 0o777).toBe(0o700);
  });

  it("states the reason when the server cannot start", async () => {
    await using server = await start();
    const other = join(directory, "other");
    await expect(start({ directory: other, port: server.port })).rejects.toThrow(/address already in use/);
    await expect(start({ directory: other, binary: "/nowhere/nats-server" })).rejects.toMatchObject({
      fault: { code: "unavailable", dependency: "nats-server" },
    });
  });

  it("starts again on the same store and port after a kill", async () => {
    const first = await start();
    await first.kill();
    expect(isAlive(first.pid)).toBe(false);
    await using second = await start({ port: first.port });
    expect(second.port).toBe(first.port);
    await access(join(directory, "store"));
  });
});

describe("ending", () => {
  it("reports how the server ended, and leaves no process behind", async () => {
    const ends: (string | number | null)[] = [];
    const onExit = (code: number | null, signal: string | null): void => void ends.push(signal ?? code);
    const killed = await start({ onExit });
    await killed.kill();
    const stopped = await start({ onExit });
    await stopped[Symbol.asyncDispose]();
    await stopped[Symbol.asyncDispose]();
    expect(ends).toEqual(["SIGKILL", 0]);
    if (process.platform === "linux") await expect.poll(() => processesOf(directory), PATIENCE).toEqual([]);
  });

  it("happens to the server when its parent is killed with SIGKILL", async () => {
    const parent = fork(join(import.meta.dirname, "parent.process.ts"), [directory]);
    const [{ pid }] = (await once(parent, "message")) as [{ pid: number }];
    expect(isAlive(pid)).toBe(true);
    parent.kill("SIGKILL");
    await once(parent, "exit");
    await expect.poll(() => isAlive(pid), PATIENCE).toBe(false);
    if (process.platform === "linux") await expect.poll(() => processesOf(directory), PATIENCE).toEqual([]);
  });
});
