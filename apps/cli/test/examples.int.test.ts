import { spawn, type ChildProcess } from "node:child_process";
import { once } from "node:events";
import { readFileSync } from "node:fs";
import { connect } from "node:net";
import { join } from "node:path";
import { text } from "node:stream/consumers";
import { buildProcessEnv, until } from "@muster/testkit";
import { afterEach, expect, it } from "vitest";
import { parseDocuments } from "../src/adapters/parse-documents.ts";
import { readSessionDocument } from "../src/domain/read-session-document.ts";
import { readWork } from "../src/kinds/documents.ts";
import { RESOURCES } from "../src/kinds/resources.ts";
import type { ComponentSpec, SessionSpec } from "../src/adapters/session-spec-messages.ts";

const examples = join(import.meta.dirname, "../../../examples");
const aNumber: unknown = expect.any(Number);
const children = new Set<ChildProcess>();

afterEach(async () => {
  for (const child of children) {
    if (child.exitCode !== null || child.signalCode !== null) continue;
    const exited = once(child, "exit");
    child.kill("SIGKILL");
    await exited;
  }
  children.clear();
});

it("the HTTP benchmark loads two servers from two clients, and its driver prints the result as its last line", async () => {
  const { components } = readExample("http-benchmark.yaml");
  expect(components.map(({ name }) => name)).toEqual(["server-0", "server-1", "client-0", "client-1", "driver"]);
  const network = freshNetwork();
  const workers = components
    .filter(({ kind }) => kind !== "driver")
    .map((component, index) => ({ component, ip: `${network}.${index + 1}` }));
  for (const { component, ip } of workers) start(component, { POD_IP: ip, WORKER_KIND: component.kind });
  for (const { component, ip } of workers)
    await until(`${component.name} is ready`, () => answers(ip, component.readyPort ?? 0));

  const driver = start(
    components.find(({ kind }) => kind === "driver")!,
    {
      POD_IP: `${network}.100`,
      SCENARIO_JSON: JSON.stringify({ seconds: 1, concurrency: 4 }),
      MUSTER_WORKERS: JSON.stringify(
        workers.map(({ component: { name, kind }, ip }) => ({ name, kind, address: `${ip}:10000`, ip, port: 10_000 })),
      ),
    },
  );
  expect(await driver.exitCode).toBe(0);
  const lines = (await driver.output).trim().split("\n");
  expect(lines[0]).toBe("2 clients load 2 servers for 1 s, 4 requests at a time each");
  const result = JSON.parse(lines.at(-1) ?? "") as Record<string, never>;
  expect(result).toEqual({
    requests: aNumber,
    requestsPerSecond: aNumber,
    errors: 0,
    latencyMs: { p50: aNumber, p90: aNumber, p99: aNumber, max: aNumber },
  });
  expect(result["requests"]).toBeGreaterThan(0);
});

it("the HTTP benchmark fails with a result when no server answers", async () => {
  const { components } = readExample("http-benchmark.yaml");
  const ip = `${freshNetwork()}.1`;
  const client = components.find(({ kind }) => kind === "client")!;
  start(client, { POD_IP: ip });
  await until("the client is ready", () => answers(ip, 10_000));
  const driver = start(
    components.find(({ kind }) => kind === "driver")!,
    {
      SCENARIO_JSON: JSON.stringify({ seconds: 0.3, concurrency: 2 }),
      MUSTER_WORKERS: JSON.stringify([
        { name: "server-0", kind: "server", address: `${ip}:10000`, ip, port: 10_000 },
        { name: "client-0", kind: "client", address: `${ip}:10000`, ip, port: 10_000 },
      ]),
    },
  );
  expect(await driver.exitCode).toBe(1);
  const result: unknown = JSON.parse((await driver.output).trim().split("\n").at(-1) ?? "");
  expect(result).toMatchObject({ requests: 0, latencyMs: { p50: null } });
});

it("the server of the failing session prints the reason and exits with 3", async () => {
  const { components } = readExample("failing-session.yaml");
  expect(components.map(({ kind }) => kind)).toEqual(["server", "driver"]);
  const ip = `${freshNetwork()}.1`;
  const server = start(components[0]!, { POD_IP: ip });
  await until("the server is ready", () => answers(ip, components[0]!.readyPort ?? 0));
  expect(await server.exitCode).toBe(3);
  expect(await server.errors).toBe("the disk is full: cannot write results\n");
});

function readExample(name: string): SessionSpec {
  const { documents, problems } = parseDocuments(name, readFileSync(join(examples, name), "utf8"), (each) =>
    readWork(RESOURCES, each),
  );
  expect(problems).toEqual([]);
  expect(documents).toHaveLength(1);
  const read = readSessionDocument(documents[0]!.value.draft.document);
  if (!read.ok) throw new Error("an example that is written in full is no session");
  return read.value.spec;
}

/** Runs a component as a kubelet would: its command, with the controller's environment and its own. */
function start(component: ComponentSpec, env: Record<string, string>) {
  const [program = "", ...rest] = [...component.command, ...component.args];
  const own = Object.fromEntries(component.env.map(({ name, value }) => [name, value]));
  const child = spawn(program, rest, {
    env: { ...buildProcessEnv(), ...env, ...own },
    stdio: ["ignore", "pipe", "pipe"],
  });
  children.add(child);
  return {
    exitCode: once(child, "exit").then(([code]: unknown[]) => code),
    output: text(child.stdout),
    errors: text(child.stderr),
  };
}

/** Picks three numbers of a loopback network that no other test is likely to use. */
function freshNetwork(): string {
  const number = (): number => 1 + Math.floor(Math.random() * 250);
  return `127.${number()}.${number()}`;
}

function answers(host: string, port: number): Promise<boolean> {
  return new Promise((resolve) => {
    const socket = connect({ host, port, timeout: 500 });
    const finish = (answer: boolean) => () => {
      socket.destroy();
      resolve(answer);
    };
    socket.once("connect", finish(true)).once("error", finish(false)).once("timeout", finish(false));
  });
}
