import { randomInt, randomUUID } from "node:crypto";
import { existsSync, readFileSync } from "node:fs";
import { dirname, resolve } from "node:path";
import { pause } from "@muster/backoff";
import { connectNats, isCredentialRefused, readNatsAccess, type NatsAccess, type NatsBus } from "@muster/bus";
import { describeFault, findFault } from "@muster/faults";
import { buckets, streams, subjects } from "@muster/proto";
import { z } from "zod";
import type { CommonOptions, ConnectedCli, Interrupts, TerminalIo } from "../cli.ts";
import { CommandError } from "../command-error.ts";
import type { Config } from "../config.ts";
import type { NatsObservation } from "../domain/build-doctor-report.ts";
import {
  decideConnection,
  describeConnection,
  REWRITE_HINT,
  type Connection,
  type LocalStack,
  type NatsUser,
} from "../domain/decide-connection.ts";
import { EXIT } from "../domain/decide-exit.ts";
import { decideGateway, needsNats, type Gateway } from "../domain/decide-gateway.ts";
import type { ServiceLink } from "../kinds/kind.ts";
import type { CommandLine, Resources } from "../kinds/resources.ts";
import { makeBusCalls } from "./bus-calls.ts";
import { buildCallerName } from "./caller.ts";
import { makeDeadLetterBox } from "./dead-letters.ts";
import { makeKeys } from "./keys.ts";
import { openMusterServices } from "./muster-services.ts";
import { BACKUP_USER, makeStreamCopies } from "./stream-copies.ts";

const CONNECT_TIMEOUT_MS = 3000;
const NATS_API_TIMEOUT_MS = 2000;
/** Maximum wait of a finished command for its connection to close. */
const DRAIN_MS = 500;
const LETTERS = "abcdefghijklmnopqrstuvwxyz0123456789";

/** Implements each verb of a command. */
export function makeCli(options: {
  readonly config: Config;
  readonly io: TerminalIo;
  readonly interrupts: Interrupts;
  readonly common: () => CommonOptions;
  readonly resources: Resources;
}): CommandLine {
  const { config, io, interrupts, resources } = options;
  let chosen: Gateway | "nats" | undefined;
  const gateway = async (): Promise<Gateway | undefined> => {
    chosen ??= (await findGateway(options.common(), config)) ?? "nats";
    return chosen === "nats" ? undefined : chosen;
  };
  const requireNats = async (what: string): Promise<void> => {
    if ((await gateway()) === undefined) return;
    const { message, hint } = needsNats(what);
    throw new CommandError(EXIT.usage, message, { hint });
  };
  const connectionOf = (user: NatsUser): Connection =>
    decideConnection({
      user,
      option: options.common().natsUrl,
      env: { natsUrl: config.natsUrl, variables: config.natsVariables },
      local: () => findLocalStack(config.localFiles),
    });
  return {
    io,
    resources,
    interrupts,
    now: () => Date.now(),
    pause,
    randomLetters: (count) => Array.from({ length: count }, () => LETTERS.charAt(randomInt(LETTERS.length))).join(""),
    randomId: randomUUID,
    caller: buildCallerName,
    keys: makeKeys(config),
    common: options.common,
    server: config.gateway.server,
    isPlainHttpAllowed: config.gateway.isPlainHttpAllowed,
    contexts: contextsIn(config.contextFile),
    natsConnection: async (what) => {
      await requireNats(what);
      return connectionOf("cli");
    },
    connect: async (stop = interrupts.first) => {
      const found = await gateway();
      if (found !== undefined) {
        const { connectGateway } = await import("./connect-gateway.ts");
        return connectGateway(found, config.contextFile, { stop, ...scopeOf(options.common()) });
      }
      return connectServices(() => connectionOf("cli"), stop, scopeOf(options.common()));
    },
    streamCopies: async () => {
      await requireNats("copying streams");
      const stop = interrupts.first;
      const connection = connectionOf(BACKUP_USER);
      return makeStreamCopies(await connectTo(connection, BACKUP_USER, stop, () => undefined), connection, stop);
    },
  };
}

function scopeOf({ namespace, allNamespaces }: CommonOptions): Pick<ServiceLink, "namespace" | "allNamespaces"> {
  return { namespace, allNamespaces };
}

/** Loads the module at the first use, because most commands over NATS have no contexts. */
function contextsIn(file: string): CommandLine["contexts"] {
  return {
    read: async () => (await import("./context-file.ts")).readContexts(file),
    write: async (contexts) => (await import("./context-file.ts")).writeContexts(file, contexts),
  };
}

/** Returns undefined if the command calls the services over NATS. Throws CommandError for an invalid address or context. */
async function findGateway(options: CommonOptions, { gateway, contextFile }: Config): Promise<Gateway | undefined> {
  const isNamed = options.server !== undefined || options.context !== undefined || gateway.server !== undefined;
  const isNats = options.natsUrl !== undefined || gateway.natsUrl !== undefined;
  // Most installations over NATS have no file of contexts, and need not load the module that reads it.
  if (!existsSync(contextFile) && !isNamed) return undefined;
  if (isNats && !isNamed) return undefined;
  const { readContexts } = await import("./context-file.ts");
  const found = decideGateway(options, gateway, () => readContexts(contextFile));
  if (found === undefined || !("problem" in found)) return found;
  throw new CommandError(EXIT.usage, found.problem, { hint: found.hint });
}

async function connectServices(
  connectionOf: () => Connection,
  stop: AbortSignal,
  scope: Pick<ServiceLink, "namespace" | "allNamespaces">,
): Promise<ConnectedCli> {
  const listeners = new Set<LinkListener>();
  const bus = await connectTo(connectionOf(), "cli", stop, (state) => {
    for (const listener of listeners) listener(state);
  });
  const calls = makeBusCalls(bus);
  return {
    address: describeConnection(connectionOf()),
    hint: () => connectionOf().hint,
    services: openMusterServices(calls, stop),
    link: { ...calls, stop, ...scope },
    deadLetters: makeDeadLetterBox(bus),
    nats: () => observeNats(bus),
    replicas: () => bus.services(),
    dropped: () => bus.droppedSignals(),
    onLink: (listener) => {
      listeners.add(listener);
      return { [Symbol.dispose]: () => listeners.delete(listener) };
    },
    [Symbol.asyncDispose]: () => bus[Symbol.asyncDispose](),
  };
}

type LinkListener = (state: "lost" | "back") => void;

async function connectTo(
  connection: Connection,
  user: NatsUser,
  stop: AbortSignal,
  onLink: LinkListener,
): Promise<NatsBus> {
  try {
    const bus = await connectNats({
      ...readAccess(connection),
      name: "muster",
      inboxPrefix: subjects.inbox(user),
      timeoutMs: CONNECT_TIMEOUT_MS,
      drainMs: DRAIN_MS,
      onStatus: (status) => {
        if (status === "disconnected") onLink("lost");
        if (status === "reconnected") onLink("back");
      },
    });
    if (!stop.aborted) return bus;
    await bus[Symbol.asyncDispose]();
    throw new CommandError(EXIT.interrupted, "interrupted");
  } catch (cause) {
    const fault = findFault(cause);
    if (fault === undefined) throw cause;
    // The client library states the reason as the cause: connection refused, wrong token, unknown host.
    const beneath = cause instanceof Error && cause.cause instanceof Error ? cause.cause.message : describeFault(fault);
    throw new CommandError(EXIT.unreachable, `cannot connect to ${describeConnection(connection)}: ${beneath}`, {
      hint: isCredentialRefused(cause) || fault.code === "invalid_request" ? connection.keysHint : connection.hint,
      cause,
    });
  }
}

function readAccess({ natsUrl: url, credential }: Connection): NatsAccess {
  if ("tokenFile" in credential) return { url, token: readToken(credential.tokenFile) };
  return readNatsAccess({ optional: (name) => credential.variables[name], url: () => url });
}

function readToken(file: string): string | undefined {
  try {
    const text = readFileSync(file, "utf8").trim();
    return text === "" ? undefined : text;
  } catch (cause) {
    const reason = cause instanceof Error ? cause.message : String(cause);
    throw new CommandError(EXIT.unreachable, `reading the token of the local stack: ${reason}`, { cause });
  }
}

/** Returns the first local stack that runs; if none does, the first one that ran. */
function findLocalStack(files: readonly string[]): LocalStack | undefined {
  let gone: LocalStack | undefined;
  for (const file of files) {
    const stack = readLocalStack(file);
    if (stack?.alive === true) return stack;
    gone ??= stack;
  }
  return gone;
}

const PATH = z.string().default("");
/** The file that `npm start -- --keep` and `docker compose up` write. */
const STACK_FILE = z.object({
  natsUrl: z.string(),
  natsNkeyFile: PATH,
  natsBackupNkeyFile: PATH,
  natsTokenFile: PATH,
  natsCaFile: PATH,
  pid: z.number().optional(),
});

/**
 * Reads the local stack that the file describes; undefined if the file is missing. Throws CommandError for an invalid file. Paths in the file are relative to
 * it. A file without a process id describes containers: only a connection shows whether they run.
 */
function readLocalStack(file: string): LocalStack | undefined {
  const content = readStackFile(file);
  if (content === undefined) return undefined;
  const read = STACK_FILE.safeParse(content);
  if (!read.success) return failForDamagedFile(file, z.prettifyError(read.error).replaceAll(/\s*\n\s*/g, " "));
  const { pid, natsUrl, ...paths } = read.data;
  const resolved = (path: string): string => (path === "" ? "" : resolve(dirname(file), path));
  return {
    natsUrl,
    natsNkeyFile: resolved(paths.natsNkeyFile),
    natsBackupNkeyFile: resolved(paths.natsBackupNkeyFile),
    natsTokenFile: resolved(paths.natsTokenFile),
    natsCaFile: resolved(paths.natsCaFile),
    containers: pid === undefined ? dirname(file) : undefined,
    alive: pid === undefined || isRunning(pid),
  };
}

function readStackFile(file: string): unknown {
  try {
    return JSON.parse(readFileSync(file, "utf8"));
  } catch (cause) {
    if (cause instanceof Error && "code" in cause && (cause.code === "ENOENT" || cause.code === "ENOTDIR")) return;
    return failForDamagedFile(file, cause instanceof Error ? cause.message : String(cause), cause);
  }
}

/** Ignoring an invalid file would connect to the default port of NATS, which another program may serve. */
function failForDamagedFile(file: string, reason: string, cause?: unknown): never {
  throw new CommandError(EXIT.usage, `${file} does not contain the address of the local stack: ${reason}`, {
    hint: `${REWRITE_HINT}; or name a server with MUSTER_NATS_URL`,
    cause,
  });
}

function isRunning(pid: number): boolean {
  try {
    return process.kill(pid, 0);
  } catch (error) {
    // EPERM: the process runs as another user.
    return error instanceof Error && "code" in error && error.code === "EPERM";
  }
}

async function observeNats({ connection }: NatsBus): Promise<NatsObservation> {
  const roundTripMs = await connection.rtt();
  const version = connection.info?.version ?? "unknown";
  // Calls the JetStream API. An error means that this user lacks the right; no answer means that JetStream is disabled.
  const account = await natsApi(connection, "$JS.API.INFO");
  const messagesOf = async (stream: string): Promise<number | undefined> =>
    (await natsApi(connection, `$JS.API.STREAM.INFO.${stream}`)).state?.messages;
  const [deadLetters, farm = 0, provision = 0] = await Promise.all([
    messagesOf(streams.dead.name),
    messagesOf(`KV_${buckets.replicaSets}`),
    messagesOf(`KV_${buckets.leases}`),
  ]);
  return { version, roundTripMs, jetStreamTrouble: account.trouble, deadLetters, records: { farm, provision } };
}

type ApiAnswer = { readonly trouble: string | undefined; readonly state?: { readonly messages?: number } };

async function natsApi(connection: NatsBus["connection"], subject: string): Promise<ApiAnswer> {
  try {
    const reply = await connection.request(subject, "", { timeout: NATS_API_TIMEOUT_MS });
    // NATS defines the format of the answers (io.nats.jetstream.api.v1).
    const { error, state } = reply.json<{ error?: { description?: string }; state?: { messages?: number } }>();
    return { trouble: error === undefined ? undefined : (error.description ?? "refused"), ...(state && { state }) };
  } catch (error) {
    return { trouble: `no answer: ${error instanceof Error ? error.message : String(error)}` };
  }
}
