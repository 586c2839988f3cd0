import { spawn } from "node:child_process";
import { once } from "node:events";
import { findFreePorts, until } from "@muster/testkit";
import { GenericContainer, getContainerRuntimeClient, Wait } from "testcontainers";

/** Addresses at which a Jaeger receives OTLP and answers queries. */
export type Jaeger = AsyncDisposable & { readonly grpc: string; readonly http: string; readonly query: string };

const IMAGE = "jaegertracing/all-in-one:1.62.0";
const PORTS = { grpc: 4317, http: 4318, query: 16686, admin: 14269 };

// The test removes its container itself. "false" lets testcontainers remove it after the test is killed.
process.env["TESTCONTAINERS_RYUK_DISABLED"] ??= "true";

/**
 * The `jaeger` of PATH (all-in-one), or one in a container; otherwise the reason why neither exists. With CI=true the reason is an error, unless
 * MUSTER_TESTS_WITHOUT=compose omits containers.
 */
export async function startJaeger(): Promise<Jaeger | string> {
  const program = await startProgram();
  if (program !== undefined) return program;
  const noDocker = await getContainerRuntimeClient().then(() => undefined, String);
  if (noDocker === undefined) return startContainer();
  const lack = `no jaeger on PATH, and no Docker engine: ${noDocker}`;
  if (process.env["CI"] !== "true" || process.env["MUSTER_TESTS_WITHOUT"] === "compose") return lack;
  throw new Error(`traces cannot be sent to Jaeger: ${lack}; MUSTER_TESTS_WITHOUT=compose leaves this out`);
}

/** Starts the `jaeger` of PATH; undefined if PATH has none. */
async function startProgram(): Promise<Jaeger | undefined> {
  const [grpc, http, query, admin, ...others] = await findFreePorts(11);
  const addresses = {
    "collector.otlp.grpc.host-port": grpc,
    "collector.otlp.http.host-port": http,
    "query.http-server.host-port": query,
    "admin.http.host-port": admin,
    "query.grpc-server.host-port": others[0],
    "collector.grpc-server.host-port": others[1],
    "collector.http-server.host-port": others[2],
    "http-server.host-port": others[3],
    "processor.jaeger-binary.server-host-port": others[4],
    "processor.jaeger-compact.server-host-port": others[5],
    "processor.zipkin-compact.server-host-port": others[6],
  };
  const args = Object.entries(addresses).map(([name, port]) => `--${name}=127.0.0.1:${port}`);
  const child = spawn("jaeger", args, { stdio: "ignore" });
  const found = await once(child, "spawn").then(
    () => true,
    () => false,
  );
  if (!found) return undefined;
  const url = (port: number | undefined): string => `http://127.0.0.1:${port}`;
  await until("Jaeger is ready", async () => (await fetch(url(admin))).ok, { timeoutMs: 60_000, everyMs: 100 });
  return {
    grpc: url(grpc),
    http: url(http),
    query: url(query),
    [Symbol.asyncDispose]: async () => {
      child.kill();
      await once(child, "exit");
    },
  };
}

async function startContainer(): Promise<Jaeger> {
  const container = await new GenericContainer(IMAGE)
    .withExposedPorts(...Object.values(PORTS))
    .withWaitStrategy(Wait.forHttp("/", PORTS.admin))
    .start();
  const url = (port: number): string => `http://${container.getHost()}:${container.getMappedPort(port)}`;
  return {
    grpc: url(PORTS.grpc),
    http: url(PORTS.http),
    query: url(PORTS.query),
    [Symbol.asyncDispose]: () => container[Symbol.asyncDispose](),
  };
}
