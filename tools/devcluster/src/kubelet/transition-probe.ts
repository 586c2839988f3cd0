import type { V1Probe } from "@kubernetes/client-node";

/** The number of equal consecutive results of a probe, and the resulting state. */
export type ProbeState = {
  readonly ready: boolean;
  readonly successes: number;
  readonly failures: number;
  readonly nextAtMs: number;
};

export type ProbeTiming = {
  readonly periodMs: number;
  readonly timeoutMs: number;
  readonly initialDelayMs: number;
  readonly successThreshold: number;
  readonly failureThreshold: number;
};

/** The defaults of Kubernetes for fields that the probe does not set. */
export function readProbeTiming(probe: V1Probe): ProbeTiming {
  return {
    periodMs: (probe.periodSeconds ?? 10) * 1000,
    timeoutMs: (probe.timeoutSeconds ?? 1) * 1000,
    initialDelayMs: (probe.initialDelaySeconds ?? 0) * 1000,
    successThreshold: probe.successThreshold ?? 1,
    failureThreshold: probe.failureThreshold ?? 3,
  };
}

/** Returns the state of a newly started container: not ready, with the first probe after the initial delay. */
export function startProbe(timing: ProbeTiming, nowMs: number): ProbeState {
  return { ready: false, successes: 0, failures: 0, nextAtMs: nowMs + timing.initialDelayMs };
}

/** Applies one result. Readiness changes only after enough equal consecutive results. */
export function transitionProbe(
  state: ProbeState,
  answer: { ok: boolean; atMs: number },
  timing: ProbeTiming,
): ProbeState {
  const successes = answer.ok ? state.successes + 1 : 0;
  const failures = answer.ok ? 0 : state.failures + 1;
  const turned = answer.ok ? successes >= timing.successThreshold : failures >= timing.failureThreshold;
  return {
    ready: turned ? answer.ok : state.ready,
    successes,
    failures,
    nextAtMs: answer.atMs + timing.periodMs,
  };
}

/** Returns whether a failure is due as a warning: the first after a success, or the one that reaches the threshold in a starting container. */
export function isWarningDue({ ready, failures }: ProbeState, { failureThreshold }: ProbeTiming): boolean {
  return failures === (ready ? 0 : failureThreshold - 1);
}
