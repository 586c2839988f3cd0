import { execFile } from "node:child_process";
import { readFile, mkdir, mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { promisify } from "node:util";
import { makeClient, connectNats, type Client } from "@muster/bus";
import { SessionService, type muster } from "@muster/proto";
import { startChild } from "../src/child.ts";
import { ROOT } from "../src/root.ts";
import { startStack, type Stack, type StackOptions } from "../src/stack.ts";

const execute = promisify(execFile);

export type Spec = muster.session.v1.SessionSpec.$Properties;

export type BenchStack = AsyncDisposable & {
  readonly stack: Stack;
  readonly sessions: Client<typeof SessionService>;
  /** Resident memory of each process of the stack, in MiB, by process name. */
  memory(): Promise<ReadonlyMap<string, number>>;
  /** Processor time that each process of the stack has used, in seconds, by process name. */
  processorTime(): Promise<ReadonlyMap<string, number>>;
};

/** Starts a stack with one replica of each service on an embedded cluster. Each replica is a separate process, and runs its bundle as in `npm start`. */
export async function benchStack(options: {
  readonly pools: Readonly<Record<string, number>>;
  /** The nodes only simulate their pods. */
  readonly simulated: boolean;
  readonly env?: StackOptions["env"];
}): Promise<BenchStack> {
  await using starting = new AsyncDisposableStack();
  const directory = await mkdtemp(join(tmpdir(), "muster-bench-"));
  starting.defer(() => rm(directory, { recursive: true, force: true }));
  await execute(process.execPath, [join(ROOT, "tools/repo/bundle-programs.mjs")]);
  const bundled = `--require="${join(ROOT, "tools/repo/run-bundled.cjs")}"`;
  const baseEnv = { PATH: process.env["PATH"], HOME: process.env["HOME"], NODE_OPTIONS: bundled };
  await mkdir(join(directory, "cluster"));
  const kubeconfig = join(directory, "kubeconfig");
  const pools = Object.entries(options.pools).map(([name, nodes]) => `${name}=${nodes}`);
  const cluster = startChild({
    name: "devcluster",
    entry: join(ROOT, "tools/devcluster/src/main.ts"),
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
  const processes = [{ name: "devcluster", pid: cluster.pid }, ...stack.replicas.map(describeReplica)];
  const all = starting.move();
  return {
    stack,
    sessions: makeClient(bus, SessionService),
    memory: async () => new Map(await Promise.all(processes.map(residentMiB))),
    processorTime: async () => new Map(await Promise.all(processes.map(processorSeconds))),
    [Symbol.asyncDispose]: () => all.disposeAsync(),
  };
}

function describeReplica(replica: Stack["replicas"][number]): { name: string; pid: number } {
  return { name: replica.service, pid: replica.current().pid };
}

async function residentMiB({ name, pid }: { name: string; pid: number }): Promise<[string, number]> {
  const status = await readFile(`/proc/${pid}/status`, "utf8");
  return [name, Number(/^VmRSS:\s+(\d+) kB$/m.exec(status)?.[1] ?? 0) / 1024];
}

/** USER_HZ: Linux reports processor time in hundredths of a second, independently of the kernel's tick. */
const TICKS_PER_SECOND = 100;

async function processorSeconds({ name, pid }: { name: string; pid: number }): Promise<[string, number]> {
  const stat = await readFile(`/proc/${pid}/stat`, "utf8");
  // The program name in parentheses may contain spaces. User and system time are the 12th and 13th field after it.
  const fields = stat.slice(stat.lastIndexOf(")") + 2).split(" ");
  return [name, (Number(fields[11]) + Number(fields[12])) / TICKS_PER_SECOND];
}

export function computePercentile(values: readonly number[], share: number): number {
  const sorted = [...values].sort((a, b) => a - b);
  return sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * share))] ?? 0;
}
