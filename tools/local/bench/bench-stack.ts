import { readFile, mkdir, mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { client, connectNats, type Client } from "@muster/bus";
import { SessionService, type muster } from "@muster/proto";
import { startChild } from "../src/child.ts";
import { ROOT, startStack, type Stack, type StackOptions } from "../src/stack.ts";

export type Spec = muster.session.v1.SessionSpec.$Properties;

export type BenchStack = AsyncDisposable & {
  readonly stack: Stack;
  readonly sessions: Client<typeof SessionService>;
  /** Resident memory of each process of the stack, in MiB by its name. */
  memory(): Promise<ReadonlyMap<string, number>>;
};

/** A stack with one replica of each service on an embedded cluster, each a process of its own. */
export async function benchStack(options: {
  readonly pools: Readonly<Record<string, number>>;
  /** Nodes that only pretend to run their pods. */
  readonly simulated: boolean;
  readonly env?: StackOptions["env"];
}): Promise<BenchStack> {
  await using starting = new AsyncDisposableStack();
  const directory = await mkdtemp(join(tmpdir(), "muster-bench-"));
  starting.defer(() => rm(directory, { recursive: true, force: true }));
  const baseEnv = { PATH: process.env["PATH"], HOME: process.env["HOME"] };
  await mkdir(join(directory, "cluster"));
  const kubeconfig = join(directory, "kubeconfig");
  const pools = Object.entries(options.pools).map(([name, nodes]) => `${name}=${nodes}`);
  const cluster = startChild({
    name: "devcluster",
    entry: join(ROOT, "libs/devcluster/src/main.ts"),
    args: [
      ...["--directory", join(directory, "cluster"), "--kubeconfig", kubeconfig, "--pools", pools.join(",")],
      ...(options.simulated ? ["--simulated"] : []),
    ],
    env: baseEnv,
    logFile: join(directory, "devcluster.log"),
  });
  starting.defer(() => cluster.stop());
  await cluster.line((line) => (line.includes('"kubeconfig"') ? true : undefined));
  const stack = starting.use(
    await startStack({
      directory: join(directory, "stack"),
      pools: {},
      kubeconfig,
      baseEnv,
      signal: new AbortController().signal,
      onProgress: () => undefined,
      env: { SESSION_EXECUTORS: "0", ...options.env },
    }),
  );
  const bus = starting.use(await connectNats({ ...stack.nats, name: "bench" }));
  const processes = [{ name: "devcluster", pid: cluster.pid }, ...stack.replicas.map(pidOf)];
  const all = starting.move();
  return {
    stack,
    sessions: client(bus, SessionService),
    memory: async () => new Map(await Promise.all(processes.map(residentMiB))),
    [Symbol.asyncDispose]: () => all.disposeAsync(),
  };
}

function pidOf(replica: Stack["replicas"][number]): { name: string; pid: number } {
  return { name: replica.service, pid: replica.current().pid };
}

async function residentMiB({ name, pid }: { name: string; pid: number }): Promise<[string, number]> {
  const status = await readFile(`/proc/${pid}/status`, "utf8");
  return [name, Number(/^VmRSS:\s+(\d+) kB$/m.exec(status)?.[1] ?? 0) / 1024];
}

export function percentile(values: readonly number[], share: number): number {
  const sorted = [...values].sort((a, b) => a - b);
  return sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * share))] ?? 0;
}
