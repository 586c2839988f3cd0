import type { ChildProcess } from "node:child_process";
import { chmod, mkdir, open, readdir, readFile, rm, writeFile } from "node:fs/promises";
import { connect } from "node:net";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { throwFault } from "@muster/faults";
import { renderUsers } from "./render-users.ts";
import type { NatsUserName } from "./rights.ts";
import { spawnGuarded } from "./spawn-guarded.ts";

export type NatsServerOptions = {
  readonly binary: string;
  /** JetStream store, configuration and log are kept here; mode 0700. */
  readonly directory: string;
  /** 0: any free port. Always on 127.0.0.1. */
  readonly port: number;
  /** Clients must present it. Written to a configuration file of mode 0600, never to the command line. */
  readonly token: string;
  /** The public key of each user: instead of clients with the token, only these are let in, each with no more than its permissions. */
  readonly users?: (user: NatsUserName) => string;
  /** Public key of another user, who may do everything. For tests that inspect private state. */
  readonly observer?: string;
  /** Files in PEM form; clients must then speak TLS. */
  readonly tls?: { readonly certFile: string; readonly keyFile: string };
  /** Cluster of the server, so that streams can have replicas; JetStream answers once a majority of the servers is up. */
  readonly cluster?: NatsClusterOptions;
  /**
   * Syncs every write to disk before its acknowledgement. Otherwise the system does so within two minutes, and a power loss loses the writes in between.
   * Default false.
   */
  readonly syncAlways?: boolean;
  /** Limit of JetStream's disk space, in bytes; by default the server's own. Beyond it every write is refused. */
  readonly maxStoreBytes?: number | undefined;
  readonly onExit?: (code: number | null, signal: string | null) => void;
};

type NatsClusterOptions = {
  /** Name of the cluster, the same for all its servers. */
  readonly name: string;
  /** Unique in the cluster, and the same after a restart. */
  readonly serverName: string;
  /** Port for the other servers of the cluster, on 127.0.0.1. */
  readonly port: number;
  /** Ports of all servers of the cluster. */
  readonly ports: readonly number[];
};

export type NatsServer = AsyncDisposable & {
  readonly url: string;
  readonly port: number;
  readonly pid: number;
  /** Ends it with SIGKILL; resolves once it is gone. */
  kill(): Promise<void>;
};

const LOG = "nats-server.log";
/** File for the output of the server before it opens its log. */
const OUTPUT = "nats-server.out";
const READY_TIMEOUT_MS = 20_000;
const STOP_TIMEOUT_MS = 10_000;

/**
 * Starts a nats-server with JetStream and resolves once it answers. Disposal stops it with SIGTERM, then SIGKILL. It ends with this process, however that ends,
 * and receives no signal from the terminal.
 */
export async function startNatsServer(options: NatsServerOptions): Promise<NatsServer> {
  const { directory } = options;
  await mkdir(directory, { recursive: true, mode: 0o700 });
  await chmod(directory, 0o700);
  const portsDirectory = join(directory, "ports");
  await rm(portsDirectory, { recursive: true, force: true });
  await mkdir(portsDirectory);
  const file = join(directory, "nats.conf");
  await writeFile(file, renderConfiguration(options, portsDirectory), { mode: 0o600 });

  await using log = await open(join(directory, OUTPUT), "w");
  const child = spawnGuarded(options.binary, ["-c", file], log.fd);
  const exited = new Promise<void>((resolve) => {
    child.once("exit", (code, signal) => {
      options.onExit?.(code, signal);
      resolve();
    });
  });
  const port = await ready(child, directory, portsDirectory);
  return {
    url: `nats://127.0.0.1:${port}`,
    port,
    pid: child.pid ?? 0,
    kill: async () => {
      child.kill("SIGKILL");
      await exited;
    },
    [Symbol.asyncDispose]: () => stop(child, exited),
  };
}

function renderConfiguration(options: NatsServerOptions, portsDirectory: string): string {
  const quote = (text: string): string => JSON.stringify(text);
  const store = `store_dir: ${quote(join(options.directory, "store"))}`;
  return [
    "listen: " + quote(`127.0.0.1:${options.port === 0 ? -1 : options.port}`),
    `ports_file_dir: ${quote(portsDirectory)}`,
    `log_file: ${quote(join(options.directory, LOG))}`,
    "logfile_size_limit: 10MB",
    "max_payload: 1MB",
    // A process that is frozen (suspended, or its machine is gone) stays in its queue groups and swallows its share of the requests until the server drops
    // it: with these after 4 to 6 seconds, about as long as a lead lasts without its leader; by default after minutes.
    'ping_interval: "2s"',
    "ping_max: 2",
    options.users === undefined
      ? `authorization { token: ${quote(options.token)} }`
      : renderUsers(options.users, options.observer),
    ...(options.tls === undefined
      ? []
      : [`tls { cert_file: ${quote(options.tls.certFile)}, key_file: ${quote(options.tls.keyFile)} }`]),
    `jetstream { ${[store, ...jetStreamLimits(options)].join(", ")} }`,
    ...(options.cluster === undefined ? [] : renderCluster(options.cluster, options.token)),
    "",
  ].join("\n");
}

function jetStreamLimits({ syncAlways, maxStoreBytes }: NatsServerOptions): string[] {
  return [
    ...(syncAlways === true ? ["sync_interval: always"] : []),
    ...(maxStoreBytes === undefined ? [] : [`max_file_store: ${maxStoreBytes}`]),
  ];
}

function renderCluster({ name, serverName, port, ports }: NatsClusterOptions, token: string): string[] {
  const routes = ports.map((other) => JSON.stringify(`nats://cluster:${token}@127.0.0.1:${other}`));
  return [
    `server_name: ${JSON.stringify(serverName)}`,
    `cluster { name: ${JSON.stringify(name)}, listen: "127.0.0.1:${port}"`,
    `  authorization { user: cluster, password: ${JSON.stringify(token)} }`,
    `  routes: [${routes.join(", ")}] }`,
  ];
}

/** The server writes the address it got into `<program>_<pid>.ports` once it listens; JetStream is ready when it greets a connection. */
async function ready(child: ChildProcess, directory: string, portsDirectory: string): Promise<number> {
  const failed = new Promise<never>((_resolve, reject) => {
    child.once("error", reject);
  });
  const end = performance.now() + READY_TIMEOUT_MS;
  while (performance.now() < end && !hasExited(child)) {
    const port = await Promise.race([readPort(child, portsDirectory), failed]);
    if (port !== undefined && (await isGreeting(port))) return port;
    await sleep(20);
  }
  child.kill("SIGKILL");
  const said = await Promise.all([LOG, OUTPUT].map((name) => readFile(join(directory, name), "utf8").catch(() => "")));
  const tail = said.map((text) => text.trim().split("\n").slice(-3).join(" | ")).join(" ");
  return throwFault(
    { code: "unavailable", dependency: "nats-server", retryAfterMs: 0 },
    { doing: `starting ${child.spawnargs[3] ?? ""}: ${tail.trim()}` },
  );
}

function hasExited(child: ChildProcess): boolean {
  return child.exitCode !== null || child.signalCode !== null;
}

async function readPort(child: ChildProcess, portsDirectory: string): Promise<number | undefined> {
  try {
    const names = await readdir(portsDirectory);
    const name = names.find((one) => one.endsWith(`_${child.pid}.ports`));
    if (name === undefined) return undefined;
    const ports: unknown = JSON.parse(await readFile(join(portsDirectory, name), "utf8"));
    if (typeof ports !== "object" || ports === null || !("nats" in ports) || !Array.isArray(ports.nats))
      return undefined;
    return Number(new URL(String(ports.nats[0])).port);
  } catch {
    // Half written, or not there yet.
    return undefined;
  }
}

function isGreeting(port: number): Promise<boolean> {
  return new Promise((resolve) => {
    const socket = connect(port, "127.0.0.1");
    const finish = (answer: boolean): void => {
      socket.destroy();
      resolve(answer);
    };
    socket.once("data", () => {
      finish(true);
    });
    socket.once("error", () => {
      finish(false);
    });
    socket.setTimeout(1000, () => {
      finish(false);
    });
  });
}

async function stop(child: ChildProcess, exited: Promise<void>): Promise<void> {
  if (hasExited(child)) return;
  child.kill("SIGTERM");
  const giveUp = setTimeout(() => child.kill("SIGKILL"), STOP_TIMEOUT_MS);
  await exited;
  clearTimeout(giveUp);
}
