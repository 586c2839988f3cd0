import { setTimeout as sleep } from "node:timers/promises";
import type { V1Container, V1Pod } from "@kubernetes/client-node";
import { type ReconcileLoop, makeReconcileLoop } from "../reconcile-loop.ts";
import { HOST_IP } from "./build-node.ts";
import { buildPodStatus } from "./build-pod-status.ts";
import { ContainerHealth } from "./container-health.ts";
import type { FoundExec, FoundLog } from "./kubelet-server.ts";
import { decideEnding, planPod, type PodStep } from "./plan-pod.ts";
import type { PodAddresses } from "./pod-addresses.ts";
import type { ContainerRun, PodRuntime } from "./pod-runtime.ts";
import { type Ending, isTerminal, computePodPhase } from "./pod-phase.ts";
import { type ReporterDeps, type StatusReporter, makeStatusReporter } from "./report-status.ts";
import { runHook } from "./run-hook.ts";
import { seedContainers } from "./seed-containers.ts";
import {
  computeBackoffMs,
  type ContainerEvent,
  type ContainerRecord,
  transitionContainer,
} from "./transition-container.ts";

/** The dependencies of the worker of one pod. */
export type PodWorkerDeps = ReporterDeps & {
  readonly now: () => number;
  /** Returns the cached pod; undefined if the API server no longer has it. */
  readonly pod: () => V1Pod | undefined;
  /** Deletes only the pod with this uid, without grace. */
  readonly deletePod: () => Promise<void>;
  readonly runtime: PodRuntime;
  readonly addresses: Pick<PodAddresses, "allocate" | "release">;
  /** While true, the worker neither decides nor reports. */
  readonly isFrozen?: () => boolean;
  /** Returns whether an image cannot be pulled. */
  readonly isImageMissing: (image: string) => boolean;
  /** Records an event of a container. Never fails. */
  readonly record: (event: ContainerNews) => void;
  readonly onError: (error: unknown, doing: string) => void;
  /** Called once the pod and all of its data are gone. */
  readonly onDone: () => void;
};

/** Maximum time of a preStop hook, which also ends with the grace period. */
const PRE_STOP_TIMEOUT_MS = 600_000;

/** The content of a Kubernetes event. */
export type ContainerNews = {
  readonly type: "Normal" | "Warning";
  readonly reason:
    ("Pulling" | "Created" | "Started" | "Killing" | "BackOff" | "Unhealthy" | "Failed") | "FailedPreStopHook";
  readonly message: string;
  readonly container: string;
};

/** Owns the containers of one pod: starts and ends them as the API server says, and reports their status. */
export class PodWorker {
  readonly #deps: PodWorkerDeps;
  readonly #report: StatusReporter;
  readonly #loop: ReconcileLoop;
  readonly #startedAtMs: number;
  readonly #runs = new Map<string, ContainerRun>();
  readonly #health = new Map<string, ContainerHealth>();
  readonly #pullFailures = new Map<string, number>();
  /** The last failure to create each container, which is recorded once however often the creation is retried. */
  readonly #recordedFailures = new Map<string, string>();
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
    this.#containers = seedContainers(pod, nowMs);
    this.#startedAtMs = pod.status?.startTime === undefined ? nowMs : new Date(pod.status.startTime).getTime();
    this.#report = makeStatusReporter(deps);
    const name = `${pod.metadata?.namespace ?? ""}/${pod.metadata?.name ?? ""}`;
    this.#loop = makeReconcileLoop({
      pass: () => this.#pass(),
      onError: (error) => deps.onError(error, `syncing pod ${name}`),
    });
    this.poke();
  }

  /** Runs another pass, because something may have changed. */
  poke(): void {
    this.#loop.poke();
  }

  /** Does the steps that are due as time passes. */
  tick(nowMs: number): void {
    if (nowMs >= this.#dueAtMs) {
      this.#dueAtMs = Infinity;
      this.poke();
    }
    for (const health of this.#health.values()) health.tick(nowMs);
  }

  /** Finds the log of a container's present run, or of the previous one. */
  findLog(container: string, previous: boolean): FoundLog {
    const record = this.#containers.find((each) => each.name === container);
    const pod = this.#pod.metadata?.name ?? "";
    if (record === undefined) {
      return { found: false, status: 404, message: `container "${container}" in pod "${pod}" is not known` };
    }
    const read = this.#deps.runtime.findLog(container, record.runs - (previous ? 2 : 1));
    if (read !== undefined) return { found: true, read };
    const message = previous
      ? `previous terminated container "${container}" in pod "${pod}" not found`
      : `container "${container}" in pod "${pod}" is waiting to start${getReason(record)}`;
    return { found: false, status: 400, message };
  }

  /** Finds the means to run a command in a running container. */
  findExec(container: string): FoundExec {
    const run = this.#runs.get(container);
    if (run?.exec !== undefined) return { found: true, start: run.exec };
    return { found: false, status: 404, message: `container not found ("${container}")` };
  }

  /** Ends the processes without a report: the node stops, and its kubelet observes their end at its next start. */
  async stop(graceMs: number): Promise<void> {
    await this.#loop[Symbol.asyncDispose]();
    const running = [...this.#runs.values()];
    const ended = Promise.all(running.map((run) => run.ended));
    for (const run of running) run.signal("SIGTERM");
    const patience = new AbortController();
    await Promise.race([ended, sleep(graceMs, undefined, { signal: patience.signal }).catch(() => undefined)]);
    patience.abort();
    for (const run of running) run.signal("SIGKILL");
    await ended;
    this.#releaseAddress();
  }

  /** Stops decisions and reports, because the machine is lost. */
  async abandon(): Promise<void> {
    await this.#loop[Symbol.asyncDispose]();
    this.#releaseAddress();
  }

  async #pass(): Promise<void> {
    if (this.#deps.isFrozen?.() === true) return;
    const cached = this.#deps.pod();
    if (cached !== undefined) this.#pod = cached;
    const nowMs = this.#deps.now();
    const situation = { containers: this.#containers, startedAtMs: this.#startedAtMs, nowMs };
    this.#ending = decideEnding(cached, { ...situation, ending: this.#ending });
    const steps = planPod({ ...situation, pod: this.#pod, ending: this.#ending });
    const waits = steps.flatMap((step) => (step.kind === "wait" ? [step.untilMs] : []));
    this.#dueAtMs = Math.min(Infinity, ...waits);
    for (const step of steps) await this.#execute(step);

    if (cached !== undefined) await this.#report(cached, (pod) => this.#status(pod));
    if (steps.some((step) => step.kind === "delete") && !this.#isDeleteSent) {
      await this.#deps.deletePod();
      this.#isDeleteSent = true;
    }
    if (this.#runs.size === 0 && isTerminal(computePodPhase(this.#pod, this.#containers, this.#ending))) {
      this.#releaseAddress();
    }
    if (cached === undefined && this.#runs.size === 0) {
      this.#deps.runtime.remove();
      this.#deps.onDone();
    } else if (steps.some((step) => step.kind === "start" || step.kind === "hold")) {
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
    switch (step.kind) {
      case "start":
        return this.#start(step.container);
      case "hold":
        if (step.because === "image-pull") this.#holdPull(step);
        else this.#holdRestart(step);
        return;
      case "signal":
        this.#signal(step);
        return;
      case "wait":
      case "delete":
        // The pass has noted the time of a wait, and the removal follows the report.
        return;
    }
  }

  async #start(name: string): Promise<void> {
    const container = this.#containerSpec(name);
    const run = this.#containers.find((each) => each.name === name)?.runs ?? 0;
    const containerId = `process://${this.#pod.metadata?.uid ?? ""}/${name}/${run}`;
    this.#podIp ??= this.#pod.spec?.hostNetwork === true ? HOST_IP : this.#deps.addresses.allocate();
    if (this.#deps.isImageMissing(container.image ?? "")) {
      this.#failPull(container);
      return;
    }
    const outcome = await this.#deps.runtime.start({ pod: this.#pod, container, run, podIp: this.#podIp, containerId });
    switch (outcome.is) {
      case "waiting":
        if (outcome.message !== undefined && this.#recordedFailures.get(name) !== outcome.message) {
          this.#recordedFailures.set(name, outcome.message);
          this.#record(name, "Warning", "Failed", `Error: ${outcome.message}`);
        }
        this.#change(name, { event: "delayed", ...outcome });
        return;
      case "failed":
        this.#record(name, "Warning", "Failed", `Error: ${outcome.message}`);
        this.#end(name, { exitCode: 128, reason: "StartError", message: outcome.message, containerId });
        return;
      case "running":
        this.#record(
          name,
          "Normal",
          "Created",
          `Container created; this node pulls no images and ignores "${container.image ?? ""}"`,
        );
        this.#record(name, "Normal", "Started", "Container started");
        this.#follow(container, outcome.run, containerId);
    }
  }

  #follow(container: V1Container, run: ContainerRun, containerId: string): void {
    const { name } = container;
    const { startedAtMs } = run;
    this.#runs.set(name, run);
    this.#change(name, { event: "started", atMs: startedAtMs, containerId });
    this.#watch(container, run, containerId);
    run.ended
      .then(({ exitCode, message }) => {
        this.#end(name, {
          exitCode,
          reason: exitCode === 0 ? "Completed" : "Error",
          message,
          containerId,
          startedAtMs,
        });
      })
      .catch((error: unknown) => {
        this.#deps.onError(error, `ending ${containerId}`);
        const reason = "ContainerStatusUnknown";
        this.#end(name, { exitCode: 137, reason, message: undefined, containerId, startedAtMs });
      });
  }

  /** Reports immediately that the image cannot be pulled, then retries after a doubling pause. */
  #failPull({ name, image = "" }: V1Container): void {
    const failures = this.#pullFailures.get(name) ?? 0;
    this.#pullFailures.set(name, failures + 1);
    const message = `failed to pull and unpack image "${image}": failed to resolve reference "${image}": ${image}: not found`;
    this.#record(name, "Normal", "Pulling", `Pulling image "${image}"`);
    this.#record(name, "Warning", "Failed", `Failed to pull image "${image}": ${message}`);
    this.#record(name, "Warning", "Failed", "Error: ErrImagePull");
    const retryAtMs = this.#deps.now() + computeBackoffMs(failures + 1);
    this.#change(name, { event: "delayed", reason: "ErrImagePull", message, retryAtMs });
  }

  #holdPull({ container, untilMs }: { readonly container: string; readonly untilMs: number }): void {
    const { image = "" } = this.#containerSpec(container);
    const message = `Back-off pulling image "${image}"`;
    this.#record(container, "Normal", "BackOff", message);
    this.#change(container, { event: "delayed", reason: "ImagePullBackOff", message, retryAtMs: untilMs });
  }

  #holdRestart(step: { readonly container: string; readonly delayMs: number; readonly untilMs: number }): void {
    const { name = "", namespace = "", uid = "" } = this.#pod.metadata ?? {};
    const pod = `${name}_${namespace}(${uid})`;
    this.#record(
      step.container,
      "Warning",
      "BackOff",
      `Back-off restarting failed container ${step.container} in pod ${pod}`,
    );
    const message = `back-off ${step.delayMs / 1000}s restarting failed container=${step.container} pod=${pod}`;
    this.#change(step.container, { event: "held", message, untilMs: step.untilMs });
  }

  #record(container: string, type: ContainerNews["type"], reason: ContainerNews["reason"], message: string): void {
    this.#deps.record({ container, type, reason, message });
  }

  #watch(container: V1Container, run: ContainerRun, containerId: string): void {
    const { name } = container;
    const isPresent = (): boolean => this.#runs.get(name) === run;
    const health = new ContainerHealth(container, run, {
      now: this.#deps.now,
      onError: (error) => this.#deps.onError(error, `watching ${containerId}`),
      onReady: (ready) => {
        if (!isPresent()) return;
        this.#change(name, { event: "probed", ready });
        this.poke();
      },
      warn: (message) => this.#record(name, "Warning", "Unhealthy", message),
    });
    this.#health.set(name, health);
  }

  #signal(step: Extract<PodStep, { kind: "signal" }>): void {
    const { container: name, signal } = step;
    const run = this.#runs.get(name);
    this.#change(name, { event: "signalled", signal });
    if (signal === "SIGKILL") {
      run?.signal(signal);
      return;
    }
    this.#record(name, "Normal", "Killing", `Stopping container ${name}`);
    const hook = this.#containerSpec(name).lifecycle?.preStop;
    if (hook === undefined || run === undefined || run.readiness.by === "itself") {
      run?.signal(signal);
      return;
    }
    // The grace period continues during the hook: SIGKILL does not wait for it.
    runHook(hook, run.readiness.ask, PRE_STOP_TIMEOUT_MS)
      .then((succeeded) => {
        if (!succeeded) this.#record(name, "Warning", "FailedPreStopHook", "PreStopHook failed");
        if (this.#runs.get(name) === run) run.signal(signal);
      })
      .catch((error: unknown) => this.#deps.onError(error, `stopping ${name}`));
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
    this.#runs.delete(name);
    this.#health.get(name)?.stop();
    this.#health.delete(name);
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

  #releaseAddress(): void {
    if (this.#podIp !== undefined) this.#deps.addresses.release(this.#podIp);
    this.#podIp = undefined;
  }
}

function getReason({ state }: ContainerRecord): string {
  return state.is === "waiting" ? `: ${state.reason}` : "";
}
