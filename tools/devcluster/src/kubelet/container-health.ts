import type { V1Container, V1Probe } from "@kubernetes/client-node";
import { ContainerProbe } from "./container-probe.ts";
import type { ContainerRun } from "./pod-runtime.ts";
import { runHook } from "./run-hook.ts";
import type { ContainerEvent } from "./transition-container.ts";

export type ContainerHealthDeps = {
  readonly now: () => number;
  readonly onError: (error: unknown) => void;
  /** Something became true of the run. */
  readonly onEvent: (event: ContainerEvent) => void;
  /** Records a warning about the run. */
  readonly warn: (reason: "Unhealthy" | "FailedPostStartHook", message: string) => void;
  /** The run has to end, and its restart policy says what comes next. */
  readonly doom: (graceSeconds: number | undefined) => void;
};

/** A hook that runs after the start has so long. */
const POST_START_TIMEOUT_MS = 600_000;

/**
 * Follows the health of one run: its hook after the start, then its startup probe, then readiness and liveness. Without any of them it is ready as soon
 * as it runs.
 */
export class ContainerHealth {
  readonly #container: V1Container;
  readonly #run: ContainerRun;
  readonly #deps: ContainerHealthDeps;
  #probes: readonly ContainerProbe[] = [];
  #isOver = false;

  constructor(container: V1Container, run: ContainerRun, deps: ContainerHealthDeps) {
    this.#container = container;
    this.#run = run;
    this.#deps = deps;
    const hook = container.lifecycle?.postStart;
    if (hook === undefined) this.#begin();
    else {
      runHook(hook, this.#ask, POST_START_TIMEOUT_MS)
        .then((succeeded) => {
          if (this.#isOver) return;
          if (succeeded) this.#begin();
          else {
            deps.warn("FailedPostStartHook", "PostStartHook failed");
            this.#end(undefined);
          }
        })
        .catch(deps.onError);
    }
  }

  tick(nowMs: number): void {
    for (const probe of this.#probes) probe.tick(nowMs);
  }

  /** The run has ended or has to: it is neither probed nor reported any more. */
  stop(): void {
    this.#isOver = true;
    this.#probes = [];
  }

  readonly #ask = (probe: V1Probe, timeoutMs: number): Promise<boolean> => {
    const { readiness } = this.#run;
    return readiness.by === "probe" ? readiness.ask(probe, timeoutMs) : Promise.resolve(true);
  };

  #begin(): void {
    const { readiness } = this.#run;
    const { startupProbe } = this.#container;
    if (readiness.by === "itself") {
      this.#report({ event: "started-up", started: true });
      this.#report({ event: "probed", ready: readiness.isReady });
      readiness.onReady(() => this.#report({ event: "probed", ready: true }));
    } else if (startupProbe === undefined) this.#started();
    else {
      this.#probes = [
        this.#probe("Startup", startupProbe, false, (holds) => {
          if (holds) this.#started();
          else this.#end(startupProbe.terminationGracePeriodSeconds);
        }),
      ];
    }
  }

  #started(): void {
    const { readinessProbe, livenessProbe } = this.#container;
    const probes: ContainerProbe[] = [];
    const reportReady = (ready: boolean): void => this.#report({ event: "probed", ready });
    this.#report({ event: "started-up", started: true });
    if (readinessProbe === undefined) reportReady(true);
    else probes.push(this.#probe("Readiness", readinessProbe, false, reportReady));
    if (livenessProbe !== undefined) {
      probes.push(
        this.#probe("Liveness", livenessProbe, true, (lives) => {
          if (!lives) this.#end(livenessProbe.terminationGracePeriodSeconds);
        }),
      );
    }
    this.#probes = probes;
  }

  #probe(kind: string, probe: V1Probe, initially: boolean, onChange: (holds: boolean) => void): ContainerProbe {
    const { now, onError, warn } = this.#deps;
    return new ContainerProbe(probe, {
      ask: this.#ask,
      initially,
      now,
      onError,
      onFailure: () => {
        if (!this.#isOver) warn("Unhealthy", `${kind} probe failed`);
      },
      onChange: (holds) => {
        if (!this.#isOver) onChange(holds);
      },
    });
  }

  #report(event: ContainerEvent): void {
    if (!this.#isOver) this.#deps.onEvent(event);
  }

  #end(graceSeconds: number | undefined): void {
    this.stop();
    this.#deps.doom(graceSeconds);
  }
}
