import { existsSync, rmSync } from "node:fs";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import type { V1Container, V1Pod } from "@kubernetes/client-node";
import { type ReconcileLoop, reconcileLoop } from "../reconcile-loop.ts";
import { HOST_IP } from "./build-node.ts";
import { buildPodStatus } from "./build-pod-status.ts";
import { type ContainerLog, openContainerLog, tailOfLog } from "./container-log.ts";
import { ContainerProbe } from "./container-probe.ts";
import type { FoundLog } from "./kubelet-server.ts";
import { decideEnding, planPod, type PodStep } from "./plan-pod.ts";
import type { PodAddresses } from "./pod-addresses.ts";
import { type Ending, isTerminal, podPhase } from "./pod-phase.ts";
import { type ReporterDeps, type StatusReporter, statusReporter } from "./report-status.ts";
import { runProcess, type RunningProcess } from "./run-process.ts";
import { seedContainers } from "./seed-containers.ts";
import {
  type ConfigReader,
  podDirectory,
  type PodDirectory,
  prepareContainer,
  terminationMessage,
} from "./start-container.ts";
import { type ContainerEvent, type ContainerRecord, transitionContainer } from "./transition-container.ts";

/** What the worker of one pod needs from outside. */
export type PodWorkerDeps = ReporterDeps & {
  readonly now: () => number;
  /** As the cache has it; undefined when the API server has that pod no more. */
  readonly pod: () => V1Pod | undefined;
  /** Without grace, and only the pod with this uid. */
  readonly deletePod: () => Promise<void>;
  readonly config: ConfigReader;
  readonly addresses: PodAddresses;
  readonly nodeDirectory: string;
  /** PATH for processes, after the directory of this node; a standard one when undefined. */
  readonly path: string | undefined;
  readonly onError: (error: unknown, doing: string) => void;
  /** The pod is gone and nothing of it is left. */
  readonly onDone: () => void;
};

/** A container whose configuration is incomplete is tried again this often. */
const CONFIG_RETRY_MS = 10_000;

/** Owns the processes of one pod: brings them to what the API server says, and tells the API server what they are. */
export class PodWorker {
  readonly #deps: PodWorkerDeps;
  readonly #directory: PodDirectory;
  readonly #report: StatusReporter;
  readonly #loop: ReconcileLoop;
  readonly #startedAtMs: number;
  readonly #processes = new Map<string, RunningProcess>();
  readonly #logs = new Map<string, ContainerLog>();
  readonly #probes = new Map<string, ContainerProbe>();
  #pod: V1Pod;
  #containers: ContainerRecord[];
  #ending: Ending | undefined;
  #podIp: string | undefined;
  #dueAtMs = Infinity;
  #isDeleteSent = false;

  constructor(pod: V1Pod, deps: PodWorkerDeps) {
    const nowMs = deps.now();
    this.#deps = deps;
    this.#pod = pod;
    this.#directory = podDirectory(deps.nodeDirectory, pod.metadata?.uid ?? "");
    this.#containers = seedContainers(pod, nowMs);
    this.#startedAtMs = pod.status?.startTime === undefined ? nowMs : new Date(pod.status.startTime).getTime();
    this.#report = statusReporter(deps);
    const name = `${pod.metadata?.namespace ?? ""}/${pod.metadata?.name ?? ""}`;
    this.#loop = reconcileLoop({
      pass: () => this.#pass(),
      onError: (error) => deps.onError(error, `syncing pod ${name}`),
    });
    this.poke();
  }

  /** Something may have changed: look again. */
  poke(): void {
    this.#loop.poke();
  }

  /** Time has passed: does what is due. */
  tick(nowMs: number): void {
    if (nowMs >= this.#dueAtMs) {
      this.#dueAtMs = Infinity;
      this.poke();
    }
    for (const probe of this.#probes.values()) probe.tick(nowMs);
  }

  /** The log of a container's present run, or of the one before it. */
  findLog(container: string, previous: boolean): FoundLog {
    const record = this.#containers.find((each) => each.name === container);
    const pod = this.#pod.metadata?.name ?? "";
    if (record === undefined) {
      return { found: false, status: 404, message: `container "${container}" in pod "${pod}" is not known` };
    }
    const run = record.runs - (previous ? 2 : 1);
    const path = this.#logPath(container, run);
    const open = this.#logs.get(container);
    if (open?.path === path) return { found: true, log: open };
    if (run >= 0 && existsSync(path)) return { found: true, log: path };
    const message = previous
      ? `previous terminated container "${container}" in pod "${pod}" not found`
      : `container "${container}" in pod "${pod}" is waiting to start${reasonOf(record)}`;
    return { found: false, status: 400, message };
  }

  /** Ends the processes and says nothing about it: the node stops, and the next life of its kubelet finds out. */
  async stop(graceMs: number): Promise<void> {
    await this.#loop[Symbol.asyncDispose]();
    const running = [...this.#processes.values()];
    const ended = Promise.all(running.map((process) => process.ended));
    for (const process of running) process.signal("SIGTERM");
    const patience = new AbortController();
    await Promise.race([ended, sleep(graceMs, undefined, { signal: patience.signal }).catch(() => undefined)]);
    patience.abort();
    for (const process of running) process.signal("SIGKILL");
    await ended;
    this.#releaseAddress();
  }

  async #pass(): Promise<void> {
    const cached = this.#deps.pod();
    if (cached !== undefined) this.#pod = cached;
    const nowMs = this.#deps.now();
    const situation = { containers: this.#containers, startedAtMs: this.#startedAtMs, nowMs };
    this.#ending = decideEnding(cached, { ...situation, ending: this.#ending });
    const steps = planPod({ ...situation, pod: this.#pod, ending: this.#ending });
    const waits = steps.flatMap((step) => (step.do === "wait" ? [step.untilMs] : []));
    this.#dueAtMs = Math.min(Infinity, ...waits);
    for (const step of steps) await this.#execute(step);

    if (cached !== undefined) await this.#report(cached, (pod) => this.#status(pod));
    if (steps.some((step) => step.do === "delete") && !this.#isDeleteSent) {
      await this.#deps.deletePod();
      this.#isDeleteSent = true;
    }
    if (this.#processes.size === 0 && isTerminal(podPhase(this.#pod, this.#containers, this.#ending))) {
      this.#releaseAddress();
    }
    if (cached === undefined && this.#processes.size === 0) {
      rmSync(this.#directory.root, { recursive: true, force: true });
      this.#deps.onDone();
    } else if (steps.some((step) => step.do === "start" || step.do === "hold")) {
      this.poke();
    }
  }

  #status(pod: V1Pod): ReturnType<typeof buildPodStatus> {
    return buildPodStatus({
      pod,
      containers: this.#containers,
      podIp: this.#podIp,
      hostIp: HOST_IP,
      startedAtMs: this.#startedAtMs,
      ending: this.#ending,
      nowMs: this.#deps.now(),
    });
  }

  async #execute(step: PodStep): Promise<void> {
    switch (step.do) {
      case "start":
        return this.#start(step.container);
      case "hold": {
        const { name = "", namespace = "", uid = "" } = this.#pod.metadata ?? {};
        const message = `back-off ${step.delayMs / 1000}s restarting failed container=${step.container} pod=${name}_${namespace}(${uid})`;
        this.#change(step.container, { event: "held", message, untilMs: step.untilMs });
        return;
      }
      case "signal":
        this.#processes.get(step.container)?.signal(step.signal);
        this.#change(step.container, { event: "signalled", signal: step.signal });
        return;
      case "wait":
      case "delete":
        // The one is a time that the pass has noted, the other follows the report.
        return;
    }
  }

  async #start(name: string): Promise<void> {
    const container = this.#containerSpec(name);
    const run = this.#containers.find((each) => each.name === name)?.runs ?? 0;
    const containerId = `process://${this.#pod.metadata?.uid ?? ""}/${name}/${run}`;
    this.#podIp ??= this.#pod.spec?.hostNetwork === true ? HOST_IP : this.#deps.addresses.allocate();
    const prepared = await prepareContainer({
      pod: this.#pod,
      container,
      podIp: this.#podIp,
      directory: this.#directory,
      config: this.#deps.config,
      path: this.#deps.path,
      containerId,
    });
    if (!prepared.ready) {
      const retryAtMs = this.#deps.now() + CONFIG_RETRY_MS;
      this.#change(name, { event: "config-error", message: prepared.message, retryAtMs });
      return;
    }
    rmSync(this.#logPath(name, run - 2), { force: true });
    rmSync(`${this.#logPath(name, run - 2)}.1`, { force: true });
    const log = openContainerLog(this.#logPath(name, run), { now: this.#deps.now });
    this.#logs.set(name, log);
    const startedAtMs = this.#deps.now();
    const started = await runProcess(prepared.command, log, this.#deps.nodeDirectory);
    if (!started.started) {
      this.#end(name, { exitCode: 128, reason: "StartError", message: started.message, containerId });
      return;
    }
    const { process } = started;
    this.#processes.set(name, process);
    this.#change(name, { event: "started", atMs: startedAtMs, containerId });
    this.#watch(container, { ...prepared.command, podIp: this.#podIp });
    process.ended
      .then((exitCode) => {
        const reason = exitCode === 0 ? "Completed" : "Error";
        const logText = (): Buffer => tailOfLog(log);
        const message = terminationMessage(container, this.#directory, { exitCode, logText });
        this.#end(name, { exitCode, reason, message, containerId, startedAtMs });
      })
      .catch((error: unknown) => {
        this.#deps.onError(error, `ending ${containerId}`);
        this.#end(name, {
          exitCode: 137,
          reason: "ContainerStatusUnknown",
          message: undefined,
          containerId,
          startedAtMs,
        });
      });
  }

  /** Without a probe a container is ready as soon as it runs. */
  #watch(
    container: V1Container,
    process: { env: Readonly<Record<string, string>>; workingDirectory: string; containerId: string; podIp: string },
  ): void {
    const { readinessProbe } = container;
    if (readinessProbe === undefined) {
      this.#change(container.name, { event: "probed", ready: true });
      return;
    }
    const probe = new ContainerProbe(readinessProbe, {
      target: { container, ...process },
      now: this.#deps.now,
      onError: (error) => this.#deps.onError(error, `probing ${process.containerId}`),
      onReady: (ready) => {
        if (this.#probes.get(container.name) !== probe) return;
        this.#change(container.name, { event: "probed", ready });
        this.poke();
      },
    });
    this.#probes.set(container.name, probe);
  }

  #end(
    name: string,
    run: {
      exitCode: number;
      reason: "Completed" | "Error" | "StartError" | "ContainerStatusUnknown";
      message: string | undefined;
      containerId: string;
      startedAtMs?: number;
    },
  ): void {
    this.#processes.delete(name);
    this.#probes.delete(name);
    const { startedAtMs } = run;
    this.#change(name, { event: "ended", run: { ...run, startedAtMs, finishedAtMs: this.#deps.now() } });
    this.poke();
  }

  #change(name: string, event: ContainerEvent): void {
    this.#containers = this.#containers.map((each) => (each.name === name ? transitionContainer(each, event) : each));
  }

  #containerSpec(name: string): V1Container {
    const { spec } = this.#pod;
    const found = [...(spec?.initContainers ?? []), ...(spec?.containers ?? [])].find((each) => each.name === name);
    if (found === undefined) throw new Error(`container ${name} is in no spec`);
    return found;
  }

  #logPath(container: string, run: number): string {
    return join(this.#directory.logs, container, `${run}.log`);
  }

  #releaseAddress(): void {
    if (this.#podIp !== undefined) this.#deps.addresses.release(this.#podIp);
    this.#podIp = undefined;
  }
}

function reasonOf({ state }: ContainerRecord): string {
  return state.is === "waiting" ? `: ${state.reason}` : "";
}
