import { listConditions, findOutcome, type Phase } from "../src/domain/session-phases.ts";
import type { ComponentStatus, Work } from "../src/domain/work.ts";

/** The time at which every session of a test was submitted. */
export const START_MS = Date.UTC(2026, 0, 1);

export function component(name: string, state: string, more: Partial<ComponentStatus> = {}): ComponentStatus {
  const none = { node: "", pod: "", podIp: "", message: "", exitCode: undefined };
  return { name, kind: name === "driver" ? "driver" : "server", pool: "workers", state, ...none, ...more };
}

/** Builds a session with one event per second, and these components. */
export function session(
  phases: readonly Phase[],
  components: readonly ComponentStatus[] = [],
  more: Partial<Work> = {},
): Work {
  return {
    kind: "session",
    name: "echo",
    uid: "u",
    revision: phases.length,
    spec: { components: [] },
    columns: { machines: components.length },
    owner: { kind: "session", id: "echo" },
    facts: [],
    conditions: listConditions(phases.map((phase) => ({ phase }))),
    outcome: findOutcome(phases.at(-1)),
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
