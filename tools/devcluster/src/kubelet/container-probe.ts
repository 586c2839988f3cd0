import type { V1Probe } from "@kubernetes/client-node";
import {
  isWarningDue,
  type ProbeState,
  type ProbeTiming,
  readProbeTiming,
  startProbe,
  transitionProbe,
} from "./transition-probe.ts";

export type ContainerProbeDeps = {
  readonly ask: (probe: V1Probe, timeoutMs: number) => Promise<boolean>;
  readonly now: () => number;
  readonly onChange: (holds: boolean) => void;
  /** Called for a failure that deserves a warning. */
  readonly onFailure: () => void;
  readonly onError: (error: unknown) => void;
};

/** Probes one run of one container, one request at a time, and reports each change of the result. */
export class ContainerProbe {
  readonly #probe: V1Probe;
  readonly #timing: ProbeTiming;
  readonly #deps: ContainerProbeDeps;
  #state: ProbeState;
  #isAsking = false;

  constructor(probe: V1Probe, deps: ContainerProbeDeps) {
    this.#probe = probe;
    this.#deps = deps;
    this.#timing = readProbeTiming(probe);
    this.#state = startProbe(this.#timing, deps.now());
  }

  /** Probes if the next probe is due. */
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
    const before = this.#state;
    this.#state = transitionProbe(before, { ok, atMs: this.#deps.now() }, this.#timing);
    if (!ok && isWarningDue(before, this.#timing)) this.#deps.onFailure();
    if (this.#state.ready !== before.ready) this.#deps.onChange(this.#state.ready);
  }
}
