import { execFile } from "node:child_process";
import { setTimeout as sleep } from "node:timers/promises";
import { promisify } from "node:util";

const run = promisify(execFile);
const PREFIX = "muster-measure";
const PORT = 8080;
const READY_TIMEOUT_MS = 120_000;
/** Starts of each image; the table has their median. */
const STARTS = 3;
const ACCESS = "/var/run/dev-cluster";
const VOLUME = ["--volume", `${PREFIX}:${ACCESS}`];
const VARIABLES = {
  MUSTER_HTTP_ADDR: `0.0.0.0:${PORT}`,
  MUSTER_NATS_URL: "nats://nats:4222",
  MUSTER_KUBECONFIG: `${ACCESS}/kubeconfig`,
  NODE_SCALER_FILE: `${ACCESS}/pools.yaml`,
  PROVISION_KEY: "0".repeat(64),
};
/** Commands of images that are not services; they end immediately. */
const COMMANDS: Readonly<Record<string, readonly string[]>> = { cli: ["--version"] };
/** The setup image needs the volumes of docker-compose.yml. */
const UNTIMED = "setup";

/** Returns a Markdown table: the size of each image, its size above the base, and its time to ready with NATS and a cluster (median of three starts). */
export async function measureImages(names: readonly string[], imageOf: (name: string) => string): Promise<string> {
  const base = await measureSize("node:24-bookworm-slim");
  await docker("network", "create", PREFIX);
  await docker("volume", "create", PREFIX);
  try {
    // A new volume belongs to root.
    const chown = ["--user", "root", "--entrypoint", "chown", imageOf("dev-cluster"), "node", ACCESS];
    await docker("run", "--rm", ...VOLUME, ...chown);
    await docker("run", "--detach", ...naming("nats"), "nats:2.15-alpine", "--jetstream");
    const clusterMs = await medianMs(() => readyMs("dev-cluster", imageOf("dev-cluster")));
    const rows: string[] = [];
    for (const name of names) {
      const command = COMMANDS[name];
      const startMs = async (): Promise<number | undefined> => {
        if (name === UNTIMED) return undefined;
        if (name === "dev-cluster") return clusterMs;
        if (command === undefined) return await medianMs(() => readyMs(name, imageOf(name)));
        return await medianMs(() => timed(() => docker("run", "--rm", imageOf(name), ...command)));
      };
      const size = await measureSize(imageOf(name));
      const ms = await startMs();
      const time = ms === undefined ? "" : `${(ms / 1000).toFixed(1)} s`;
      rows.push(`| ${name} | ${megabytes(size)} | ${megabytes(size - base)} | ${time} |`);
    }
    return ["| image | size | above its base | ready after |", "| --- | ---: | ---: | ---: |", ...rows].join("\n");
  } finally {
    const left = await docker("ps", "--all", "--quiet", "--filter", `network=${PREFIX}`);
    if (left !== "") await docker("rm", "--force", ...left.split("\n"));
    await docker("volume", "rm", "--force", PREFIX);
    await docker("network", "rm", PREFIX);
  }
}

function naming(name: string): readonly string[] {
  return ["--name", `${PREFIX}-${name}`, "--network", PREFIX, "--network-alias", name];
}

async function medianMs(measure: () => Promise<number>): Promise<number> {
  const all: number[] = [];
  for (let start = 0; start < STARTS; start += 1) all.push(await measure());
  return all.toSorted((a, b) => a - b)[Math.floor(STARTS / 2)] ?? Number.NaN;
}

/** Starts a new container and returns its time to ready. Removes the container of an earlier start; the new one keeps running. */
async function readyMs(name: string, image: string): Promise<number> {
  await docker("rm", "--force", `${PREFIX}-${name}`);
  const own = name === "dev-cluster" ? ["--init", "--tmpfs", "/var/lib/dev-cluster:mode=1777"] : [];
  const env = Object.entries(VARIABLES).flatMap(([key, value]) => ["--env", `${key}=${value}`]);
  const rest = ["--publish", `127.0.0.1::${PORT}`, "--read-only", "--tmpfs", "/tmp", ...VOLUME, ...own, ...env];
  return await timed(async () => {
    const container = await docker("run", "--detach", ...naming(name), ...rest, image);
    const address = await docker("port", container, `${PORT}/tcp`);
    const end = performance.now() + READY_TIMEOUT_MS;
    for (;;) {
      const answer = await fetch(`http://${address}/readyz`).catch(() => undefined);
      if (answer?.ok === true) return;
      if (performance.now() > end) throw new Error(`${name} is not ready: ${(await answer?.text()) ?? "no answer"}`);
      await sleep(20);
    }
  });
}

async function timed(act: () => Promise<unknown>): Promise<number> {
  const begin = performance.now();
  await act();
  return performance.now() - begin;
}

async function measureSize(image: string): Promise<number> {
  return Number(await docker("image", "inspect", "--format", "{{.Size}}", image));
}

function megabytes(bytes: number): string {
  return `${(bytes / 1e6).toFixed(1)} MB`;
}

async function docker(...args: readonly string[]): Promise<string> {
  const { stdout } = await run("docker", args);
  return stdout.trim();
}
