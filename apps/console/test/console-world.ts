import { spawn } from "node:child_process";
import { mkdtemp, readFile, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { connectNats, serveMethods, type Handlers } from "@muster/bus";
import { throwFault } from "@muster/faults";
import { services, type ServiceDescriptor } from "@muster/proto";
import { startTestNats, buildProcessEnv, type TestNats } from "@muster/testkit";
import { build } from "vite";

const ROOT = join(import.meta.dirname, "..");
const GATEWAY = join(ROOT, "../gateway/src/main.ts");

type Handler = (request: Record<string, unknown>) => object | Promise<object>;

export type ConsoleWorld = AsyncDisposable & {
  /** The address of the console. */
  readonly url: string;
  readonly token: string;
  readonly nats: TestNats;
  /** The answers of the services, by the names of their methods. A test may change them while it runs. */
  readonly answers: Record<string, Handler>;
  /** Requests that the services have received. */
  readonly received: { readonly method: string; readonly request: Record<string, unknown> }[];
};

/** Starts the built console behind a real gateway with a real NATS server, and services whose answers the test states. */
export async function startConsoleWorld(answers: Record<string, Handler>): Promise<ConsoleWorld> {
  await using starting = new AsyncDisposableStack();
  const directory = await mkdtemp(join(tmpdir(), "muster-console-"));
  starting.defer(() => rm(directory, { recursive: true, force: true }));
  const files = join(directory, "files");
  await build({ root: ROOT, logLevel: "error", build: { outDir: files } });
  const nats = starting.use(await startTestNats());
  const received: ConsoleWorld["received"] = [];
  const bus = starting.use(await connectNats({ url: nats.url, token: nats.token, name: "console-world" }));
  for (const service of services)
    starting.use(
      await serveMethods(bus, service as ServiceDescriptor, handlersOf(service, answers, received), {
        version: "9.8.7",
        description: "for a test",
      }),
    );
  const { url, token } = starting.use(await startGateway(nats, directory, files));
  const all = starting.move();
  return { url, token, nats, answers, received, [Symbol.asyncDispose]: () => all.disposeAsync() };
}

function handlersOf(
  service: ServiceDescriptor,
  answers: Record<string, Handler>,
  received: ConsoleWorld["received"],
): Handlers<ServiceDescriptor> {
  const handlers = Object.keys(service.methods).map((method) => {
    const handler = async (asked: object): Promise<object> => {
      const fields = asked as Record<string, unknown>;
      received.push({ method, request: fields });
      return (await answers[method]?.(fields)) ?? throwFault({ code: "internal", operation: method });
    };
    return [method, handler];
  });
  return Object.fromEntries(handlers) as Handlers<ServiceDescriptor>;
}

type Gateway = AsyncDisposable & { readonly url: string; readonly token: string };

async function startGateway(nats: TestNats, directory: string, files: string): Promise<Gateway> {
  const tokenFile = join(directory, "token");
  const gateway = spawn(process.execPath, [GATEWAY], {
    env: {
      ...buildProcessEnv(),
      MUSTER_NATS_URL: nats.url,
      MUSTER_NATS_TOKEN: nats.token,
      GATEWAY_ADDR: "127.0.0.1:0",
      GATEWAY_TOKEN_FILE: tokenFile,
      GATEWAY_CONSOLE_DIR: files,
      GATEWAY_JAEGER_URL: "http://jaeger.test",
      GATEWAY_WATCH_POLL_MS: "50",
    },
    stdio: ["ignore", "ignore", "pipe"],
  });
  const ended = new Promise((resolve) => gateway.once("close", resolve));
  const lines = createInterface({ input: gateway.stderr });
  const url = await new Promise<string>((resolve, reject) => {
    lines.on("line", (line) => {
      const [, found] = /"url":"(http[^"]+)".*serving the API/.exec(line) ?? [];
      if (found !== undefined) resolve(found);
    });
    gateway.once("exit", (code) => reject(new Error(`the gateway ended with ${code}`)));
  });
  const token = (await readFile(tokenFile, "utf8")).trim();
  return {
    url,
    token,
    [Symbol.asyncDispose]: async () => {
      gateway.kill("SIGTERM");
      await ended;
    },
  };
}
