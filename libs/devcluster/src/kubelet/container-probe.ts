import type { V1Probe } from "@kubernetes/client-node";
import { type ProbeState, type ProbeTiming, probeTiming, startProbe, transitionProbe } from "./transition-probe.ts";

export type ContainerProbeDeps = {
  readonly ask: (probe: V1Probe, timeoutMs: number) => Promise<boolean>;
  readonly now: () => number;
  readonly onReady: (ready: boolean) => void;
  readonly onError: (error: unknown) => void;
};

/** Asks one run of one container, one question at a time, and tells when its readiness changes. */
export class ContainerProbe {
  readonly #probe: V1Probe;
  readonly #timing: ProbeTiming;
  readonly #deps: ContainerProbeDeps;
  #state: ProbeState;
  #isAsking = false;

  constructor(probe: V1Probe, deps: ContainerProbeDeps) {
    this.#probe = probe;
    this.#deps = deps;
    this.#timing = probeTiming(probe);
    this.#state = startProbe(this.#timing, deps.now());
  }

  /** Time has passed: asks when it is time to. */
  tick(nowMs: number): void {
    if (this.#isAsking || nowMs < this.#state.nextAtMs) return;
    this.#isAsking = true;
    const { ask, onError } = this.#deps;
    ask(this.#probe, this.#timing.timeoutMs)
      .catch((error: unknown) => {
        onError(error);
        return false;
      })
      .then((ok) => this.#answered(ok))
      .catch(onError);
  }

  #answered(ok: boolean): void {
    this.#isAsking = false;
    const before = this.#state.ready;
    this.#state = transitionProbe(this.#state, { ok, atMs: this.#deps.now() }, this.#timing);
    if (this.#state.ready !== before) this.#deps.onReady(this.#state.ready);
  }
}
