import type { V1Container, V1Probe } from "@kubernetes/client-node";
import { ContainerProbe } from "./container-probe.ts";
import type { ContainerRun } from "./pod-runtime.ts";

export type ContainerHealthDeps = {
  readonly now: () => number;
  readonly onError: (error: unknown) => void;
  readonly onReady: (ready: boolean) => void;
  /** Records a failure of the probe. */
  readonly warn: (message: string) => void;
};

/** Tracks the readiness of one run. Without a readiness probe it is ready as soon as it runs. */
export class ContainerHealth {
  #probe: ContainerProbe | undefined;
  #isOver = false;

  constructor({ readinessProbe }: V1Container, { readiness }: ContainerRun, deps: ContainerHealthDeps) {
    const report = (ready: boolean): void => {
      if (!this.#isOver) deps.onReady(ready);
    };
    if (readiness.by === "itself") {
      report(readiness.isReady);
      readiness.onReady(() => report(true));
    } else if (readinessProbe === undefined) report(true);
    else {
      this.#probe = new ContainerProbe(readinessProbe, {
        ask: (probe: V1Probe, timeoutMs: number) => readiness.ask(probe, timeoutMs),
        now: deps.now,
        onError: deps.onError,
        onFailure: () => {
          if (!this.#isOver) deps.warn("Readiness probe failed");
        },
        onChange: report,
      });
    }
  }

  tick(nowMs: number): void {
    this.#probe?.tick(nowMs);
  }

  /** Stops probes and reports after the end of the run. */
  stop(): void {
    this.#isOver = true;
    this.#probe = undefined;
  }
}
