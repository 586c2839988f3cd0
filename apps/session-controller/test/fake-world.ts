import { FaultError } from "@muster/faults";
import type { CrowdedComponent } from "@muster/resources";
import type { Logger } from "@muster/service";
import { ROOT_CONTEXT } from "@opentelemetry/api";
import { buildRecord, buildPodName, type SessionRecord, type SessionSpec } from "../src/domain/session.ts";
import type { LivePod } from "../src/domain/snapshot.ts";
import { hasEnded, type PodSeen } from "../src/domain/summarise-components.ts";
import { transitionCancel } from "../src/domain/transition-record.ts";
import type { StepResult, RunEnd, SessionDeps, StoredSession } from "../src/session-deps.ts";
import { makeLivePod, makeSpec as sampleSpec, START_MS } from "./samples.ts";

/** Thrown at the point where a process dies. */
export class Killed extends Error {}

export const silent: Logger = {
  debug: () => undefined,
  info: () => undefined,
  warn: () => undefined,
  error: () => undefined,
  child: () => silent,
};

type FakePod = PodSeen & { alive: boolean; deleting: boolean };

export type Hint = "record" | "pods" | "granted";

/** A store, a ledger and a cluster that answer immediately; `behave` decides the states of the pods. */
export function makeFakeWorld(
  options: { spec?: SessionSpec; behave?: (component: string) => Partial<PodSeen>; maxRestMs?: number } = {},
) {
  const { spec = sampleSpec(), behave = succeedDriver, maxRestMs = Infinity } = options;
  const made: string[] = [];
  const listeners = new Set<(hint: Hint) => void>();
  const hint = (which: Hint): void => {
    for (const hear of listeners) hear(which);
  };
  const first = buildRecord({
    name: "bench",
    uid: "u-1",
    requestId: "r",
    spec,
    traceparent: "",
    nowMs: START_MS,
    waitingBecause: "",
  });
  let stored: StoredSession = { record: first, revision: 1 };
  const pods = new Map<string, FakePod>();
  const calls: string[] = [];
  const left: RunEnd[] = [];
  const tokens = new Map<string, number>();
  let lastToken = 0;
  const nextToken = (): number => (lastToken += 1);
  /** Each executor leads under its own token, in sequence. */
  const tokenOf = (executor: string): number => tokens.get(executor) ?? (tokens.set(executor, nextToken()), lastToken);
  const stoodDown: string[] = [];
  const published = new Map<number, string>();
  const counted: string[] = [];
  const state = {
    nowMs: START_MS,
    monotonicMs: 0,
    held: false,
    dieAt: Infinity,
    failing: new Set<string>(),
    /** Executors that have lost the lead. */
    deposed: new Set<string>(),
    grant: true,
    /** The published states are current. */
    podsFresh: true,
    /** The machines that foreign pods crowd out; found only where the session asks for the machine. */
    crowded: [] as readonly CrowdedComponent[],
  };

  /** A process can die at each call twice: before its effect, and after it. */
  const at = async <Result>(name: string, work: () => Result): Promise<Result> => {
    await Promise.resolve();
    if (calls.length === state.dieAt) throw new Killed(`before ${name}`);
    calls.push(name);
    if (state.failing.has(name)) {
      throw new FaultError({ code: "unavailable", dependency: name, retryAfterMs: 0 });
    }
    const result = work();
    if (calls.length === state.dieAt) throw new Killed(`after ${name}`);
    calls.push(`${name} done`);
    return result;
  };

  const write = (record: SessionRecord, revision: number): number => {
    if (revision !== stored.revision) {
      throw new FaultError({
        code: "conflict",
        id: record.name,
        expectedRevision: revision,
        actualRevision: stored.revision,
      });
    }
    stored = { record, revision: revision + 1 };
    hint("record");
    return stored.revision;
  };

  const create = (component: string, node: string): StepResult => {
    const name = buildPodName("bench", component);
    const there = pods.get(name);
    const uid = there?.uid ?? `uid-${component}-${pods.size}`;
    if (there === undefined) {
      made.push(name);
      const seen = {
        pod: name,
        uid,
        resourceVersion: 1,
        podIp: `10.0.0.${pods.size + 1}`,
        node,
        health: "READY" as const,
      };
      const rest = { reason: "", message: "", deleted: false, exitCode: undefined };
      pods.set(name, { ...seen, ...rest, ...behave(component), alive: true, deleting: false });
      hint("pods");
    }
    return { kind: "outcome", outcome: { kind: "pod-created", component, uid, node: there?.node ?? node } };
  };

  const deps = (executor: string): Omit<SessionDeps, "wake"> => ({
    now: () => state.nowMs,
    monotonicMs: () => state.monotonicMs,
    executor,
    token: tokenOf(executor),
    isHeld: () => !state.deposed.has(executor),
    standDown: () => void stoodDown.push(executor),
    logger: silent,
    load: () => at("load", () => stored),
    save: (record, revision) => at("save", () => write(record, revision)),
    newestRevision: () => stored.revision,
    // Watchers publish the removal of a pod before the API server stops listing it.
    pods: () => [...pods.values()].map((pod) => ({ ...pod, deleted: pod.deleting })),
    podsFresh: () => state.podsFresh,
    nodesLost: () => new Map(),
    nodesUsable: (names) => new Set(names),
    crowding: (_uid, places) =>
      state.crowded.filter((each) =>
        places.some(({ component, node }) => component === each.component && node === each.node),
      ),
    listPods: () =>
      at("list", () => {
        // A deleted pod disappears after one more list.
        const live: LivePod[] = [...pods.values()].flatMap(({ alive, deleting, ...seen }) => {
          return alive ? [makeLivePod(seen, { deleting })] : [];
        });
        for (const pod of pods.values()) if (pod.deleting) pods.set(pod.pod, { ...pod, alive: false });
        return live;
      }),
    act: (record, step) =>
      at(step.kind, (): StepResult => {
        switch (step.kind) {
          case "reserve": {
            if (!state.grant)
              return { kind: "reservation", reservation: { state: "waiting", id: "r-1", because: undefined } };
            state.held = true;
            const machines = spec.components.map(({ name, pool }) => ({ component: name, pool, node: `node-${name}` }));
            return { kind: "reservation", reservation: { state: "granted", id: "r-1", machines } };
          }
          case "create-pod":
            if (!state.held) throw new Error("a pod is made without machines");
            return create(step.component.name, step.node);
          case "delete-pod": {
            const pod = pods.get(step.pod);
            if (pod !== undefined) pods.set(step.pod, { ...pod, deleting: true });
            return { kind: "nothing" };
          }
          case "release":
            if ([...pods.values()].some((pod) => pod.alive && !hasEnded({ state: pod.health })))
              throw new Error("released while a pod runs");
            // Without an id, the ledger finds the session's reservation by name.
            if (step.reservationId !== record.reservationId || !["", "r-1"].includes(step.reservationId))
              throw new Error("another's is released");
            state.held = false;
            return { kind: "outcome", outcome: { kind: "released" } };
          // The pool has no second machine.
          case "reserve-replacement":
            return {
              kind: "replacement",
              component: step.component,
              reservation: { state: "waiting", id: "r-2", because: undefined },
            };
          case "release-replacement":
            return { kind: "replacement", component: step.component, reservation: { state: "released" } };
        }
      }),
    announce: (record, from, newFrom) =>
      at("announce", () => {
        for (const [index, event] of record.events.entries()) if (index >= from) published.set(index, event.kind);
        counted.push(...record.events.slice(Math.max(from, newFrom)).map(({ kind }) => kind));
      }),
    collectLogs: (_record, { pods: read }, onRead) =>
      at("collect-logs", () => {
        for (const { pod } of read) {
          onRead({
            kind: "logs-read",
            pod,
            warnings: [],
            resultJson: pod === buildPodName("bench", "driver") ? '{"qps":1}' : undefined,
          });
        }
      }),
    left: (_name, end) => void left.push(end),
    span: (_record, phase) => ({ name: phase, parent: ROOT_CONTEXT, attributes: {} }),
  });

  return {
    deps,
    state,
    calls,
    pods,
    /** Names of the created pods, in order. */
    made,
    published,
    /** Events that the metrics of an executor counted. */
    counted,
    /** The end of each run, in order. */
    left,
    hint,
    /** Subscribes to hints; the returned function ends the subscription. */
    onHint: (hear: (hint: Hint) => void) => {
      listeners.add(hear);
      return () => listeners.delete(hear);
    },
    /** The longest requested pause between two passes. */
    maxRestMs,
    /** Writes the record as another writer. */
    write: (record: SessionRecord) => write(record, stored.revision),
    record: () => stored.record,
    stoodDown,
    cancel: () => write(transitionCancel(stored.record, state.nowMs), stored.revision),
    takeAway: (more: Partial<SessionRecord> = {}) =>
      write({ ...stored.record, epoch: nextToken(), executor: "another", ...more }, stored.revision),
  };
}

function succeedDriver(component: string): Partial<PodSeen> {
  return component === "driver" ? { health: "SUCCEEDED", exitCode: 0 } : {};
}
