import type { V1Container } from "@kubernetes/client-node";
import { buildCommand, buildEnvironment } from "../kubelet/build-environment.ts";
import { HOST_IP } from "../kubelet/build-node.ts";
import type { PodRuntime, RunOutcome, RunRequest } from "../kubelet/pod-runtime.ts";
import { readScript } from "./read-script.ts";
import { SimulatedRun } from "./simulated-run.ts";

const PULL_AGAIN_MS = 10_000;

/** The runs of one machine. They continue without its kubelet. */
export type SimulatedMachine = { readonly runs: Set<SimulatedRun> };

export type SimulatedRuntime = PodRuntime & {
  /** Ends every running container as if by itself. Returns whether one ran. */
  finish(exitCode: number): boolean;
};

export function tickMachine(machine: SimulatedMachine, nowMs: number): void {
  for (const run of machine.runs) {
    run.tick(nowMs);
    if (run.isOver()) machine.runs.delete(run);
  }
}

/** Simulates the containers of one pod without processes. Keeps the logs of the present run and the previous one in memory. */
export function makeSimulatedRuntime(machine: SimulatedMachine, now: () => number): SimulatedRuntime {
  const runs = new Map<string, SimulatedRun>();
  const createdAtMs = new Map<string, number>();
  return {
    start: (request) => {
      const key = `${request.container.name}/${request.run}`;
      const found = readScript(buildShellCommand(request));
      if (!found.read) return Promise.resolve({ is: "failed", message: found.message });
      const { script } = found;
      if (script.imageMissing) return Promise.resolve(pullFailed(request, now()));
      const begunAtMs = createdAtMs.get(key) ?? now();
      createdAtMs.set(key, begunAtMs);
      if (now() < begunAtMs + script.startMs) {
        return Promise.resolve({ is: "waiting", reason: "ContainerCreating", retryAtMs: begunAtMs + script.startMs });
      }
      createdAtMs.delete(key);
      const run = new SimulatedRun(script, now());
      machine.runs.add(run);
      runs.set(key, run);
      runs.delete(`${request.container.name}/${request.run - 2}`);
      return Promise.resolve({ is: "running", run: run.asContainerRun(now) });
    },
    findLog: (container, run) => {
      const found = runs.get(`${container}/${run}`);
      return found === undefined ? undefined : (request, signal) => found.readLog(request, signal);
    },
    finish: (exitCode) => {
      const running = [...runs.values()].filter((run) => !run.isOver());
      for (const run of running) run.finish(exitCode, now());
      return running.length > 0;
    },
    remove: () => {
      for (const run of runs.values()) machine.runs.delete(run);
      runs.clear();
    },
  };
}

/** The message of a kubelet in the back-off between two pulls of an image. */
function pullFailed({ container }: RunRequest, nowMs: number): RunOutcome {
  const message = `Back-off pulling image "${container.image ?? ""}"`;
  return { is: "waiting", reason: "ImagePullBackOff", message, retryAtMs: nowMs + PULL_AGAIN_MS };
}

/** Replaces the variables that are known without a call to the API server. */
function buildShellCommand({ pod, container, podIp }: RunRequest): readonly string[] {
  const plain = [...(container.command ?? []), ...(container.args ?? [])];
  if (!plain.some((part) => part.includes("$"))) return plain;
  const known: V1Container = {
    ...container,
    envFrom: [],
    env: (container.env ?? []).filter(({ valueFrom }) => valueFrom === undefined || valueFrom.fieldRef !== undefined),
  };
  const none = new Map<string, never>();
  const sources = { pod, podIp, hostIp: HOST_IP, base: {}, configMaps: none, secrets: none };
  const built = buildEnvironment(known, sources);
  const command = buildCommand(container, built.built ? built.env : {});
  return command.built ? command.command : plain;
}
