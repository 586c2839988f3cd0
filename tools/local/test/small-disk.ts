import { execFile } from "node:child_process";
import { randomBytes } from "node:crypto";
import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { promisify } from "node:util";
import { findFreePorts, until } from "@muster/testkit";

const run = promisify(execFile);

export const NATS_IMAGE = "nats:2.15-alpine";
/** Far above the size of the disk, so that the disk fills up before the server reaches its limit. */
const MAX_STORE = "8GB";
const BALLAST = "/data/ballast";

/** A NATS server in a container, whose store is on its own small disk. */
export type SmallDiskNats = AsyncDisposable & {
  readonly url: string;
  readonly token: string;
  /** Fills the rest of the disk with another file. */
  fill(): Promise<void>;
  /** Removes this file. */
  makeRoom(): Promise<void>;
  /** Stops the server gracefully and restarts it on the same store and port. */
  restart(): Promise<void>;
  /** The whole log of the server. */
  log(): Promise<string>;
};

/** `directory` holds the configuration. */
export async function startSmallDiskNats(directory: string, mebibytes: number): Promise<SmallDiskNats> {
  await using starting = new AsyncDisposableStack();
  const name = `muster-small-disk-${process.pid}`;
  const token = randomBytes(16).toString("hex");
  const [port = 0] = await findFreePorts(1);
  const disk = ["--opt", "type=tmpfs", "--opt", "device=tmpfs", "--opt", `o=size=${mebibytes}m,mode=0777`];
  await docker("volume", "create", ...disk, name);
  starting.defer(async () => {
    await docker("volume", "rm", name);
  });
  // The disk exists while a container uses it. This container keeps it across a restart of the server.
  const owner = await docker("run", "--detach", "--volume", `${name}:/data`, "--entrypoint", "sleep", NATS_IMAGE, "1d");
  starting.defer(async () => {
    await docker("rm", "--force", owner);
  });
  const publish = ["--publish", `127.0.0.1:${port}:4222`, "--publish", "127.0.0.1::8222"];
  const server = await docker("create", "--volume", `${name}:/data`, ...publish, NATS_IMAGE, "--config", "/nats.conf");
  starting.defer(async () => {
    await docker("rm", "--force", server);
  });
  const file = join(directory, "nats.conf");
  await writeFile(file, configurationFor(token), { mode: 0o644 });
  await docker("cp", file, `${server}:/nats.conf`);
  const start = async (): Promise<void> => {
    await docker("start", server);
    const health = `http://${await docker("port", server, "8222/tcp")}/healthz?js-server-only=true`;
    await until("NATS is healthy", async () => (await fetch(health)).ok, { timeoutMs: 60_000 });
  };
  await start();
  const all = starting.move();
  return {
    url: `nats://127.0.0.1:${port}`,
    token,
    fill: async () => {
      const all = `! dd if=/dev/zero of=${BALLAST} bs=4096`;
      await docker("exec", owner, "sh", "-c", all);
    },
    makeRoom: async () => {
      await docker("exec", owner, "rm", BALLAST);
    },
    restart: async () => {
      await docker("stop", server);
      await start();
    },
    log: async () => {
      const { stdout, stderr } = await run("docker", ["logs", server], { maxBuffer: 64 * 1024 * 1024 });
      return stdout + stderr;
    },
    [Symbol.asyncDispose]: () => all.disposeAsync(),
  };
}

function configurationFor(token: string): string {
  const jetstream = `store_dir: "/data", max_file_store: ${MAX_STORE}`;
  return [
    "listen: 0.0.0.0:4222",
    "http: 0.0.0.0:8222",
    `authorization { token: "${token}" }`,
    "max_payload: 1MB",
    'ping_interval: "2s"',
    "ping_max: 2",
    `jetstream { ${jetstream} }`,
    "",
  ].join("\n");
}

async function docker(...args: readonly string[]): Promise<string> {
  const { stdout } = await run("docker", args);
  return stdout.trim();
}
