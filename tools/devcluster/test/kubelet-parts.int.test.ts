import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { existsSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import type { IncomingMessage } from "node:http";
import { get } from "node:https";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { findFault } from "@muster/faults";
import { until } from "@muster/testkit";
import { generate } from "selfsigned";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { openContainerLog, readContainerLog } from "../src/kubelet/container-log.ts";
import { startKubeletServer } from "../src/kubelet/kubelet-server.ts";
import { claimPodAddresses } from "../src/kubelet/pod-addresses.ts";
import { CONTAINER_VARIABLE, killLeftovers, recordProcess } from "../src/kubelet/process-tree.ts";
import { runProcess } from "../src/kubelet/run-process.ts";

let directory: string;

beforeEach(() => {
  directory = mkdtempSync(join(tmpdir(), "muster-parts-"));
});

afterEach(() => {
  rmSync(directory, { recursive: true, force: true });
});

describe("killLeftovers", () => {
  it("ends a recorded group and its escaped descendants, and removes the records", async () => {
    const id = "process://uid/main/0";
    const flag = join(directory, "flag");
    const script = `setsid sh -c 'touch ${flag}; sleep 1000' & sleep 1000`;
    const child = start(["sh", "-c", script], { [CONTAINER_VARIABLE]: id });
    await until("a process has left the group", () => existsSync(flag));
    recordProcess(directory, child.pid ?? 0, id);
    const exit = once(child, "exit");
    expect(await killLeftovers(directory)).toBeGreaterThan(0);
    await exit;
    expect(alive(id)).toEqual([]);
    expect(await killLeftovers(directory)).toBe(0);
  });

  it("ends the descendants of a recorded process that has itself ended", async () => {
    const id = "process://uid/main/1";
    const child = start(["sh", "-c", "sleep 1000 & exit 0"], { [CONTAINER_VARIABLE]: id });
    recordProcess(directory, child.pid ?? 0, id);
    await once(child, "exit");
    expect(alive(id)).toHaveLength(1);
    await killLeftovers(directory);
    expect(alive(id)).toEqual([]);
  });

  it("never signals a process that only reuses a recorded process id", async () => {
    const child = start(["sleep", "1000"], {});
    recordProcess(directory, child.pid ?? 0, "process://uid/main/2");
    const file = join(directory, "processes", String(child.pid));
    const record = JSON.parse(readFileSync(file, "utf8")) as { startTime: string };
    writeFileSync(file, JSON.stringify({ ...record, startTime: String(Number(record.startTime) - 1) }));
    await killLeftovers(directory);
    expect(child.exitCode ?? child.signalCode).toBeNull();
    process.kill(child.pid ?? 0, 0);
    child.kill("SIGKILL");
    await once(child, "exit");
  });

  it("ignores a truncated record", async () => {
    mkdirSync(join(directory, "processes"));
    writeFileSync(join(directory, "processes", "1"), '{"pid":1,"start');
    expect(await killLeftovers(directory)).toBe(0);
  });
});

describe("runProcess", () => {
  it("has the whole output in the log when it reports the end of the process", async () => {
    const log = openContainerLog(join(directory, "0.log"), { now: Date.now });
    const script = "for (let i = 0; i < 20000; i++) console.log(`line ${i}`)";
    const started = await runProcess(
      {
        command: [process.execPath, "-e", script],
        workingDirectory: directory,
        env: {},
        containerId: "process://uid/output/0",
      },
      log,
      directory,
    );
    if (!started.started) throw new Error(started.message);
    expect(await started.process.ended).toBe(0);
    expect(readFileSync(log.path, "utf8").trimEnd().split("\n").at(-1)).toMatch(/line 19999$/);
    expect(readdirSync(join(directory, "processes"))).toEqual([]);
  });

  it.each([
    ["a working directory that does not exist", { workingDirectory: "/nowhere/at/all" }, "does not exist"],
    ["a file that is no program", { command: [import.meta.filename] }, "permission denied"],
  ])("states the problem with %s", async (_title, part, message) => {
    const command = { command: ["true"], workingDirectory: directory, env: {}, containerId: "process://uid/wrong/0" };
    const log = openContainerLog(join(directory, "0.log"), { now: Date.now });
    const started = await runProcess({ ...command, ...part }, log, directory);
    expect(started).toMatchObject({ started: false, message: expect.stringContaining(message) as string });
  });
});

describe("claimPodAddresses", () => {
  it("gives two kubelets of one index different blocks, and no address twice", async () => {
    await using one = await claimPodAddresses(200);
    await using two = await claimPodAddresses(200);
    expect(one.block).toMatch(/^127\.201\.\d+$/);
    expect(two.block).not.toBe(one.block);
    const given = Array.from({ length: 253 }, () => one.allocate());
    expect(new Set(given).size).toBe(253);
    let fault;
    try {
      one.allocate();
    } catch (error) {
      fault = findFault(error);
    }
    expect(fault).toMatchObject({ code: "limit_exceeded", limit: 253 });
    one.release(given[7] ?? "");
    expect(one.allocate()).toBe(given[7]);
  });

  it("refuses an index without a block", async () => {
    for (const index of [-1, 250, 1.5]) {
      expect(await claimPodAddresses(index).catch(findFault)).toMatchObject({ code: "invalid_request" });
    }
  });
});

describe("the kubelet's server", () => {
  it.each([
    ["no token", {}, 401],
    ["another token", { authorization: "Bearer wrong" }, 401],
    ["the token", { authorization: "Bearer right" }, 200],
  ])("answers %s with its status", async (_title, headers, status) => {
    await using server = await startServer({ bearerToken: "right" });
    expect((await ask(server.port, "/healthz", headers)).status).toBe(status);
  });

  it("refuses every client without configured credentials", async () => {
    await using server = await startServer({});
    expect((await ask(server.port, "/healthz", { authorization: "Bearer undefined" })).status).toBe(401);
  });

  it("serves a log with the query's options, and states the problem with a query", async () => {
    await using server = await startServer({ bearerToken: "right" });
    const path = "/containerLogs/default/pod/main";
    const headers = { authorization: "Bearer right" };
    expect(await ask(server.port, path, headers)).toEqual({ status: 200, text: "one\ntwo\n" });
    expect(await ask(server.port, `${path}?tailLines=1`, headers)).toEqual({ status: 200, text: "two\n" });
    expect((await ask(server.port, `${path}?tailLines=x`, headers)).status).toBe(400);
    expect((await ask(server.port, `${path}?sinceTime=never`, headers)).status).toBe(400);
    expect((await ask(server.port, "/containerLogs/default/pod/other", headers)).status).toBe(404);
    expect((await ask(server.port, "/exec/default/pod/main", headers)).status).toBe(404);
  });
});

async function startServer(
  access: Parameters<typeof startKubeletServer>[0]["access"],
): ReturnType<typeof startKubeletServer> {
  const log = openContainerLog(join(directory, "served.log"), { now: Date.now });
  log.append("stdout", Buffer.from("one\ntwo\n"));
  log.close();
  const made = await generate([{ name: "commonName", value: "kubelet" }], { keyType: "ec", algorithm: "sha256" });
  return startKubeletServer({
    certificate: { cert: made.cert, key: made.private },
    access,
    now: Date.now,
    findLog: ({ container }) =>
      container === "main"
        ? { found: true, read: (request, signal) => readContainerLog(log, request, signal) }
        : { found: false, status: 404, message: "no such container" },
    findExec: () => ({ found: false, status: 404, message: "no such container" }),
  });
}

async function ask(
  port: number,
  path: string,
  headers: Record<string, string>,
): Promise<{ status: number | undefined; text: string }> {
  const request = get({ host: "127.0.0.1", port, path, headers, rejectUnauthorized: false });
  const [response] = (await once(request, "response")) as [IncomingMessage];
  const parts: string[] = [];
  for await (const part of response.setEncoding("utf8")) parts.push(String(part));
  return { status: response.statusCode, text: parts.join("") };
}

function start(command: readonly string[], env: Record<string, string>): ChildProcess {
  const [file = "", ...args] = command;
  return spawn(file, args, { env: { PATH: "/usr/bin:/bin", ...env }, detached: true, stdio: "ignore" });
}

function alive(id: string): number[] {
  const pids = readdirSync("/proc").filter((name) => /^\d+$/.test(name));
  return pids.map(Number).filter((pid) => {
    try {
      return readFileSync(`/proc/${pid}/environ`, "latin1").includes(`${CONTAINER_VARIABLE}=${id}\0`);
    } catch {
      return false;
    }
  });
}
