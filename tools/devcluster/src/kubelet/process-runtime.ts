import { existsSync, rmSync } from "node:fs";
import { join } from "node:path";
import type { V1Pod } from "@kubernetes/client-node";
import { type ContainerLog, openContainerLog, readContainerLog, readLogTail } from "./container-log.ts";
import type { ContainerRun, PodRuntime, RunRequest } from "./pod-runtime.ts";
import { probeContainer } from "./probe-container.ts";
import { type ProcessCommand, runProcess, type RunningProcess, startBeside } from "./run-process.ts";
import { type ConfigReader, prepareContainer, readTerminationMessage } from "./start-container.ts";
import { makePodDirectory } from "./pod-directory.ts";

export type ProcessRuntimeOptions = {
  readonly now: () => number;
  readonly config: ConfigReader;
  readonly nodeDirectory: string;
  /** PATH of processes, after the directory of this node; undefined: a standard one. */
  readonly path: string | undefined;
};

/** Retry interval of a container with an incomplete configuration. */
const CONFIG_RETRY_MS = 10_000;

/** Runs the containers of one pod as local processes, below the node's directory. */
export function makeProcessRuntime(pod: V1Pod, options: ProcessRuntimeOptions): PodRuntime {
  const directory = makePodDirectory(options.nodeDirectory, pod.metadata?.uid ?? "");
  const logs = new Map<string, ContainerLog>();
  const logPath = (container: string, run: number): string => join(directory.logs, container, `${run}.log`);

  const follow = (request: RunRequest, command: ProcessCommand, process: RunningProcess): ContainerRun => {
    const { container, podIp } = request;
    const log = logs.get(container.name);
    return {
      startedAtMs: options.now(),
      signal: process.signal,
      ended: process.ended.then((exitCode) => ({
        exitCode,
        message: readTerminationMessage(container, directory, {
          exitCode,
          logText: () => (log === undefined ? Buffer.alloc(0) : readLogTail(log)),
        }),
      })),
      readiness: {
        by: "probe",
        ask: (probe, timeoutMs) => probeContainer(probe, { container, podIp, timeoutMs, ...command }),
      },
      exec: (given) => startBeside(command, given),
    };
  };

  return {
    start: async (request) => {
      const { container, run } = request;
      const prepared = await prepareContainer({ ...request, ...options, directory });
      if (!prepared.ready && !prepared.retry) return { is: "failed", message: prepared.message };
      if (!prepared.ready) {
        const retryAtMs = options.now() + CONFIG_RETRY_MS;
        return { is: "waiting", reason: "CreateContainerConfigError", message: prepared.message, retryAtMs };
      }
      rmSync(logPath(container.name, run - 2), { force: true });
      rmSync(`${logPath(container.name, run - 2)}.1`, { force: true });
      const log = openContainerLog(logPath(container.name, run), { now: options.now });
      logs.set(container.name, log);
      const started = await runProcess(prepared.command, log, options.nodeDirectory);
      if (!started.started) return { is: "failed", message: started.message };
      return { is: "running", run: follow(request, prepared.command, started.process) };
    },
    findLog: (container, run) => {
      const path = logPath(container, run);
      const open = logs.get(container);
      const source = open?.path === path ? open : existsSync(path) ? path : undefined;
      return source === undefined ? undefined : (request, signal) => readContainerLog(source, request, signal);
    },
    remove: () => rmSync(directory.root, { recursive: true, force: true }),
  };
}
