import { spawn } from "node:child_process";
import { randomBytes } from "node:crypto";
import { mkdtemp, readFile, rm } from "node:fs/promises";
import { createServer, request, type IncomingMessage, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { extname, join } from "node:path";
import { createInterface } from "node:readline";
import { connectNats, serve, type Handlers } from "@muster/bus";
import { throwFault } from "@muster/faults";
import { services, type ServiceDescriptor } from "@muster/proto";
import { natsServer, processEnv, type TestNats } from "@muster/testkit";
import { build } from "vite";

const ROOT = join(import.meta.dirname, "..");
const GATEWAY = join(ROOT, "../gateway/src/main.ts");

type Handler = (request: Record<string, unknown>) => object | Promise<object>;

export type ConsoleWorld = AsyncDisposable & {
  /** Where the console is. */
  readonly url: string;
  readonly token: string;
  readonly nats: TestNats;
  /** What the services answer, by the names of their methods. A test may change them while it runs. */
  readonly answers: Record<string, Handler>;
  /** Requests that the services have received. */
  readonly received: { readonly method: string; readonly request: Record<string, unknown> }[];
};

/** The built console before a real gateway with a real NATS server, and services whose answers the test states. */
export async function startConsoleWorld(answers: Record<string, Handler>): Promise<ConsoleWorld> {
  await using starting = new AsyncDisposableStack();
  const directory = await mkdtemp(join(tmpdir(), "muster-console-"));
  starting.defer(() => rm(directory, { recursive: true, force: true }));
  const files = join(directory, "files");
  await build({ root: ROOT, logLevel: "error", build: { outDir: files } });
  const nats = starting.use(await natsServer());
  const received: ConsoleWorld["received"] = [];
  const bus = starting.use(await connectNats({ url: nats.url, token: nats.token, name: "console-world" }));
  for (const service of services)
    starting.use(
      await serve(bus, service as ServiceDescriptor, handlersOf(service, answers, received), {
        version: "9.8.7",
        description: "for a test",
      }),
    );
  const gateway = starting.use(await startGateway(nats, directory));
  const front = starting.use(await startFront(gateway, files));
  const all = starting.move();
  const { token } = gateway;
  return { url: front.url, token, nats, answers, received, [Symbol.asyncDispose]: () => all.disposeAsync() };
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

async function startGateway(nats: TestNats, directory: string): Promise<Gateway> {
  const tokenFile = join(directory, "token");
  const gateway = spawn(process.execPath, [GATEWAY], {
    env: {
      ...processEnv(),
      MUSTER_NATS_URL: nats.url,
      MUSTER_NATS_TOKEN: nats.token,
      GATEWAY_ADDR: "127.0.0.1:0",
      GATEWAY_TOKEN_FILE: tokenFile,
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

const TYPES: Readonly<Record<string, string>> = {
  ".html": "text/html; charset=utf-8",
  ".js": "text/javascript",
  ".css": "text/css",
  ".svg": "image/svg+xml",
};
const POLICY = "default-src 'self'; frame-ancestors 'none'";

/** Serves the files and the session as the contract of signing in states, and passes the API on with the token of the user who is signed in. */
async function startFront(gateway: Gateway, files: string): Promise<AsyncDisposable & { readonly url: string }> {
  const cookie = randomBytes(16).toString("hex");
  const csrfToken = randomBytes(16).toString("hex");
  const session = { user: "ada", csrfToken, expiresAtMs: Date.now() + 3_600_000 };
  const isSignedIn = ({ headers }: IncomingMessage): boolean => (headers.cookie ?? "").includes(`muster=${cookie}`);
  const json = (reply: ServerResponse, status: number, value: unknown): void => {
    reply.writeHead(status, { "content-type": "application/json" }).end(JSON.stringify(value));
  };
  const unauthenticated = { status: 401, code: "UNAUTHENTICATED", detail: "the token is unknown or expired" };
  const answerSession = async (asked: IncomingMessage, reply: ServerResponse): Promise<void> => {
    if (asked.method === "DELETE") {
      reply.writeHead(204, { "set-cookie": "muster=; Path=/; HttpOnly; SameSite=Strict; Max-Age=0" }).end();
      return;
    }
    if (asked.method !== "POST") {
      json(reply, isSignedIn(asked) ? 200 : 401, isSignedIn(asked) ? session : unauthenticated);
      return;
    }
    const { token } = JSON.parse(await textOf(asked)) as { readonly token: string };
    const isRight = token === gateway.token;
    if (isRight) reply.setHeader("set-cookie", `muster=${cookie}; Path=/; HttpOnly; SameSite=Strict`);
    json(reply, isRight ? 200 : 401, isRight ? session : unauthenticated);
  };
  const passOn = (asked: IncomingMessage, reply: ServerResponse): void => {
    if (!isSignedIn(asked) || (asked.method !== "GET" && asked.headers["x-csrf-token"] !== csrfToken)) {
      json(reply, 401, unauthenticated);
      return;
    }
    const { cookie: _, host: __, ...headers } = asked.headers;
    const inner = request(`${gateway.url}${asked.url ?? ""}`, {
      method: asked.method,
      headers: { ...headers, authorization: `Bearer ${gateway.token}` },
    });
    inner.once("response", (answer) => {
      reply.writeHead(answer.statusCode ?? 500, answer.headers);
      answer.pipe(reply);
    });
    inner.on("error", () => reply.destroy());
    reply.once("close", () => inner.destroy());
    asked.pipe(inner);
  };
  const server = createServer((asked, reply) => {
    const path = (asked.url ?? "").split("?")[0] ?? "";
    if (path === "/auth/methods") json(reply, 200, { token: true, oidc: false, jaegerUrl: "http://jaeger.test" });
    else if (path === "/auth/session") void answerSession(asked, reply);
    else if (path.startsWith("/v1/")) passOn(asked, reply);
    else void sendFile(files, path, reply);
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    [Symbol.asyncDispose]: async () => {
      server.closeAllConnections();
      await new Promise((resolve) => server.close(resolve));
    },
  };
}

async function sendFile(files: string, path: string, reply: ServerResponse): Promise<void> {
  const file = /^\/(assets\/[\w.-]+|icon\.svg)$/.test(path) ? path : "/index.html";
  const text = await readFile(join(files, file));
  reply
    .writeHead(200, { "content-type": TYPES[extname(file)] ?? "text/plain", "content-security-policy": POLICY })
    .end(text);
}

async function textOf(asked: IncomingMessage): Promise<string> {
  const parts: Buffer[] = [];
  for await (const part of asked) parts.push(part as Buffer);
  return Buffer.concat(parts).toString("utf8");
}
