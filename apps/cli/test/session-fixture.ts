import type { ComponentStatus, Phase, Session } from "../src/domain/session.ts";

/** When every session of a test was submitted. */
export const START_MS = Date.UTC(2026, 0, 1);

export function component(name: string, state: string, more: Partial<ComponentStatus> = {}): ComponentStatus {
  const none = { node: "", pod: "", podIp: "", message: "", exitCode: undefined };
  return { name, kind: name === "driver" ? "driver" : "server", pool: "workers", state, ...none, ...more };
}

/** A session with an event a second, and these components. */
export function session(
  phases: readonly Phase[],
  components: readonly ComponentStatus[] = [],
  more: Partial<Session> = {},
): Session {
  return {
    name: "echo",
    uid: "u",
    revision: phases.length,
    spec: {
      components: [],
      scenarioJson: undefined,
      timeoutMs: undefined,
      queueTimeoutMs: undefined,
      ttlMs: undefined,
      killAfterMs: undefined,
      priority: undefined,
      workerPort: undefined,
    },
    events: phases.map((phase, index) => ({ phase, atMs: START_MS + index * 1000, description: "", reason: "" })),
    components,
    resultJson: undefined,
    warnings: [],
    createdAtMs: START_MS,
    finishedAtMs: undefined,
    cancelRequested: false,
    traceparent: "",
    waitingBecause: "",
    ...more,
  };
}
