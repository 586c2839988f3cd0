import { mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { connectNats, serveMethods, type Handlers, type NatsBus } from "@muster/bus";
import { findFault, throwFault } from "@muster/faults";
import { AuditService, muster, services, streams, type ServiceDescriptor } from "@muster/proto";
import type { ReadyCheck } from "@muster/service";
import { makeCertificateAuthority, startTestNats, makeSignedCertificate, until, type TestNats } from "@muster/testkit";
import { Agent, request } from "undici";
import { readConfig } from "../src/config.ts";
import { run } from "../src/service.ts";

/** HTTP/1.1 is plain, and HTTP/2 has TLS. */
export const PROTOCOLS = ["HTTP/1.1", "HTTP/2"] as const;
export type Protocol = (typeof PROTOCOLS)[number];

type Handler = (request: Record<string, unknown>) => object | Promise<object>;

/** Answers of the services by method name. A test may change them while it runs. */
export type Answers = Record<string, Handler>;

export type Answered = {
  readonly status: number;
  readonly headers: Readonly<Record<string, string | string[] | undefined>>;
  readonly text: string;
  /** Undefined for an empty body, and for one that is not JSON. */
  readonly json: unknown;
};

export type Asking = {
  readonly method?: "GET" | "HEAD" | "POST" | "PUT" | "PATCH" | "DELETE";
  readonly body?: unknown;
  readonly headers?: Readonly<Record<string, string>>;
  /** Null sends no token. Absent sends the local token. */
  readonly token?: string | null;
};

export type ServerEvent = { readonly event: string; readonly id: string | undefined; readonly data: unknown };

export type Streamed = AsyncDisposable & {
  readonly status: number;
  readonly type: string;
  /** Returns the whole text so far. */
  readonly text: () => string;
  readonly events: () => readonly ServerEvent[];
  /** Returns how the stream ended; undefined while it is open. */
  readonly over: () => "ended" | "broken" | undefined;
};

export type Gateway = AsyncDisposable & {
  readonly url: string;
  readonly token: string;
  readonly port: number;
  /** All log records so far. */
  readonly logged: readonly string[];
  /** The names of the dependencies that it waits for to be ready. */
  readonly missing: () => readonly string[];
  /** The problems that do not affect whether it is ready. */
  readonly warnings: () => readonly string[];
  ask(path: string, asking?: Asking): Promise<Answered>;
  /** Opens server-sent events, or a log. */
  stream(path: string, headers?: Readonly<Record<string, string>>): Promise<Streamed>;
};

/** Stores the cookies of a gateway, and sends them instead of a token. */
export type Browser = {
  readonly cookies: Map<string, string>;
  /** The headers `Set-Cookie` of the last answer. */
  readonly lastCookies: readonly string[];
  ask(path: string, asking?: Asking): Promise<Answered>;
};

export function openBrowser(gateway: Gateway): Browser {
  const cookies = new Map<string, string>();
  let lastCookies: readonly string[] = [];
  return {
    cookies,
    get lastCookies() {
      return lastCookies;
    },
    ask: async (path, asking = {}) => {
      const cookie = [...cookies].map(([name, value]) => `${name}=${value}`).join("; ");
      const headers = { ...(cookie !== "" && { cookie }), ...asking.headers };
      const answered = await gateway.ask(path, { token: null, ...asking, headers });
      lastCookies = [answered.headers["set-cookie"] ?? []].flat();
      for (const line of lastCookies) {
        const [, name = "", value = ""] = /^([^=]+)=([^;]*)/.exec(line) ?? [];
        if (value === "") cookies.delete(name);
        else cookies.set(name, value);
      }
      return answered;
    },
  };
}

export type GatewayWorld = AsyncDisposable & {
  readonly nats: TestNats;
  readonly bus: NatsBus;
  readonly answers: Answers;
  /** Requests that the services have received. */
  readonly received: { readonly method: string; readonly request: Record<string, unknown> }[];
  readonly directory: string;
  /** Resolves with a function that reads the audit events published after this call: the changes, then the refusals. */
  followAudit(): Promise<() => Promise<muster.gateway.v1.ChangeAudited[]>>;
  /** Resolves when the gateway serves, or already when it listens: it then need not have NATS. */
  start(variables?: Readonly<Record<string, string>>, until?: GatewayStep): Promise<Gateway>;
};

type GatewayStep = "listening" | "serving the API";

/** Starts a real NATS server, services whose answers the test states, and gateways of the protocol. */
export async function startGatewayWorld(answers: Answers = {}, protocol: Protocol = "HTTP/1.1"): Promise<GatewayWorld> {
  await using starting = new AsyncDisposableStack();
  const nats = starting.use(await startTestNats());
  const directory = await mkdtemp(join(tmpdir(), "muster-gateway-"));
  starting.defer(() => rm(directory, { recursive: true, force: true }));
  const tls = protocol === "HTTP/2" ? await writeCertificate(directory) : {};
  const bus = starting.use(await connectNats({ url: nats.url, token: nats.token, name: "gateway-world" }));
  const received: GatewayWorld["received"] = [];
  // The gateway itself serves this service.
  for (const service of services.filter((each) => each !== AuditService))
    starting.use(
      await serveMethods(bus, service as ServiceDescriptor, handlersOf(service, answers, received), {
        version: "9.8.7",
        description: "for a test",
      }),
    );
  const all = starting.move();
  return {
    nats,
    bus,
    answers,
    received,
    directory,
    followAudit: async () => {
      const { apiAudit, apiRefusals } = streams;
      const from = [(await lastOf(bus, apiAudit)) + 1, (await lastOf(bus, apiRefusals)) + 1];
      return async () => [
        ...(await readAudit(bus, apiAudit, from[0])),
        ...(await readAudit(bus, apiRefusals, from[1])),
      ];
    },
    start: async (variables = {}, step = "serving the API") => {
      const gateway = await startGateway({ nats, directory, variables: { ...tls, ...variables }, step });
      all.use(gateway);
      return gateway;
    },
    [Symbol.asyncDispose]: () => all.disposeAsync(),
  };
}

/** Returns the variables of a gateway that serves a new certificate. */
export async function writeCertificate(directory: string): Promise<Readonly<Record<string, string>>> {
  const authority = await makeCertificateAuthority("test-authority");
  const { cert, key } = await makeSignedCertificate(authority, { commonName: "gateway", use: "server" });
  const [certFile, keyFile] = [join(directory, "gateway.crt"), join(directory, "gateway.key")];
  await writeFile(certFile, cert);
  await writeFile(keyFile, key);
  return { GATEWAY_TLS_CERT_FILE: certFile, GATEWAY_TLS_KEY_FILE: keyFile };
}

type AuditStream = typeof streams.apiAudit | typeof streams.apiRefusals;

async function lastOf(bus: NatsBus, { name }: AuditStream): Promise<number> {
  const state = await bus.streamState(name);
  return state?.lastSequence ?? 0;
}

async function readAudit(
  bus: NatsBus,
  { name, subjects: [subject] }: AuditStream,
  first = 1,
): Promise<muster.gateway.v1.ChangeAudited[]> {
  const audited: muster.gateway.v1.ChangeAudited[] = [];
  for (let from = first; ;) {
    const message = await bus.readMessage(name, subject, from);
    if (message === undefined) return audited;
    audited.push(muster.gateway.v1.ChangeAudited.decode(message.payload));
    from = message.sequence + 1;
  }
}

function handlersOf(
  service: ServiceDescriptor,
  answers: Answers,
  received: GatewayWorld["received"],
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

async function startGateway({
  nats,
  directory,
  variables,
  step,
}: {
  readonly nats: TestNats;
  readonly directory: string;
  readonly variables: Readonly<Record<string, string>>;
  readonly step: GatewayStep;
}): Promise<Gateway> {
  const tokenFile = join(directory, "token");
  const config = readConfig({
    MUSTER_NATS_URL: nats.url,
    MUSTER_NATS_TOKEN: nats.token,
    GATEWAY_ADDR: "127.0.0.1:0",
    GATEWAY_TOKEN_FILE: tokenFile,
    ...variables,
  });
  const stop = new AbortController();
  const logged: string[] = [];
  const checks = new Map<string, ReadyCheck>();
  let url: string | undefined;
  const log = (fields: object, message: string): void => {
    logged.push(
      `${message} ${JSON.stringify(fields, (_, value: unknown) => (value instanceof Error ? value.stack : value))}`,
    );
    if (message === step && "url" in fields && typeof fields.url === "string") url = fields.url;
  };
  const logger = { debug: log, info: log, warn: log, error: log, child: () => logger };
  const check = (name: string, each: ReadyCheck): void => void checks.set(name, each);
  const about = { service: "gateway", instance: "gateway-test", version: "9.8.7", natsReplicas: 1 };
  const requestRate = { perSecond: 1000, burst: 2000 };
  let failure: Error | undefined;
  const ended = run({
    config,
    logger,
    signal: stop.signal,
    ...about,
    requestRate,
    readyWhen: check,
    alsoCheck: check,
  }).catch((error: unknown) => {
    // A gateway that stops while it waits for NATS has nothing else to do.
    if (stop.signal.aborted && findFault(error)?.code === "cancelled") return;
    failure = error instanceof Error ? error : new Error(String(error));
  });
  await until("the gateway serves or has failed", () => url !== undefined || failure !== undefined);
  if (url === undefined) throw failure ?? new Error("the gateway has no address");
  const at = url;
  const token = (await readFile(tokenFile, "utf8")).trim();
  const agent = new Agent({ allowH2: true, connect: { rejectUnauthorized: false } });
  const all = new AsyncDisposableStack();
  all.defer(async () => {
    stop.abort();
    await agent.destroy();
    await ended;
    if (failure !== undefined) throw failure;
  });
  return {
    url: at,
    token,
    port: Number(new URL(at).port),
    logged,
    missing: () => [...checks.values()].map((each) => each()).filter((each) => typeof each === "string"),
    warnings: () => [...checks.values()].map((each) => each()).flatMap(warningsOf),
    // The cookie of a browser replaces the token.
    stream: (path, headers = {}) =>
      openStream(`${at}${path}`, {
        ...(!("cookie" in headers) && { authorization: `Bearer ${token}` }),
        ...headers,
      }),
    ask: async (path, { method = "GET", body, headers = {}, token: shown = token } = {}) => {
      const reply = await request(`${at}${path}`, {
        method,
        dispatcher: agent,
        headers: {
          ...(shown !== null && { authorization: `Bearer ${shown}` }),
          ...(body !== undefined && { "content-type": "application/json" }),
          ...headers,
        },
        ...(body !== undefined && { body: typeof body === "string" ? body : JSON.stringify(body) }),
      });
      const isStream = String(reply.headers["content-type"]).startsWith("text/event-stream");
      // The headers are enough of an endless stream; its abort is an error of its body.
      if (isStream) reply.body.on("error", () => undefined).destroy();
      const text = isStream ? "" : await reply.body.text();
      const isJson = /json/.test(String(reply.headers["content-type"]));
      const json: unknown = text === "" || !isJson ? undefined : JSON.parse(text);
      return { status: reply.statusCode, headers: reply.headers, text, json };
    },
    [Symbol.asyncDispose]: () => all.disposeAsync(),
  };
}

function warningsOf(found: ReturnType<ReadyCheck>): readonly string[] {
  return typeof found === "object" && "warning" in found ? [found.warning] : [];
}

/** Reads the chunks that a gateway writes. */
export async function openStream(url: string, headers: Readonly<Record<string, string>>): Promise<Streamed> {
  const agent = new Agent({ allowH2: true, connect: { rejectUnauthorized: false } });
  const reply = await request(url, { dispatcher: agent, headers });
  let text = "";
  let over: "ended" | "broken" | undefined;
  reply.body
    .setEncoding("utf8")
    .on("data", (part: string) => (text += part))
    .on("end", () => (over = "ended"))
    .on("error", () => (over ??= "broken"));
  return {
    status: reply.statusCode,
    type: String(reply.headers["content-type"]),
    text: () => text,
    events: () => eventsOf(text),
    over: () => over,
    [Symbol.asyncDispose]: () => agent.destroy(),
  };
}

function eventsOf(text: string): ServerEvent[] {
  return text
    .split("\n\n")
    .slice(0, -1)
    .flatMap((block) => {
      const fields = new Map(
        block.split("\n").map((line) => [line.split(": ")[0] ?? "", line.slice(line.indexOf(": ") + 2)]),
      );
      const event = fields.get("event");
      if (event === undefined) return [];
      return [{ event, id: fields.get("id"), data: JSON.parse(fields.get("data") ?? "null") as unknown }];
    });
}
