import { decideForce, type ForceReason } from "@muster/health";
import type { WorkerAddress } from "./build-pod.ts";
import { decideVerdict } from "./decide-verdict.ts";
import { explainWait } from "./explain-wait.ts";
import { planReplacements, replaceMachines, replacementWakeAtMs, type ReplacementStep } from "./replace-machines.ts";
import {
  eventOf,
  isFinished,
  isReplacing,
  queuedUntilMs,
  type Component,
  type ComponentStatus,
  type EndReason,
  type EventKind,
  type SessionEvent,
  type SessionRecord,
  type TerminalKind,
  type Verdict,
  type Warning,
} from "./session.ts";
import type { LivePod, Machine, SessionPolicy, Snapshot } from "./snapshot.ts";
import { summariseComponents } from "./summarise-components.ts";

/** Steps that only change the record. They are written together, before any step that follows from them. */
export type RecordStep =
  | {
      readonly kind: "note-components";
      readonly components: readonly ComponentStatus[];
      readonly because: "pods-changed";
    }
  | { readonly kind: "note-reservation"; readonly reservationId: string; readonly because: "ledger-answered" }
  | { readonly kind: "explain-wait"; readonly text: string; readonly because: "wait-changed" }
  /** The executor that took the session over has survived everything there was to do. */
  | { readonly kind: "confirm-quiet"; readonly because: "nothing-to-do" | "survived" }
  | {
      readonly kind: "accept";
      readonly event: SessionEvent;
      readonly machines: readonly Machine[];
      readonly because: "machines-granted";
    }
  | {
      readonly kind: "record";
      readonly event: SessionEvent;
      readonly because: "accepted" | "driver-ready" | "driver-ended";
    }
  | {
      readonly kind: "conclude";
      readonly verdict: Verdict;
      readonly because: EndReason | TerminalKind | "cannot-be-run";
    }
  /** The pods that are no longer listed are gone with their logs, as the warnings record. */
  | { readonly kind: "confirm-logs-read"; readonly warnings: readonly Warning[]; readonly because: "none-left" }
  | { readonly kind: "confirm-pods-gone"; readonly because: "none-listed" }
  | {
      readonly kind: "finish";
      readonly atMs: number;
      readonly warnings: readonly Warning[];
      readonly because: "cleaned-up" | "cleanup-limit";
    };

/** Steps with external effects. Each may be repeated without harm. */
export type ActStep =
  | { readonly kind: "reserve"; readonly because: "not-asked" }
  | {
      readonly kind: "create-pod";
      readonly component: Component;
      readonly node: string;
      /** For the driver: the workers in the order in which it gets them. */
      readonly workers: readonly WorkerAddress[];
      readonly because: "accepted" | "servers-ready" | "workers-ready";
    }
  | { readonly kind: "collect-logs"; readonly pods: readonly LivePod[]; readonly because: "session-over" }
  | {
      readonly kind: "delete-pod";
      readonly pod: string;
      readonly uid: string;
      /** Without waiting for its node. */
      readonly force: boolean;
      readonly because: "session-over" | "leftover" | ForceReason;
    }
  /** An empty id: the ledger is asked for the session's reservation. */
  | { readonly kind: "release"; readonly reservationId: string; readonly because: "pods-gone" | "pods-ended" }
  | ReplacementStep;

export type SessionStep = RecordStep | ActStep;

/**
 * Plans the next steps of one session: reserve every machine, create servers, clients and the driver, each group once the one before is ready, wait for the
 * end, keep the logs, delete the pods, and release the machines once the pods are gone. Plans nothing while it has to wait.
 */
export function planSession(snapshot: Snapshot, policy: SessionPolicy): SessionStep[] {
  const { record } = snapshot;
  if (isFinished(record)) return [];
  const steps =
    record.verdict === undefined ? planForward(snapshot, policy) : planCleanup(snapshot, record.verdict, policy);
  return [...steps, ...planQuiet(snapshot, steps)];
}

/** A session that ends its executor does so early: after this time it has not. */
const SURVIVED_MS = 10_000;

/** Reading a log may still end the process, as may a retry of a failure. */
function planQuiet({ record, isReading, trouble, heldMs }: Snapshot, steps: readonly SessionStep[]): SessionStep[] {
  if (record.attempts === 0) return [];
  if (heldMs >= SURVIVED_MS) return [{ kind: "confirm-quiet", because: "survived" }];
  const isQuiet = steps.length === 0 && !isReading && trouble === undefined;
  return isQuiet ? [{ kind: "confirm-quiet", because: "nothing-to-do" }] : [];
}

/**
 * Ends a session that cannot be run, for a permanent reason: first a verdict, so that the clean-up begins; if that fails in the same way, its terminal event,
 * after which the sweep removes the rest.
 */
export function planBroken(record: SessionRecord, reason: string, nowMs: number): RecordStep {
  if (record.verdict !== undefined) return planGivingUp({ record, livePods: undefined, trouble: reason, nowMs });
  const description = shorten(`the session cannot be run: ${reason}`);
  return {
    kind: "conclude",
    verdict: { kind: "INTERNAL_ERROR", atMs: nowMs, reason: "", description },
    because: "cannot-be-run",
  };
}

/** When the next pass is due without any change; undefined: never. */
export function wakeAtMs(
  snapshot: Pick<Snapshot, "record" | "reservation" | "nowMs" | "isProgressReported">,
  policy: SessionPolicy,
): number | undefined {
  const { record, reservation, nowMs } = snapshot;
  if (isFinished(record)) return undefined;
  if (record.verdict !== undefined) {
    if (!snapshot.isProgressReported) return nowMs + policy.lookAgainMs;
    const lateAtMs = cleanupEndMs(record, record.verdict, policy);
    return lateAtMs > nowMs ? lateAtMs : undefined;
  }
  const provision = eventOf(record, "PROVISION");
  const { timeoutMs } = record.spec;
  if (provision !== undefined) {
    const endsAtMs = timeoutMs === 0 ? Infinity : provision.atMs + timeoutMs;
    const wakeMs = Math.min(endsAtMs, replacementWakeAtMs(record, nowMs, policy) ?? Infinity);
    return wakeMs === Infinity ? undefined : wakeMs;
  }
  return reservation.state === "unknown" ? nowMs : queuedUntilMs(record);
}

function planForward(snapshot: Snapshot, policy: SessionPolicy): SessionStep[] {
  const { record, nowMs } = snapshot;
  const listed = snapshot.livePods?.map(({ seen }) => seen);
  const components = replaceMachines(snapshot, summariseComponents(record, snapshot.pods, listed));
  const verdict = decideVerdict(snapshot, components, policy);
  const notes = [...planReservationNote(snapshot), ...planNotes(record, components)];
  if (verdict !== undefined) {
    const ran = verdict.kind === "DONE" && eventOf(record, "RUN") === undefined;
    const run: RecordStep[] = ran
      ? [
          {
            kind: "record",
            event: event("RUN", nowMs, "the driver ended before it was seen ready"),
            because: "driver-ended",
          },
        ]
      : [];
    return [...notes, ...run, { kind: "conclude", verdict, because: verdict.reason || verdict.kind }];
  }
  const accepted = eventOf(record, "ACCEPT") !== undefined;
  const explanation = planExplanation(snapshot, components);
  // The next request may take as long as the last one, and a pass writes at its end.
  if (explanation.length > 0 && !accepted && snapshot.reservation.state === "unknown")
    return [...notes, ...explanation];
  return [
    ...notes,
    ...explanation,
    ...planReplacements(snapshot, policy),
    ...(accepted ? planPods(snapshot, components) : planQueue(snapshot)),
  ];
}

/** Recorded before anything follows from it, so that exactly this reservation is released, and not that of a later session of the name. */
function planReservationNote({ record, reservation }: Snapshot): RecordStep[] {
  if (reservation.state !== "waiting" && reservation.state !== "granted") return [];
  if (eventOf(record, "ACCEPT") !== undefined || reservation.id === record.reservationId) return [];
  return [{ kind: "note-reservation", reservationId: reservation.id, because: "ledger-answered" }];
}

function planNotes(record: SessionRecord, components: readonly ComponentStatus[]): RecordStep[] {
  const changed = components.some((component, index) => !sameStatus(component, record.components[index]));
  return changed ? [{ kind: "note-components", components, because: "pods-changed" }] : [];
}

function planExplanation(snapshot: Snapshot, components: readonly ComponentStatus[]): RecordStep[] {
  const text = explainWait(snapshot, components);
  return text === snapshot.record.waitingBecause ? [] : [{ kind: "explain-wait", text, because: "wait-changed" }];
}

function planQueue({ record, reservation, nowMs }: Snapshot): SessionStep[] {
  switch (reservation.state) {
    case "unknown":
      return [{ kind: "reserve", because: "not-asked" }];
    case "granted": {
      const { machines } = reservation;
      const where = machines.map(({ component, node }) => `${component} on ${node}`).join(", ");
      const accepted = event("ACCEPT", nowMs, `taken by ${record.executor}: ${shorten(where)}`);
      return [
        { kind: "accept", event: accepted, machines, because: "machines-granted" },
        {
          kind: "record",
          event: event("PROVISION", nowMs, "creating pods: servers, clients, driver"),
          because: "accepted",
        },
      ];
    }
    case "waiting":
    case "refused":
      return [];
  }
}

const GROUPS = [
  { kind: "server", because: "accepted" },
  { kind: "client", because: "servers-ready" },
  { kind: "driver", because: "workers-ready" },
] as const;

/** Pods of the first group that is not complete, or RUN once all are ready. */
function planPods(snapshot: Snapshot, components: readonly ComponentStatus[]): SessionStep[] {
  const { record, nowMs } = snapshot;
  for (const { kind, because } of GROUPS) {
    const group = components.filter((component) => component.kind === kind);
    const missing = group.filter(({ podUid }) => podUid === "");
    if (missing.length > 0) {
      const placed = missing.filter((component) => !isReplacing(component));
      return placed.map((component) => planCreate(snapshot, component, components, because));
    }
    if (!group.every(isUsable)) return [];
  }
  if (eventOf(record, "RUN") !== undefined) return [];
  return [{ kind: "record", event: event("RUN", nowMs, "every component is ready"), because: "driver-ready" }];
}

function planCreate(
  { record, obstacles }: Snapshot,
  status: ComponentStatus,
  components: readonly ComponentStatus[],
  because: (typeof GROUPS)[number]["because"],
): ActStep {
  const leftover = obstacles.find((obstacle) => obstacle.kind === "leftover" && obstacle.component === status.name);
  if (leftover?.kind === "leftover") {
    return { kind: "delete-pod", pod: leftover.pod, uid: leftover.uid, force: false, because: "leftover" };
  }
  const component = record.spec.components.find(({ name }) => name === status.name);
  if (component === undefined) throw new Error(`component ${status.name} is not in the spec`);
  const workers = status.kind === "driver" ? addressesOf(components) : [];
  return { kind: "create-pod", component, node: status.node, workers, because };
}

function addressesOf(components: readonly ComponentStatus[]): WorkerAddress[] {
  return (["server", "client"] as const).flatMap((kind) =>
    components.filter((component) => component.kind === kind).map(({ name, podIp }) => ({ name, kind, ip: podIp })),
  );
}

/** A worker that has succeeded is not waited for: it will never be ready again, and only the driver decides what that means. */
function isUsable({ state, podIp }: ComponentStatus): boolean {
  return podIp !== "" && (state === "READY" || state === "SUCCEEDED");
}

function planCleanup(snapshot: Snapshot, verdict: Verdict, policy: SessionPolicy): SessionStep[] {
  const { record, livePods, nowMs, trouble } = snapshot;
  const late = nowMs >= cleanupEndMs(record, verdict, policy);
  if (!record.podsDeleted) {
    const logs = planLogs(snapshot);
    if (record.logsCollected && livePods?.length === 0) return [{ kind: "confirm-pods-gone", because: "none-listed" }];
    // The log of a pod on a lost node cannot be read; its slow deletion begins immediately.
    const isDue = ({ pod, seen }: LivePod): boolean =>
      record.logsCollected || record.logsRead.includes(pod) || snapshot.nodesLost.has(seen.node);
    const deletes = (livePods ?? []).filter(isDue).flatMap((pod) => planDelete(pod, nowMs, policy));
    if (late && logs.length === 0 && !snapshot.isReading) return [...deletes, planGivingUp(snapshot)];
    const explanation = isBriefWait(snapshot, verdict) ? [] : planExplanation(snapshot, record.components);
    return [...logs, ...explanation, ...deletes, ...planEarlyRelease(snapshot)];
  }
  const end = planEnd(record, nowMs);
  if (end !== undefined) return [end];
  return late && trouble !== undefined
    ? [planGivingUp(snapshot)]
    : [{ kind: "release", reservationId: record.reservationId, because: "pods-gone" }];
}

/** Most clean-ups are over before this: a write that names the remaining pods would be out of date immediately. */
const BRIEF_CLEANUP_MS = 2000;

function isBriefWait({ record, trouble, nowMs }: Snapshot, { atMs }: Verdict): boolean {
  return nowMs - atMs < BRIEF_CLEANUP_MS && trouble === undefined && record.waitingBecause === "";
}

/** From this moment on the clean-up takes too long. */
function cleanupEndMs({ spec }: SessionRecord, { atMs }: Verdict, { cleanupLimitMs }: SessionPolicy): number {
  return atMs + cleanupLimitMs + spec.killAfterMs;
}

/** The terminal event, once the clean-up is over. */
export function planEnd(record: SessionRecord, nowMs: number): RecordStep | undefined {
  const isOver = record.verdict !== undefined && record.podsDeleted && record.released && !isFinished(record);
  return isOver ? { kind: "finish", atMs: nowMs, warnings: [], because: "cleaned-up" } : undefined;
}

/** Plans to read the logs of listed pods; those of pods that are gone are lost. */
function planLogs({ record, livePods, isReading }: Snapshot): SessionStep[] {
  if (record.logsCollected || livePods === undefined || isReading) return [];
  const unread = livePods.filter(({ pod }) => !record.logsRead.includes(pod));
  if (unread.length > 0) return [{ kind: "collect-logs", pods: unread, because: "session-over" }];
  const gone = record.components.filter(({ pod, podUid }) => podUid !== "" && !record.logsRead.includes(pod));
  const results = gone.filter(({ kind }) => kind === "driver");
  const warnings: Warning[] = [
    ...results.map(
      () => ({ code: "RESULT_LOST", message: "the driver's pod was gone before its log was read" }) as const,
    ),
    ...gone.map(
      ({ pod }) => ({ code: "LOGS_LOST", message: `${pod}: the pod was gone before its log was kept` }) as const,
    ),
  ];
  return [{ kind: "confirm-logs-read", warnings, because: "none-left" }];
}

/** Releases the machines, and the place among the executors, of pods that have ended: those need only their logs. */
function planEarlyRelease({ record, livePods, isReading }: Snapshot): ActStep[] {
  const isSettled = livePods !== undefined && (livePods.length > 0 || isReading);
  const hasEnded = isSettled && livePods.every(({ ended }) => ended);
  if (record.released || !hasEnded) return [];
  return [{ kind: "release", reservationId: record.reservationId, because: "pods-ended" }];
}

function planDelete({ pod, uid, deleting, overdueOn }: LivePod, nowMs: number, policy: SessionPolicy): ActStep[] {
  if (!deleting) return [{ kind: "delete-pod", pod, uid, force: false, because: "session-over" }];
  const because = decideForce(overdueOn, nowMs, policy);
  return because === undefined ? [] : [{ kind: "delete-pod", pod, uid, force: true, because }];
}

/** Reports the outcome although the clean-up continues; the sweep finishes it. */
function planGivingUp({
  record,
  livePods,
  trouble,
  nowMs,
}: Pick<Snapshot, "record" | "livePods" | "trouble" | "nowMs">): RecordStep {
  const warnings: Warning[] = [];
  const suffix = trouble === undefined ? "" : `: ${trouble}`;
  if (!record.logsCollected) {
    const kept =
      record.logsRead.length === 0 ? "no log was kept" : `only logs of ${record.logsRead.join(", ")} were kept`;
    warnings.push({ code: "LOGS_LOST", message: shorten(`${kept}${suffix}`) });
    const driver = record.components.find(({ kind }) => kind === "driver");
    if (driver !== undefined && driver.podUid !== "" && !record.logsRead.includes(driver.pod))
      warnings.push({ code: "RESULT_LOST", message: shorten(`the driver's log was not read${suffix}`) });
  }
  if (!record.podsDeleted) {
    const names = livePods === undefined ? "which are left is not known" : livePods.map(({ pod }) => pod).join(", ");
    warnings.push({ code: "PODS_NOT_GONE", message: shorten(`not all pods are gone: ${names}${suffix}`) });
  } else if (!record.released) {
    warnings.push({ code: "NOT_RELEASED", message: shorten(`the machines are still held${suffix}`) });
  }
  return { kind: "finish", atMs: nowMs, warnings, because: "cleanup-limit" };
}

function sameStatus(a: ComponentStatus, b: ComponentStatus | undefined): boolean {
  return (
    b !== undefined &&
    a.state === b.state &&
    a.podUid === b.podUid &&
    a.podIp === b.podIp &&
    a.node === b.node &&
    a.message === b.message &&
    a.exitCode === b.exitCode &&
    a.lostAtMs === b.lostAtMs &&
    a.lostNode === b.lostNode
  );
}

/** The phase of a session's life that its traces name. */
export function phaseOf(record: SessionRecord): "queue" | "provision" | "run" | "clean up" | "over" {
  if (isFinished(record)) return "over";
  if (record.verdict !== undefined) return "clean up";
  if (eventOf(record, "RUN") !== undefined) return "run";
  return eventOf(record, "ACCEPT") === undefined ? "queue" : "provision";
}

function event(kind: EventKind, atMs: number, description: string): SessionEvent {
  return { kind, atMs, description, reason: "" };
}

function shorten(text: string): string {
  return text.length > 1024 ? `${text.slice(0, 1021)}...` : text;
}
