import { type ChildProcess, spawn, spawnSync, type StdioOptions } from "node:child_process";
import { once } from "node:events";
import { readFileSync } from "node:fs";
import { mkdtempDisposable, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { until } from "@muster/testkit";
import { afterEach, expect, it } from "vitest";

const main = fileURLToPath(new URL("demo-service.ts", import.meta.url));
const running = new Set<ChildProcess>();

afterEach(() => {
  for (const child of running) child.kill("SIGKILL");
  running.clear();
});

function start(
  env: Record<string, string> = {},
  stdio: StdioOptions = ["ignore", "ignore", "pipe"],
  within?: readonly [string, ...string[]],
) {
  const [command, ...words] = within === undefined ? [process.execPath, main] : [...within, process.execPath, main];
  const child = spawn(command, words, { env: { PATH: process.env["PATH"], ...env }, stdio });
  running.add(child);
  let output = "";
  child.stderr?.setEncoding("utf8").on("data", (chunk: string) => {
    output += chunk;
  });
  const lines = () =>
    output
      .trim()
      .split("\n")
      .map((line) => JSON.parse(line) as Record<string, unknown>);
  const address = () =>
    until("it has logged its address", () => lines().find((line) => line["msg"] === "started")?.["http"] as string);
  // Resolves when the whole output has been read. The event "close" is not emitted if the test has closed the channel.
  const read = child.stderr === null ? undefined : once(child.stderr, "close");
  const exit = once(child, "exit").then(async (how: unknown[]) => {
    await read;
    return how;
  });
  return { child, exit, output: () => output, lines, address };
}

it("answers health, readiness with missing dependencies, and metrics, and stops on SIGTERM", async () => {
  const service = start({ DEMO_LIMIT: "2" });
  const base = `http://${await service.address()}`;
  expect((await fetch(`${base}/livez`)).status).toBe(200);
  const ready = await fetch(`${base}/readyz`);
  expect(ready.status).toBe(503);
  expect(await ready.text()).toContain("[-]limit limit is above 1");
  const metrics = await (await fetch(`${base}/metrics`)).text();
  expect(metrics).toContain('service_name="demo"');
  expect(metrics).toMatch(/^muster_ready\{muster_ready_check="limit"[^}]*\} 0$/m);
  expect(metrics).toMatch(/^muster_ready\{muster_ready_check="running"[^}]*\} 1$/m);
  expect((await fetch(`${base}/readyz`, { method: "POST" })).status).toBe(405);
  expect((await fetch(`${base}/v1/sessions`)).status).toBe(404);
  service.child.kill("SIGTERM");
  expect(await service.exit).toEqual([0, null]);
  expect(service.lines().at(-1)).toMatchObject({ msg: "stopped", service: "demo", level: "info" });
});

it("is ready with a warning, which readiness and metrics show", async () => {
  const service = start({ DEMO_WARNED: "true" });
  const base = `http://${await service.address()}`;
  await until("it runs", () => service.output().includes("running"));
  const ready = await fetch(`${base}/readyz`);
  expect([ready.status, await ready.text()]).toEqual([200, expect.stringContaining("[!]store the store is away\n")]);
  const metrics = await (await fetch(`${base}/metrics`)).text();
  expect(metrics).toMatch(/^muster_ready\{muster_ready_check="store"[^}]*\} 0$/m);
});

it("is not ready before the service has named its readiness checks", async () => {
  const service = start({ DEMO_STOP: "never-ready" });
  const ready = await fetch(`http://${await service.address()}/readyz`);
  expect(ready.status).toBe(503);
  expect(await ready.text()).toContain("[-]started starting");
});

it("releases the memory of its start once it is ready", async () => {
  const tracing = "data:text/javascript,import{setFlagsFromString}from'node:v8';setFlagsFromString('--trace-gc')";
  const read = async (env: Record<string, string>): Promise<string> => {
    const service = start({ NODE_OPTIONS: `--expose-gc --import=${tracing}`, ...env }, ["ignore", "pipe", "pipe"]);
    let trace = "";
    service.child.stdout?.setEncoding("utf8").on("data", (chunk: string) => {
      trace += chunk;
    });
    await until("it runs", () => service.output().includes("running"));
    service.child.kill("SIGTERM");
    await service.exit;
    return trace;
  };
  expect(await read({})).toContain("Mark-Compact (reduce)");
  expect(await read({ DEMO_STOP: "never-ready" })).not.toContain("Mark-Compact (reduce)");
});

it("keeps secrets out of the log", async () => {
  const service = start();
  await until("it runs", () => service.output().includes("running"));
  expect(service.output()).not.toContain("secret-token");
});

it("refuses to start with a wrong configuration and names every problem", async () => {
  const service = start({ DEMO_STOP: "never", DEMO_LIMIT: "10" });
  expect(await service.exit).toEqual([2, null]);
  expect(service.output()).toContain('DEMO_STOP is "never"');
  expect(service.output()).toContain('DEMO_LIMIT is "10"');
});

it("ends with exit code 1 and the error in the log when it fails", async () => {
  const service = start({ DEMO_STOP: "fail" });
  expect(await service.exit).toEqual([1, null]);
  expect(service.lines().at(-1)).toMatchObject({
    msg: "the service ended because of an error",
    err: { message: "on purpose" },
  });
});

it("waits for its dependencies, reports that on /readyz, and runs once they are available", async () => {
  await using directory = await mkdtempDisposable(join(tmpdir(), "muster-demo-"));
  const gate = join(directory.path, "gate");
  const service = start({ DEMO_STOP: "late", DEMO_GATE: gate });
  const readyz = `http://${await service.address()}/readyz`;
  const waits =
    /\[-\]started waiting: run (?!1:)\d+: nats is not available; try again in 500 ms \(JetStream has no leader\)/;
  await until("it waits again", async () => waits.test(await (await fetch(readyz)).text()));
  await writeFile(gate, "");
  const ready = await until("it is ready", async () => {
    const answer = await fetch(readyz);
    return answer.ok && answer.text();
  });
  expect(ready).not.toContain("forgotten");
  const waited = service.lines().filter(({ msg }) => msg === "cannot run now and retries");
  expect(waited.length).toBeGreaterThan(1);
  expect(waited[0]).toMatchObject({ level: "warn", err: { message: expect.stringContaining("run 1") as unknown } });
  service.child.kill("SIGTERM");
  expect(await service.exit).toEqual([0, null]);
});

it("retries a part of its start, reports that on /readyz, and keeps the earlier parts open meanwhile", async () => {
  await using directory = await mkdtempDisposable(join(tmpdir(), "muster-demo-"));
  const gate = join(directory.path, "gate");
  const service = start({ DEMO_STOP: "late-part", DEMO_GATE: gate });
  const readyz = `http://${await service.address()}/readyz`;
  const count = (msg: string): number => service.lines().filter((line) => line["msg"] === msg).length;
  await until("it has waited twice", () => count("cannot run now and retries") > 1);
  const waiting = await fetch(readyz);
  expect([waiting.status, await waiting.text()]).toEqual([
    503,
    expect.stringContaining("[-]started waiting: nats is not available"),
  ]);
  await writeFile(gate, "");
  await until("it is ready", async () => (await fetch(readyz)).ok);
  expect(count("the first part is open")).toBe(1);
});

it.each(["late", "late-part"])("stops while it waits for its dependencies: %s", async (stop) => {
  const service = start({ DEMO_STOP: stop });
  await until("it waits", () => service.output().includes("cannot run now"));
  service.child.kill("SIGTERM");
  expect(await service.exit).toEqual([0, null]);
  expect(service.lines().at(-1)).toMatchObject({ msg: "stopped" });
});

it("ends well without the services that it needs to stop, and reports the unfinished steps", async () => {
  const service = start({ DEMO_STOP: "away" });
  await until("it runs", () => service.output().includes("running"));
  service.child.kill("SIGTERM");
  expect(await service.exit).toEqual([0, null]);
  expect(service.lines().slice(-2)).toMatchObject([
    {
      msg: "stopped before all work was done",
      level: "warn",
      err: { message: expect.stringContaining("nats") as unknown },
    },
    { msg: "stopped" },
  ]);
});

it("does not hang on a stop that hangs: the time limit ends it, and so does a second signal", async () => {
  const limited = start({ DEMO_STOP: "hang", MUSTER_STOP_TIMEOUT_MS: "50" });
  await limited.address();
  limited.child.kill("SIGTERM");
  expect(await limited.exit).toEqual([null, "SIGKILL"]);

  const twice = start({ DEMO_STOP: "hang" });
  await twice.address();
  twice.child.kill("SIGINT");
  await until("the first signal is heard", () => twice.output().includes("stopping"));
  twice.child.kill("SIGINT");
  expect(await twice.exit).toEqual([null, "SIGKILL"]);
});

const unshare = ["--user", "--map-root-user", "--pid", "--fork", "--kill-child"];
const mayUnshare = spawnSync("unshare", [...unshare, "true"]).status === 0;

it.skipIf(!mayUnshare)(
  "ends at its time limit also as the first process of a container, which no signal of its own ends",
  async () => {
    const service = start({ DEMO_STOP: "hang", MUSTER_STOP_TIMEOUT_MS: "50" }, undefined, ["unshare", ...unshare]);
    await until("it runs", () => service.output().includes("running"));
    expect(service.lines().find((line) => line["msg"] === "started")).toMatchObject({ pid: 1 });
    const first = readFileSync(`/proc/${service.child.pid}/task/${service.child.pid}/children`, "utf8").trim();
    process.kill(Number(first), "SIGTERM");
    expect(await service.exit).toEqual([137, null]);
  },
);

it("stops when the supervisor that started it with a channel is gone", async () => {
  const service = start({}, ["ignore", "ignore", "pipe", "ipc"]);
  await service.address();
  service.child.disconnect();
  expect(await service.exit).toEqual([0, null]);
});

it.each([
  { said: undefined, replicas: 1 },
  { said: "3", replicas: 3 },
])("passes the replicas of streams: $replicas for $said", async ({ said, replicas }) => {
  const service = start(said === undefined ? {} : { MUSTER_NATS_REPLICAS: said });
  await service.address();
  await until("it reports it", () => service.lines().some((line) => line["natsReplicas"] === replicas));
});

it.each([
  { env: {}, is: { perSecond: 1000, burst: 2000 } },
  { env: { MUSTER_REQUESTS_PER_SECOND: "50", MUSTER_REQUESTS_BURST: "60" }, is: { perSecond: 50, burst: 60 } },
])("passes the request rate of a user: $is.perSecond a second, burst $is.burst", async ({ env, is }) => {
  const service = start(env);
  await service.address();
  const running = await until("it reports it", () => service.lines().find(({ msg }) => msg === "running"));
  expect(running["requestRate"]).toEqual(is);
});

it("refuses more replicas than NATS can have", async () => {
  const service = start({ MUSTER_NATS_REPLICAS: "7" });
  expect(await service.exit).toEqual([2, null]);
  expect(service.output()).toContain('MUSTER_NATS_REPLICAS is "7"; a whole number from 1 to 5 is needed');
});
