import { decideForce, type ForceReason } from "@muster/health";
import { decideVerdict } from "./decide-verdict.ts";
import { explainWait } from "./explain-wait.ts";
import {
  eventOf,
  isFinished,
  queuedUntilMs,
  type Component,
  type ComponentKind,
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

/** How a driver reaches a worker. */
export type WorkerAddress = { readonly name: string; readonly kind: ComponentKind; readonly ip: string };

/** Steps that only change the record. They are remembered together, before anything that follows from them is done. */
export type RecordStep =
  | {
      readonly do: "note-components";
      readonly components: readonly ComponentStatus[];
      readonly because: "pods-changed";
    }
  | { readonly do: "note-reservation"; readonly reservationId: string; readonly because: "ledger-answered" }
  | { readonly do: "explain-wait"; readonly text: string; readonly because: "wait-changed" }
  | {
      readonly do: "accept";
      readonly event: SessionEvent;
      readonly machines: readonly Machine[];
      readonly because: "machines-granted";
    }
  | {
      readonly do: "record";
      readonly event: SessionEvent;
      readonly because: "accepted" | "driver-ready" | "driver-ended";
    }
  | { readonly do: "conclude"; readonly verdict: Verdict; readonly because: EndReason | TerminalKind | "cannot-be-run" }
  | { readonly do: "confirm-pods-gone"; readonly because: "none-listed" }
  | {
      readonly do: "finish";
      readonly atMs: number;
      readonly warnings: readonly Warning[];
      readonly because: "cleaned-up" | "cleanup-limit";
    };

/** Steps that touch the world. Each may be done twice without harm. */
export type ActStep =
  | { readonly do: "reserve"; readonly because: "not-asked" }
  | {
      readonly do: "create-pod";
      readonly component: Component;
      readonly node: string;
      /** For the driver: the workers in the order in which it is told of them. */
      readonly workers: readonly WorkerAddress[];
      readonly because: "accepted" | "servers-ready" | "workers-ready";
    }
  | { readonly do: "collect-logs"; readonly pods: readonly LivePod[]; readonly because: "session-over" }
  | {
      readonly do: "delete-pod";
      readonly pod: string;
      readonly uid: string;
      /** Without its node's word. */
      readonly force: boolean;
      readonly because: "session-over" | "leftover" | ForceReason;
    }
  /** An empty id: the ledger is asked which reservation is this session's. */
  | { readonly do: "release"; readonly reservationId: string; readonly because: "pods-gone" };

export type SessionStep = RecordStep | ActStep;

/**
 * Decides the next steps of one session: reserve every machine, make servers, then clients, then the driver, each group once the one before it is ready, see how
 * it ends, then keep the logs, delete the pods, and give the machines back when the pods are gone. Plans nothing while there is nothing to do but wait.
 */
export function planSession(snapshot: Snapshot, policy: SessionPolicy): SessionStep[] {
  const { record } = snapshot;
  if (isFinished(record)) return [];
  return record.verdict === undefined ? planForward(snapshot) : planCleanup(snapshot, record.verdict, policy);
}

/**
 * The end of a session that cannot be run, for no reason that passes: a verdict first, so that the clean-up begins; should that fail in the same way, its terminal
 * event, after which the sweep removes what is left.
 */
export function planBroken(record: SessionRecord, reason: string, nowMs: number): RecordStep {
  if (record.verdict !== undefined) return planGivingUp({ record, livePods: undefined, trouble: reason, nowMs });
  const description = shorten(`the session cannot be run: ${reason}`);
  return {
    do: "conclude",
    verdict: { kind: "INTERNAL_ERROR", atMs: nowMs, reason: "", description },
    because: "cannot-be-run",
  };
}

/** When to look again though nothing has changed; undefined: no need to. */
export function wakeAtMs(snapshot: Snapshot, policy: SessionPolicy): number | undefined {
  const { record, reservation, nowMs } = snapshot;
  if (isFinished(record)) return undefined;
  if (record.verdict !== undefined) return nowMs + policy.lookAgainMs;
  const provision = eventOf(record, "PROVISION");
  const { timeoutMs } = record.spec;
  if (provision !== undefined) return timeoutMs === 0 ? undefined : provision.atMs + timeoutMs;
  return reservation.state === "unknown" ? nowMs : queuedUntilMs(record);
}

function planForward(snapshot: Snapshot): SessionStep[] {
  const { record, nowMs } = snapshot;
  const components = summariseComponents(record, snapshot.pods, listedUids(snapshot));
  const verdict = decideVerdict(snapshot, components);
  const notes = [...planReservationNote(snapshot), ...planNotes(record, components)];
  if (verdict !== undefined) {
    const ran = verdict.kind === "DONE" && eventOf(record, "RUN") === undefined;
    const run: RecordStep[] = ran
      ? [
          {
            do: "record",
            event: event("RUN", nowMs, "the driver ended before it was seen ready"),
            because: "driver-ended",
          },
        ]
      : [];
    return [...notes, ...run, { do: "conclude", verdict, because: verdict.reason || verdict.kind }];
  }
  const accepted = eventOf(record, "ACCEPT") !== undefined;
  return [
    ...notes,
    ...planExplanation(snapshot, components),
    ...(accepted ? planPods(snapshot, components) : planQueue(snapshot)),
  ];
}

function listedUids({ livePods }: Snapshot): ReadonlySet<string> | undefined {
  return livePods === undefined ? undefined : new Set(livePods.map(({ uid }) => uid));
}

/** Remembered before anything follows from it, so that exactly this reservation is given back and not that of a later session of the name. */
function planReservationNote({ record, reservation }: Snapshot): RecordStep[] {
  if (reservation.state !== "waiting" && reservation.state !== "granted") return [];
  if (eventOf(record, "ACCEPT") !== undefined || reservation.id === record.reservationId) return [];
  return [{ do: "note-reservation", reservationId: reservation.id, because: "ledger-answered" }];
}

function planNotes(record: SessionRecord, components: readonly ComponentStatus[]): RecordStep[] {
  const changed = components.some((component, index) => !sameStatus(component, record.components[index]));
  return changed ? [{ do: "note-components", components, because: "pods-changed" }] : [];
}

function planExplanation(snapshot: Snapshot, components: readonly ComponentStatus[]): RecordStep[] {
  const text = explainWait(snapshot, components);
  return text === snapshot.record.waitingBecause ? [] : [{ do: "explain-wait", text, because: "wait-changed" }];
}

function planQueue({ record, reservation, nowMs }: Snapshot): SessionStep[] {
  switch (reservation.state) {
    case "unknown":
      return [{ do: "reserve", because: "not-asked" }];
    case "granted": {
      const { machines } = reservation;
      const where = machines.map(({ component, node }) => `${component} on ${node}`).join(", ");
      const accepted = event("ACCEPT", nowMs, `taken by ${record.executor}: ${shorten(where)}`);
      return [
        { do: "accept", event: accepted, machines, because: "machines-granted" },
        {
          do: "record",
          event: event("PROVISION", nowMs, "making pods: servers, clients, driver"),
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
    if (missing.length > 0) return missing.map((component) => planCreate(snapshot, component, components, because));
    if (!group.every(isUsable)) return [];
  }
  if (eventOf(record, "RUN") !== undefined) return [];
  return [{ do: "record", event: event("RUN", nowMs, "every component is ready"), because: "driver-ready" }];
}

function planCreate(
  { record, obstacles }: Snapshot,
  status: ComponentStatus,
  components: readonly ComponentStatus[],
  because: (typeof GROUPS)[number]["because"],
): ActStep {
  const leftover = obstacles.find((obstacle) => obstacle.kind === "leftover" && obstacle.component === status.name);
  if (leftover?.kind === "leftover") {
    return { do: "delete-pod", pod: leftover.pod, uid: leftover.uid, force: false, because: "leftover" };
  }
  const component = record.spec.components.find(({ name }) => name === status.name);
  if (component === undefined) throw new Error(`component ${status.name} is not in the spec`);
  const workers = status.kind === "driver" ? addressesOf(components) : [];
  return { do: "create-pod", component, node: status.node, workers, because };
}

function addressesOf(components: readonly ComponentStatus[]): WorkerAddress[] {
  return (["server", "client"] as const).flatMap((kind) =>
    components.filter((component) => component.kind === kind).map(({ name, podIp }) => ({ name, kind, ip: podIp })),
  );
}

/** A worker that has ended well is not waited for: it will never be ready again, and only the driver can say what that means. */
function isUsable({ state, podIp }: ComponentStatus): boolean {
  return podIp !== "" && (state === "READY" || state === "SUCCEEDED");
}

function planCleanup(snapshot: Snapshot, verdict: Verdict, policy: SessionPolicy): SessionStep[] {
  const { record, livePods, nowMs, trouble } = snapshot;
  const late = nowMs - verdict.atMs >= policy.cleanupLimitMs + record.spec.killAfterMs;
  if (!record.logsCollected && livePods !== undefined) {
    return [{ do: "collect-logs", pods: livePods, because: "session-over" }];
  }
  if (!record.podsDeleted && livePods?.length === 0) return [{ do: "confirm-pods-gone", because: "none-listed" }];
  if (!record.podsDeleted) {
    const deletes = (livePods ?? []).flatMap((pod) => planDelete(pod, nowMs, policy));
    return late ? [...deletes, planGivingUp(snapshot)] : [...planExplanation(snapshot, record.components), ...deletes];
  }
  if (record.released) return [{ do: "finish", atMs: nowMs, warnings: [], because: "cleaned-up" }];
  return late && trouble !== undefined
    ? [planGivingUp(snapshot)]
    : [{ do: "release", reservationId: record.reservationId, because: "pods-gone" }];
}

function planDelete({ pod, uid, deleting, overdueOn }: LivePod, nowMs: number, policy: SessionPolicy): ActStep[] {
  if (!deleting) return [{ do: "delete-pod", pod, uid, force: false, because: "session-over" }];
  const because = decideForce(overdueOn, nowMs, policy);
  return because === undefined ? [] : [{ do: "delete-pod", pod, uid, force: true, because }];
}

/** The outcome is reported though the clean-up goes on; the sweep finishes it. */
function planGivingUp({
  record,
  livePods,
  trouble,
  nowMs,
}: Pick<Snapshot, "record" | "livePods" | "trouble" | "nowMs">): RecordStep {
  const warnings: Warning[] = [];
  const suffix = trouble === undefined ? "" : `: ${trouble}`;
  if (!record.logsCollected) {
    warnings.push({ code: "LOGS_LOST", message: shorten(`no log was kept${suffix}`) });
    const hadDriver = record.components.some(({ kind, podUid }) => kind === "driver" && podUid !== "");
    if (hadDriver) warnings.push({ code: "RESULT_LOST", message: shorten(`the driver's log was not read${suffix}`) });
  }
  if (!record.podsDeleted) {
    const names = livePods === undefined ? "which are left is not known" : livePods.map(({ pod }) => pod).join(", ");
    warnings.push({ code: "PODS_NOT_GONE", message: shorten(`not all pods are gone: ${names}${suffix}`) });
  } else if (!record.released) {
    warnings.push({ code: "NOT_RELEASED", message: shorten(`the machines are still held${suffix}`) });
  }
  return { do: "finish", atMs: nowMs, warnings, because: "cleanup-limit" };
}

function sameStatus(a: ComponentStatus, b: ComponentStatus | undefined): boolean {
  return (
    b !== undefined &&
    a.state === b.state &&
    a.podUid === b.podUid &&
    a.podIp === b.podIp &&
    a.node === b.node &&
    a.message === b.message &&
    a.exitCode === b.exitCode
  );
}

/** The part of its life that a session is in, as traces name it. */
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
