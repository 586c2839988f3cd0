import { readConfig as managerConfig } from "@muster/reservation-manager/config";
import { planGrants } from "@muster/reservation-manager/plan-grants";
import { getReservationId } from "@muster/reservation-manager/reservation";
import { readConfig as controllerConfig } from "@muster/session-controller/config";
import { planSession } from "@muster/session-controller/plan-session";
import type { SessionStep } from "@muster/session-controller/session-steps";
import { isFinished, type SessionRecord } from "@muster/session-controller/session";
import type { ReservationSeen, Snapshot } from "@muster/session-controller/snapshot";
import { readConfig as watcherConfig } from "@muster/watcher/config";
import { planPass } from "@muster/watcher/plan-pass";
import { makeLedgerWorld, type SystemSnapshot } from "./system-snapshot.ts";

/** The next step of one service. `because` is the reason of the decision. */
export type NextStep = { readonly who: string; readonly step: string; readonly because: string };

/** Plans the next steps of each service in this state of the system, with the default configuration. Has no side effects. */
export function planNext(snapshot: SystemSnapshot): NextStep[] {
  return [...planSessions(snapshot), ...planLedger(snapshot), ...planWatcher(snapshot)];
}

function planSessions(snapshot: SystemSnapshot): NextStep[] {
  const policy = controllerConfig({}).session;
  return snapshot.sessions
    .filter((record) => !isFinished(record))
    .flatMap((record) =>
      planSession(sessionSnapshot(snapshot, record), policy).map((step) => {
        return { who: `session ${record.name}`, step: describe(step), because: step.because };
      }),
    );
}

function sessionSnapshot(snapshot: SystemSnapshot, record: SessionRecord): Snapshot {
  const pods = snapshot.watcher.publishedPods.map(({ state }) => state);
  return {
    nowMs: snapshot.atMs,
    record,
    reservation: findReservation(snapshot, record.name),
    pods: pods.filter(({ owner }) => owner.kind === "session" && owner.id === record.name),
    livePods: record.verdict === undefined || record.podsDeleted ? undefined : (snapshot.livePods[record.name] ?? []),
    isReading: false,
    isProgressReported: false,
    obstacles: [],
    nodesLost: new Map(),
    nodesBack: new Set<string>(),
    heldMs: 0,
    replacements: new Map(),
    trouble: undefined,
  };
}

function findReservation({ reservations }: SystemSnapshot, session: string): ReservationSeen {
  const own = reservations.find(({ owner }) => owner.kind === "session" && owner.id === session);
  if (own === undefined) return { state: "unknown" };
  const id = getReservationId(own.sequence);
  if (own.grant === undefined) return { state: "waiting", id, because: undefined };
  return { state: "granted", id, machines: own.grant.machines };
}

function planLedger(snapshot: SystemSnapshot): NextStep[] {
  const { steps } = planGrants(makeLedgerWorld(snapshot), managerConfig({}).policy, snapshot.atMs);
  return steps.map(({ sequence, machines, because }) => ({
    who: "ledger",
    step: `grant ${getReservationId(sequence)} ${machines.map(({ node }) => node).join(", ")}`,
    because: `${because.code}, ahead ${because.ahead}`,
  }));
}

function planWatcher({ watcher }: SystemSnapshot): NextStep[] {
  const { pods, nodes, mark } = planPass(watcher, watcherConfig({}).policy);
  const steps = [...pods, ...nodes].map((step) => {
    return { who: "watcher", step: `${step.kind} ${step.key}`, because: step.because };
  });
  return mark === undefined
    ? steps
    : [...steps, { who: "watcher", step: "mark nodes as complete", because: mark.because }];
}

function describe(step: SessionStep): string {
  switch (step.kind) {
    case "create-pod":
      return `create-pod ${step.component.name} on ${step.node}`;
    case "delete-pod":
      return `delete-pod ${step.pod} ${step.uid}`;
    case "record":
      return `record ${step.event.kind}`;
    case "conclude":
      return `conclude ${step.verdict.kind} ${step.verdict.reason}`.trim();
    case "note-components":
      return `note-components ${step.components.map(({ name, state }) => `${name} ${state}`).join(", ")}`;
    default:
      return step.kind;
  }
}
