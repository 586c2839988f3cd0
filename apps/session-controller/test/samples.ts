import {
  buildRecord,
  type Component,
  type ComponentKind,
  type SessionRecord,
  type SessionSpec,
} from "../src/domain/session.ts";
import type { LivePod, SessionPolicy, Snapshot } from "../src/domain/snapshot.ts";
import { hasEnded, type PodSeen } from "../src/domain/summarise-components.ts";
import type { SessionDraft } from "../src/domain/validate-session.ts";

export const START_MS = Date.UTC(2026, 0, 1);

export const POLICY: SessionPolicy = {
  cleanupLimitMs: 120_000,
  lookAgainMs: 1000,
  nodeLostMs: 300_000,
  replacementWaitMs: 120_000,
};

export function makeComponent(name: string, kind: ComponentKind, more: Partial<Component> = {}): Component {
  const base = { image: "bench:1", command: [], args: [], env: [], workingDir: "", readyPort: 0 };
  return {
    name,
    kind,
    pool: kind === "driver" ? "drivers" : "workers",
    otherPools: [],
    ...base,
    templateJson: "",
    shared: false,
    ...more,
  };
}

export function makeSpec(more: Partial<SessionSpec> = {}): SessionSpec {
  return {
    // The declared order differs from the start order.
    components: [
      makeComponent("driver", "driver"),
      makeComponent("client-0", "client"),
      makeComponent("server-0", "server"),
    ],
    scenarioJson: '{"threads":2}',
    timeoutMs: 900_000,
    queueTimeoutMs: 86_400_000,
    ttlMs: 86_400_000,
    priority: 0,
    workerPort: 10_000,
    killAfterMs: 5000,
    queue: "",
    topology: "",
    ...more,
  };
}

export function makeDraft(more: Partial<SessionDraft> = {}): SessionDraft {
  return { ...makeSpec(), timeoutMs: 0, queueTimeoutMs: 0, ttlMs: 0, killAfterMs: 0, workerPort: 0, ...more };
}

export function makeRecord(more: Partial<SessionRecord> = {}, from: SessionSpec = makeSpec()): SessionRecord {
  const made = buildRecord({
    name: "bench",
    uid: "u-1",
    requestId: "r-1",
    spec: from,
    traceparent: "",
    nowMs: START_MS,
    waitingBecause: "",
  });
  return { ...made, epoch: 1, executor: "controller-a", ...more };
}

export function makeSnapshot(more: Partial<Snapshot> = {}): Snapshot {
  return {
    nowMs: START_MS,
    record: makeRecord(),
    reservation: { state: "unknown" },
    pods: [],
    livePods: undefined,
    isProgressReported: false,
    isReading: false,
    obstacles: [],
    nodesLost: new Map(),
    nodesBack: new Set<string>(),
    heldMs: 0,
    replacements: new Map(),
    trouble: undefined,
    ...more,
  };
}

export function makePodSeen(name: string, more: Partial<PodSeen> = {}): PodSeen {
  return {
    pod: `bench-${name}`,
    uid: `uid-${name}`,
    resourceVersion: 1,
    podIp: `10.0.0.${name.length}`,
    node: `node-${name}`,
    health: "READY",
    reason: "",
    message: "",
    deleted: false,
    exitCode: undefined,
    ...more,
  };
}

/** A pod as the API server lists it. */
export function makeLivePod(seen: PodSeen, more: Partial<LivePod> = {}): LivePod {
  const { pod, uid } = seen;
  return {
    pod,
    uid,
    deleting: false,
    seen,
    overdueOn: undefined,
    ended: hasEnded({ state: seen.health }),
    containers: ["main"],
    leftText: "",
    ...more,
  };
}

/** A session with granted machines, and pods for the named components. */
export function makeProvisioning(created: readonly string[], more: Partial<SessionRecord> = {}): SessionRecord {
  const base = makeRecord({ reservationId: "r-1" });
  return {
    ...base,
    events: [
      ...base.events,
      { kind: "ACCEPT", atMs: START_MS + 1, description: "taken", reason: "" },
      { kind: "PROVISION", atMs: START_MS + 1, description: "making pods", reason: "" },
    ],
    components: base.components.map((status) => ({
      ...status,
      node: `node-${status.name}`,
      ...(created.includes(status.name) ? { podUid: `uid-${status.name}`, state: "CREATED" as const } : {}),
    })),
    ...more,
  };
}

export function makeRunning(more: Partial<SessionRecord> = {}): SessionRecord {
  const base = makeProvisioning(["driver", "client-0", "server-0"]);
  return {
    ...base,
    events: [...base.events, { kind: "RUN", atMs: START_MS + 2, description: "ready", reason: "" }],
    components: base.components.map((status) => ({ ...status, state: "READY", podIp: `10.0.0.${status.name.length}` })),
    ...more,
  };
}
