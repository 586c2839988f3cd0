import type { WorkerAddress } from "./build-pod.ts";
import { decideVerdict } from "./decide-verdict.ts";
import { planExplanation, shortenText } from "./explain-wait.ts";
import { computeCleanupEndMs, planCleanup, planAbandonedCleanup } from "./plan-cleanup.ts";
import { planReplacements, replaceMachines, computeReplacementWakeAtMs } from "./replace-machines.ts";
import type { ActStep, RecordStep, SessionStep } from "./session-steps.ts";
import {
  findEvent,
  isFinished,
  isReplacing,
  computeQueuedUntilMs,
  type ComponentStatus,
  type EventKind,
  type SessionEvent,
  type ComponentKind,
  type SessionRecord,
  type SessionWarning,
} from "./session.ts";
import type { LoweredPriority, SessionPolicy, Snapshot } from "./snapshot.ts";
import { summariseComponents } from "./summarise-components.ts";

/**
 * Plans the next steps of one session: reserve every machine; create servers, clients and the driver, each group once the previous one is ready; wait for the
 * end; store the logs; delete the pods; release the machines after the removal of the pods. Plans nothing while it has to wait.
 */
export function planSession(snapshot: Snapshot, policy: SessionPolicy): SessionStep[] {
  const { record } = snapshot;
  if (isFinished(record)) return [];
  const steps =
    record.verdict === undefined ? planForward(snapshot, policy) : planCleanup(snapshot, record.verdict, policy);
  return [...steps, ...planQuiet(snapshot, steps)];
}

/** Time after which a running session is unlikely to crash its executor: a session that crashes it does so early. */
const SURVIVED_MS = 10_000;

/** Plans to confirm that the session does not crash its executor. A log read or the retry of a failure still may crash it. */
function planQuiet({ record, isReading, trouble, heldMs }: Snapshot, steps: readonly SessionStep[]): SessionStep[] {
  if (record.attempts === 0) return [];
  if (heldMs >= SURVIVED_MS) return [{ kind: "confirm-quiet", because: "survived" }];
  const isQuiet = steps.length === 0 && !isReading && trouble === undefined;
  return isQuiet ? [{ kind: "confirm-quiet", because: "nothing-to-do" }] : [];
}

/**
 * Ends a session that can never run. The first call decides a verdict, so that the clean-up begins. If the clean-up fails too, the session gets its terminal
 * event, and the sweep removes the rest.
 */
export function planBrokenSession(record: SessionRecord, reason: string, nowMs: number): RecordStep {
  if (record.verdict !== undefined)
    return planAbandonedCleanup({ record, livePods: undefined, trouble: reason, nowMs });
  const description = shortenText(`the session cannot be run: ${reason}`);
  return {
    kind: "conclude",
    verdict: { kind: "INTERNAL_ERROR", atMs: nowMs, reason: "", description },
    because: "cannot-be-run",
  };
}

/** Returns when the next pass is due if no event arrives; undefined: never. */
export function computeWakeAtMs(
  snapshot: Pick<Snapshot, "record" | "reservation" | "nowMs" | "isProgressReported">,
  policy: SessionPolicy,
): number | undefined {
  const { record, reservation, nowMs } = snapshot;
  if (isFinished(record)) return undefined;
  if (record.verdict !== undefined) {
    if (!snapshot.isProgressReported) return nowMs + policy.lookAgainMs;
    const lateAtMs = computeCleanupEndMs(record, record.verdict, policy);
    return lateAtMs > nowMs ? lateAtMs : undefined;
  }
  const provision = findEvent(record, "PROVISION");
  const { timeoutMs } = record.spec;
  if (provision !== undefined) {
    const endsAtMs = timeoutMs === 0 ? Infinity : provision.atMs + timeoutMs;
    const wakeMs = Math.min(endsAtMs, computeReplacementWakeAtMs(record, nowMs, policy) ?? Infinity);
    return wakeMs === Infinity ? undefined : wakeMs;
  }
  return reservation.state === "unknown" ? nowMs : computeQueuedUntilMs(record);
}

function planForward(snapshot: Snapshot, policy: SessionPolicy): SessionStep[] {
  const { record, nowMs } = snapshot;
  const listed = snapshot.livePods?.map(({ seen }) => seen);
  const components = replaceMachines(snapshot, summariseComponents(record, snapshot.pods, listed));
  const verdict = decideVerdict(snapshot, components, policy);
  const notes = [...planReservationNote(snapshot), ...planNotes(record, components)];
  if (verdict !== undefined) {
    const ran = verdict.kind === "DONE" && findEvent(record, "RUN") === undefined;
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
  const accepted = findEvent(record, "ACCEPT") !== undefined;
  const explanation = planExplanation(snapshot, components);
  // The next request may take as long as the last one, and a pass writes only at its end: write the explanation first.
  if (explanation.length > 0 && !accepted && snapshot.reservation.state === "unknown")
    return [...notes, ...explanation];
  return [
    ...notes,
    ...explanation,
    ...planReplacements(snapshot, policy),
    ...(accepted ? planPods(snapshot, components) : planQueue(snapshot)),
  ];
}

/** Plans to record the reservation id first, so that exactly this reservation is released, and not that of a later session with this name. */
function planReservationNote({ record, reservation }: Snapshot): RecordStep[] {
  if (reservation.state !== "waiting" && reservation.state !== "granted") return [];
  if (findEvent(record, "ACCEPT") !== undefined || reservation.id === record.reservationId) return [];
  const warnings = listPriorityWarnings(record, reservation.lowered);
  return [{ kind: "note-reservation", reservationId: reservation.id, warnings, because: "ledger-answered" }];
}

function listPriorityWarnings(
  { spec: { priority }, warnings }: SessionRecord,
  lowered: LoweredPriority | undefined,
): readonly SessionWarning[] {
  if (lowered === undefined || warnings.some(({ code }) => code === "PRIORITY_LOWERED")) return [];
  const { queue, maxPriority } = lowered;
  const message = `the priority ${priority} is lowered to ${maxPriority}, the maxPriority of the queue ${queue}`;
  return [{ code: "PRIORITY_LOWERED", message }];
}

function planNotes(record: SessionRecord, components: readonly ComponentStatus[]): RecordStep[] {
  const changed = components.some((component, index) => !sameStatus(component, record.components[index]));
  return changed ? [{ kind: "note-components", components, because: "pods-changed" }] : [];
}

/** Lists the kinds of the session's components in the order of their creation: `servers, clients, driver`. */
function listKinds({ spec: { components } }: SessionRecord): string {
  const has = (kind: ComponentKind): boolean => components.some((component) => component.kind === kind);
  return [has("server") ? "servers" : [], has("client") ? "clients" : [], "driver"].flat().join(", ");
}

function planQueue({ record, reservation, nowMs }: Snapshot): SessionStep[] {
  switch (reservation.state) {
    case "unknown":
      return [{ kind: "reserve", because: "not-asked" }];
    case "granted": {
      const { machines } = reservation;
      const where = machines.map(({ component, node }) => `${component} on ${node}`).join(", ");
      const accepted = event("ACCEPT", nowMs, `taken by ${record.executor}: ${shortenText(where)}`);
      return [
        { kind: "accept", event: accepted, machines, because: "machines-granted" },
        {
          kind: "record",
          event: event("PROVISION", nowMs, `creating pods: ${listKinds(record)}`),
          because: "accepted",
        },
      ];
    }
    case "unqueued":
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

/** Plans pods of the first incomplete group, or RUN once all are ready. */
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
  if (findEvent(record, "RUN") !== undefined) return [];
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
  return { kind: "create-pod", component, pool: status.pool, node: status.node, workers, because };
}

function addressesOf(components: readonly ComponentStatus[]): WorkerAddress[] {
  return (["server", "client"] as const).flatMap((kind) =>
    components.filter((component) => component.kind === kind).map(({ name, podIp }) => ({ name, kind, ip: podIp })),
  );
}

/**
 * Returns whether the component is usable by others. A worker that has succeeded is not awaited: it never becomes ready again, and only the driver decides the
 * outcome.
 */
function isUsable({ state, podIp }: ComponentStatus): boolean {
  return podIp !== "" && (state === "READY" || state === "SUCCEEDED");
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

/** Returns the name of the record's phase in traces. */
export function getRecordPhase(record: SessionRecord): "queue" | "provision" | "run" | "clean up" | "over" {
  if (isFinished(record)) return "over";
  if (record.verdict !== undefined) return "clean up";
  if (findEvent(record, "RUN") !== undefined) return "run";
  return findEvent(record, "ACCEPT") === undefined ? "queue" : "provision";
}

function event(kind: EventKind, atMs: number, description: string): SessionEvent {
  return { kind, atMs, description, reason: "" };
}
