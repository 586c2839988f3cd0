import { spawn, type ChildProcess } from "node:child_process";
import { once } from "node:events";
import { chmod, mkdir, open, readFile, rm, writeFile } from "node:fs/promises";
import { connect } from "node:net";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { throwFault } from "@muster/faults";

export type NatsServerOptions = {
  readonly binary: string;
  /** JetStream store, configuration and log are kept here; mode 0700. */
  readonly directory: string;
  /** 0: any free port. Always on 127.0.0.1. */
  readonly port: number;
  /** Clients must present it. Written to a configuration file of mode 0600, never to the command line. */
  readonly token: string;
  readonly onExit?: (code: number | null, signal: string | null) => void;
};

export type NatsServer = AsyncDisposable & {
  readonly url: string;
  readonly port: number;
  readonly pid: number;
  /** Ends it with SIGKILL; resolves once it is gone. */
  kill(): Promise<void>;
};

const READY_TIMEOUT_MS = 20_000;
const STOP_TIMEOUT_MS = 10_000;

/** Starts a nats-server with JetStream and resolves once it answers. Disposing stops it with SIGTERM, then SIGKILL. */
export async function startNatsServer(options: NatsServerOptions): Promise<NatsServer> {
  const { directory } = options;
  await mkdir(directory, { recursive: true, mode: 0o700 });
  await chmod(directory, 0o700);
  const portsDirectory = join(directory, "ports");
  await rm(portsDirectory, { recursive: true, force: true });
  await mkdir(portsDirectory);
  const file = join(directory, "nats.conf");
  await writeFile(file, renderConfiguration(options, portsDirectory), { mode: 0o600 });

  await using log = await open(join(directory, "nats-server.out"), "a");
  const child = spawn(options.binary, ["-c", file], { stdio: ["ignore", log.fd, log.fd] });
  const exited = once(child, "exit");
  exited.then(
    ([code, signal]: (number | string | null)[]) => options.onExit?.(code as number | null, signal as string | null),
    () => undefined,
  );
  const port = await ready(child, directory, portsDirectory);
  return {
    url: `nats://127.0.0.1:${port}`,
    port,
    pid: child.pid ?? 0,
    kill: async () => {
      if (child.exitCode === null && child.signalCode === null && child.kill("SIGKILL")) await exited;
    },
    [Symbol.asyncDispose]: () => stop(child, exited),
  };
}

function renderConfiguration(options: NatsServerOptions, portsDirectory: string): string {
  const quote = (text: string): string => JSON.stringify(text);
  return [
    "listen: " + quote(`127.0.0.1:${options.port === 0 ? -1 : options.port}`),
    `ports_file_dir: ${quote(portsDirectory)}`,
    `log_file: ${quote(join(options.directory, "nats-server.log"))}`,
    "logfile_size_limit: 10MB",
    "max_payload: 1MB",
    `authorization { token: ${quote(options.token)} }`,
    `jetstream { store_dir: ${quote(join(options.directory, "store"))} }`,
    "",
  ].join("\n");
}

/** The server writes the address it got into `<program>_<pid>.ports` once it listens; JetStream is ready when it greets a connection. */
async function ready(child: ChildProcess, directory: string, portsDirectory: string): Promise<number> {
  const failed = new Promise<never>((_resolve, reject) => {
    child.once("error", reject);
  });
  const end = performance.now() + READY_TIMEOUT_MS;
  while (performance.now() < end && child.exitCode === null) {
    const port = await Promise.race([readPort(child, portsDirectory), failed]);
    if (port !== undefined && (await greets(port))) return port;
    await sleep(20);
  }
  child.kill("SIGKILL");
  const tail = await readFile(join(directory, "nats-server.log"), "utf8").catch(() => "");
  return throwFault(
    { code: "unavailable", dependency: "nats-server", retryAfterMs: 0 },
    { doing: `starting ${child.spawnfile}: ${tail.trim().split("\n").slice(-3).join(" | ")}` },
  );
}

async function readPort(child: ChildProcess, portsDirectory: string): Promise<number | undefined> {
  if (child.pid === undefined) return undefined;
  try {
    const file = join(portsDirectory, `nats-server_${child.pid}.ports`);
    const ports = JSON.parse(await readFile(file, "utf8")) as { nats?: string[] };
    const address = ports.nats?.[0];
    return address === undefined ? undefined : Number(new URL(address).port);
  } catch {
    return undefined;
  }
}

function greets(port: number): Promise<boolean> {
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

async function stop(child: ChildProcess, exited: Promise<unknown>): Promise<void> {
  if (child.exitCode !== null || child.signalCode !== null) return;
  child.kill("SIGTERM");
  const giveUp = setTimeout(() => child.kill("SIGKILL"), STOP_TIMEOUT_MS);
  await exited;
  clearTimeout(giveUp);
}
