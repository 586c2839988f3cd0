import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { createWriteStream } from "node:fs";
import { createInterface } from "node:readline";
import { throwFault } from "@muster/faults";

/**
 * A process of the stack. It has its own process group, so Ctrl-C reaches only the parent, which stops all processes in order. Its IPC channel closes when the
 * parent dies.
 */
export type Child = {
  readonly name: string;
  readonly pid: number;
  /** Resolves with the exit code or the signal when the process has ended. */
  readonly exited: Promise<string>;
  /** Resolves with the first value that `pick` returns for a line; rejects when the process ends before. */
  line<Value>(pick: (line: string) => Value | undefined): Promise<Value>;
  /** Sends SIGTERM, and SIGKILL after a timeout. */
  stop(): Promise<void>;
  /** Sends SIGKILL, like a crash. */
  kill(): Promise<void>;
};

const STOP_TIMEOUT_MS = 15_000;
/** Log lines that an error quotes. */
const TAIL_LINES = 20;

export function startChild(options: {
  readonly name: string;
  readonly entry: string;
  readonly args?: readonly string[];
  readonly env: Readonly<Record<string, string | undefined>>;
  readonly logFile: string;
}): Child {
  const child = spawn(process.execPath, [options.entry, ...(options.args ?? [])], {
    env: options.env,
    detached: true,
    stdio: ["ignore", "pipe", "pipe", "ipc"],
  });
  const log = createWriteStream(options.logFile, { flags: "a", mode: 0o600 });
  const watchers = new Set<(line: string) => void>();
  const tail: string[] = [];
  for (const stream of [child.stdout, child.stderr]) {
    if (stream === null) continue;
    stream.pipe(log, { end: false });
    createInterface({ input: stream }).on("line", (line) => {
      tail.push(line);
      if (tail.length > TAIL_LINES) tail.shift();
      for (const watcher of watchers) watcher(line);
    });
  }
  const exited = ended(child);
  void exited.then(() => log.end());
  return {
    name: options.name,
    pid: child.pid ?? 0,
    exited,
    line: (pick) =>
      new Promise((resolve, reject) => {
        const watcher = (line: string): void => {
          const value = pick(line);
          if (value === undefined) return;
          watchers.delete(watcher);
          resolve(value);
        };
        watchers.add(watcher);
        tail.forEach(watcher);
        void exited.then((how) => {
          reject(
            new Error(`${options.name} ended (${how}) before it was ready. The end of its log:\n${tail.join("\n")}`),
          );
        });
      }),
    stop: () => stop(child, exited),
    kill: async () => {
      signalGroup(child, "SIGKILL");
      await exited;
    },
  };
}

/** Waits until the service logs its HTTP address and `/readyz` there answers 200. Returns the address. */
export async function waitForService(
  child: Child,
  options: { timeoutMs: number; signal: AbortSignal },
): Promise<string> {
  const address = await child.line((line) => {
    if (!line.includes('"started"')) return undefined;
    const { msg, http } = JSON.parse(line) as { msg?: string; http?: string };
    return msg === "started" ? http : undefined;
  });
  const end = performance.now() + options.timeoutMs;
  let last = "";
  const ended = new AbortController();
  void child.exited.then((how) => {
    ended.abort(new Error(`${child.name} ended (${how}) before it was ready`));
  });
  while (performance.now() < end) {
    ended.signal.throwIfAborted();
    options.signal.throwIfAborted();
    const answer = await fetch(`http://${address}/readyz`, { signal: AbortSignal.timeout(2000) }).catch(
      () => undefined,
    );
    if (answer?.ok === true) return address;
    last = ((await answer?.text()) ?? "no answer").trim().replaceAll("\n", ", ");
    await Promise.race([new Promise((resolve) => setTimeout(resolve, 50)), child.exited]);
  }
  return throwFault(
    { code: "deadline_exceeded", operation: `starting ${child.name}`, timeoutMs: options.timeoutMs },
    { doing: `last answer of ${child.name}: ${last}` },
  );
}

async function ended(child: ChildProcess): Promise<string> {
  try {
    const [code, signal] = (await once(child, "close")) as [number | null, string | null];
    return signal ?? `exit code ${code ?? "unknown"}`;
  } catch (error) {
    return error instanceof Error ? error.message : String(error);
  }
}

async function stop(child: ChildProcess, exited: Promise<string>): Promise<void> {
  if (child.exitCode !== null || child.signalCode !== null) return;
  child.kill("SIGTERM");
  const giveUp = setTimeout(() => {
    signalGroup(child, "SIGKILL");
  }, STOP_TIMEOUT_MS);
  await exited;
  clearTimeout(giveUp);
}

function signalGroup(child: ChildProcess, signal: NodeJS.Signals): void {
  if (child.pid === undefined || child.exitCode !== null || child.signalCode !== null) return;
  try {
    process.kill(-child.pid, signal);
  } catch (error) {
    // The process has already ended.
    if (!(error instanceof Error && "code" in error && error.code === "ESRCH")) throw error;
  }
}
