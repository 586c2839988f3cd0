import { spawn } from "node:child_process";
import { once } from "node:events";
import { statSync } from "node:fs";
import { constants } from "node:os";
import { setTimeout as sleep } from "node:timers/promises";
import type { ContainerLog } from "./container-log.ts";
import type { ExecProcess } from "./serve-exec.ts";
import { CONTAINER_VARIABLE, killTree, recordProcess, signalGroup } from "./process-tree.ts";

export type ProcessCommand = {
  readonly command: readonly string[];
  readonly workingDirectory: string;
  readonly env: Readonly<Record<string, string>>;
  readonly containerId: string;
};

export type RunningProcess = {
  readonly pid: number;
  /** Resolves with the exit code (128 + n after signal n) once the process and its descendants have ended and the log is complete. */
  readonly ended: Promise<number>;
  /** Signals the whole process group. */
  signal(signal: "SIGTERM" | "SIGKILL"): void;
};

/** A process, or the system's error message if it could not start. */
export type StartedProcess =
  { readonly started: true; readonly process: RunningProcess } | { readonly started: false; readonly message: string };

/** The log is closed after this time, even if a process outside the container still holds its output open. */
const OUTPUT_COMPLETE_MS = 2_000;

/**
 * Runs a command as the leader of its own session, and writes its output to the log, which is closed at its end. While it lives, the directory contains a
 * record of its process group.
 */
export async function runProcess(
  command: ProcessCommand,
  log: ContainerLog,
  recordDirectory: string,
): Promise<StartedProcess> {
  const [file = "", ...args] = command.command;
  const problem = missingDirectory(command.workingDirectory);
  if (problem !== undefined) return failed(log, problem);
  const child = spawn(file, args, {
    cwd: command.workingDirectory,
    env: { ...command.env, [CONTAINER_VARIABLE]: command.containerId },
    detached: true,
    stdio: ["ignore", "pipe", "pipe"],
  });
  const { pid } = child;
  if (pid === undefined) {
    const [error] = (await once(child, "error")) as [Error];
    return failed(log, startProblem(file, error));
  }
  const forget = recordProcess(recordDirectory, pid, command.containerId);
  child.stdout.on("data", (chunk: Buffer) => {
    log.append("stdout", chunk);
  });
  child.stderr.on("data", (chunk: Buffer) => {
    log.append("stderr", chunk);
  });
  const closed = once(child, "close");
  const ended = once(child, "exit").then(async (exit) => {
    killTree(pid, command.containerId);
    const patience = new AbortController();
    await Promise.race([
      closed,
      sleep(OUTPUT_COMPLETE_MS, undefined, { signal: patience.signal }).catch(() => undefined),
    ]);
    patience.abort();
    child.stdout.destroy();
    child.stderr.destroy();
    log.close();
    forget();
    return exitCode(exit[0], exit[1]);
  });
  return { started: true, process: { pid, ended, signal: (signal) => void signalGroup(pid, signal) } };
}

/** Starts another command with the directory and environment of the container; it ends with the container. */
export function startBeside(container: ProcessCommand, [file = "", ...args]: readonly string[]): ExecProcess {
  return spawn(file, args, {
    cwd: container.workingDirectory,
    env: { ...container.env, [CONTAINER_VARIABLE]: container.containerId },
    detached: true,
    stdio: ["pipe", "pipe", "pipe"],
  });
}

function failed(log: ContainerLog, message: string): StartedProcess {
  log.close();
  return { started: false, message };
}

function missingDirectory(path: string): string | undefined {
  const isDirectory = statSync(path, { throwIfNoEntry: false })?.isDirectory() ?? false;
  return isDirectory ? undefined : `working directory ${path} does not exist`;
}

function startProblem(file: string, error: Error): string {
  const code = "code" in error ? String(error.code) : error.message;
  switch (code) {
    case "ENOENT":
      return `exec: "${file}": executable file not found in $PATH`;
    case "EACCES":
      return `exec: "${file}": permission denied`;
    default:
      return `exec: "${file}": ${code}`;
  }
}

function exitCode(code: unknown, signal: unknown): number {
  if (typeof code === "number") return code;
  const known = Object.entries(constants.signals).find(([name]) => name === signal);
  return 128 + (known?.[1] ?? 0);
}
