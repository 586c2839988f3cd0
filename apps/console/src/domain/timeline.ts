import type { Job, JobEvent, Lease, LeaseEvent, ReplicaSet, Session } from "../adapters/messages.ts";
import { timeOf, workOfJob, type Stage } from "./work.ts";

export type Bar = {
  /** The subject of the bar: a phase, a pod, a node. */
  readonly label: string;
  readonly stage: Stage;
  readonly fromMs: number;
  /** The end of the bar; the current time if the bar has not ended. */
  readonly toMs: number;
  readonly isOver: boolean;
  readonly note: string;
  /** The step that the bar shows, if several bars have one label; undefined: the label names the step. */
  readonly what?: MemberStep;
};

/** The steps of a member of a job, or of a component of a session. */
export type MemberStep = "waiting" | "pulling" | "starting" | "running" | "ending";

/** Returns the phases of a session: each lasts until the next event. */
export function timelineOfSession({ events, createdAtMs }: Session, nowMs: number): readonly Bar[] {
  const stages: Readonly<Record<string, Stage>> = {
    QUEUE: "waiting",
    ACCEPT: "starting",
    PROVISION: "starting",
    RUN: "running",
    DONE: "succeeded",
    CANCELLED: "cancelled",
  };
  const points = events.map(({ kind = "QUEUE", atMs, description, reason }) => ({
    label: kind,
    stage: stages[kind] ?? "failed",
    atMs: atMs || createdAtMs,
    note: [reason, description].filter(Boolean).join(": "),
  }));
  return barsBetween(points, nowMs);
}

const END_OF_COMPONENT: Readonly<Record<string, Stage>> = { SUCCEEDED: "succeeded", FAILED: "failed" };

/**
 * Returns the components of a session, with one bar per step. The record has times of the whole session only: a component starts with the pods of the session,
 * and runs once every component is ready. Without a pod, or without a machine after the loss of one, it waits.
 */
export function timelineOfComponents(session: Session, nowMs: number): readonly Bar[] {
  const { components, createdAtMs, finishedAtMs } = session;
  const phases = timelineOfSession(session, nowMs);
  const since = (label: string): number | undefined => phases.find((each) => each.label === label)?.fromMs;
  const startedAtMs = since("PROVISION");
  const ranAtMs = since("RUN");
  const endMs = finishedAtMs || nowMs;
  return components.flatMap(({ name, state, message, node, lostAtMs }) => {
    const isMissing = state === "PENDING" && ranAtMs === undefined;
    const steps: readonly { readonly what: Exclude<MemberStep, "pulling">; readonly atMs: number | undefined }[] = [
      { what: "waiting", atMs: createdAtMs },
      { what: "starting", atMs: isMissing && lostAtMs === 0 ? undefined : startedAtMs },
      { what: "waiting", atMs: lostAtMs > 0 && node === "" ? lostAtMs : undefined },
      { what: "running", atMs: ranAtMs },
    ];
    const known = steps.flatMap(({ what, atMs }) => (atMs === undefined ? [] : [{ what, atMs }]));
    return known.map(({ what, atMs }, index): Bar => {
      const next = known[index + 1];
      const isLast = next === undefined;
      const stage: Stage = (isLast ? END_OF_COMPONENT[state] : undefined) ?? what;
      const toMs = Math.max(atMs, next?.atMs ?? endMs);
      const note = isLast ? [state, message].filter(Boolean).join(": ") : "";
      const isOver = !isLast || finishedAtMs > 0;
      return { label: name, stage, what, fromMs: atMs, toMs, isOver, note };
    });
  });
}

type Phase = { readonly label: string; readonly stage: Stage };

const PHASES = {
  queued: { label: "QUEUED", stage: "waiting" },
  starting: { label: "STARTING", stage: "starting" },
  running: { label: "RUNNING", stage: "running" },
  restarting: { label: "RESTARTING", stage: "starting" },
  preempted: { label: "PREEMPTED", stage: "waiting" },
  suspended: { label: "SUSPENDED", stage: "waiting" },
} as const satisfies Readonly<Record<string, Phase>>;

/** Maps an event of a job to the phase that it begins. Unlisted events begin no phase. */
const PHASE_OF_EVENT: Readonly<Record<string, Phase>> = {
  MachinesGranted: PHASES.starting,
  MembersWait: PHASES.starting,
  JobRunning: PHASES.running,
  JobRestarting: PHASES.restarting,
  MachineLost: PHASES.restarting,
  NeedsChanged: PHASES.restarting,
  Preempted: PHASES.preempted,
  ReadyTimeout: PHASES.queued,
  JobSuspended: PHASES.suspended,
  JobResumed: PHASES.queued,
};

/**
 * Returns the phases of a job. A condition has only the time of its last change, so a phase with events is placed by its events. Any other phase is placed by
 * its condition, because events expire.
 */
export function timelineOfJob(job: Job, events: readonly JobEvent[], nowMs: number): readonly Bar[] {
  const { state, key, createdAtMs, startedAtMs, finishedAtMs, conditions } = job;
  const since = (type: string): number =>
    conditions.find((each) => each.type === type && each.isTrue)?.lastTransitionMs ?? 0;
  const happened = events
    .filter(({ object }) => object === `${key?.kind}/${key?.name}`)
    .flatMap(({ reason, atMs }) => {
      const phase = PHASE_OF_EVENT[reason];
      return phase === undefined ? [] : [{ ...phase, atMs, note: "" }];
    });
  const lasting = [
    { ...PHASES.starting, atMs: startedAtMs || since("MachinesReserved") },
    { ...PHASES.running, atMs: since("Running") },
    { ...PHASES.restarting, atMs: since("Restarting") },
    { ...PHASES.preempted, atMs: since("Preempted") },
    { ...PHASES.suspended, atMs: since("Suspended") },
  ].filter(({ label }) => happened.every((each) => each.label !== label));
  const phases = [...happened, ...lasting.map((each) => ({ ...each, note: "" }))]
    .filter(({ atMs }) => atMs > 0 && (finishedAtMs === 0 || atMs <= finishedAtMs))
    .toSorted((one, other) => one.atMs - other.atMs);
  const first: Point = { ...PHASES.queued, atMs: createdAtMs, note: state === "QUEUED" ? job.waitingBecause : "" };
  const ended = workOfJob(job);
  const end: Point = { label: ended.state, stage: ended.stage, atMs: finishedAtMs, note: "" };
  const points = [first, ...phases, ...(finishedAtMs > 0 ? [end] : [])].reduce<readonly Point[]>((kept, point) => {
    const { label } = kept.at(-1) ?? {};
    // Members that waited for other members get their machines while the job runs.
    const isSame = label === point.label || (label === "RUNNING" && point.label === "STARTING");
    return isSame ? kept : [...kept, point];
  }, []);
  return barsBetween(points, nowMs);
}

/** Maps an event of a pod to the step that it begins. Unlisted events begin no step. */
const STEP_OF_EVENT: Readonly<Record<string, MemberStep>> = {
  Scheduled: "starting",
  Pulling: "pulling",
  Pulled: "starting",
  Created: "starting",
  Started: "running",
  Killing: "ending",
};

/** Returns the members of a job from the events of their pods, with one bar per step. A member without these events waits. */
export function timelineOfMembers(events: readonly JobEvent[], job: Job, nowMs: number): readonly Bar[] {
  const byObject = Map.groupBy(events, ({ object }) => object);
  const endMs = job.finishedAtMs || nowMs;
  return job.members.flatMap(({ component, pod, state }) => {
    // A removed pod had the name that its successor would have.
    const own = byObject.get(`Pod/${pod || `${job.key?.name}-${component.toLowerCase()}`}`) ?? [];
    const points = own
      .flatMap(({ reason, message, atMs }) => {
        const what = STEP_OF_EVENT[reason];
        return what === undefined ? [] : [{ what, atMs, note: `${reason}: ${message}` }];
      })
      .toSorted((one, other) => one.atMs - other.atMs);
    const steps = [{ what: "waiting" as MemberStep, atMs: job.createdAtMs, note: "" }, ...points];
    // The first of several events of one step counts.
    const changes = steps.filter(({ what }, index) => what !== steps[index - 1]?.what);
    return changes.flatMap(({ what, atMs, note }, index): Bar[] => {
      const next = changes[index + 1];
      const toMs = Math.max(atMs, next?.atMs ?? endMs);
      // Steps shorter than a second are not shown.
      if (next !== undefined && toMs === atMs) return [];
      const isOver = next !== undefined || job.finishedAtMs > 0;
      const stage = next === undefined && state === "FAILED" ? "failed" : what === "pulling" ? "starting" : what;
      return [{ label: component, stage, what, fromMs: atMs, toMs, isOver, note }];
    });
  });
}

/** Returns the nodes of a replica set, and a transfer in progress. */
export function timelineOfSet({ record, replicas }: ReplicaSet, nowMs: number): readonly Bar[] {
  const health = new Map(replicas.map(({ node, health: each }) => [node, each]));
  const places = (record?.placements ?? []).map(({ node, sinceMs }): Bar => {
    const stage = health.get(node) === "READY" ? "running" : health.get(node) === "FAILED" ? "failed" : "starting";
    return { label: node, stage, fromMs: sinceMs, toMs: nowMs, isOver: false, note: health.get(node) ?? "" };
  });
  const transfer = record?.transfer;
  if (!transfer) return places;
  const label = `${transfer.oldNode} to ${transfer.newNode || "?"}`;
  const { startedAtMs: fromMs, because: note } = transfer;
  return [...places, { label, stage: "starting", fromMs, toMs: nowMs, isOver: false, note }];
}

/** Returns the phases of a lease, from its history. */
export function timelineOfLease({ record }: Lease, history: readonly LeaseEvent[], nowMs: number): readonly Bar[] {
  const stages: Readonly<Record<string, Stage>> = {
    ORDERED: "waiting",
    DELAYED: "waiting",
    PROVISIONED: "running",
    TROUBLED: "failed",
    RESTORED: "running",
    ENDING: "ending",
    STUCK: "failed",
    DECOMMISSIONED: "succeeded",
    FAILED: "failed",
  };
  const points = history.flatMap(({ eventType, at, message }) => {
    const stage = stages[eventType];
    return stage === undefined ? [] : [{ label: eventType, stage, atMs: timeOf(at), note: message }];
  });
  const created = timeOf(record?.order?.created);
  const first = { label: "ORDERED", stage: "waiting", atMs: created, note: "" } as const;
  return barsBetween(points.length === 0 && created > 0 ? [first] : points, nowMs);
}

type Point = Pick<Bar, "label" | "stage" | "note"> & { readonly atMs: number };

/** Builds a bar from each point to the next one. The end of the work is a separate point without a duration. */
function barsBetween(points: readonly Point[], nowMs: number): readonly Bar[] {
  const ends: readonly Stage[] = ["succeeded", "failed", "cancelled"];
  return points.map(({ atMs, ...point }, index) => {
    const next = points[index + 1];
    const isEnd = next === undefined && ends.includes(point.stage);
    const toMs = isEnd ? atMs : Math.max(atMs, next?.atMs ?? nowMs);
    return { ...point, fromMs: atMs, toMs, isOver: isEnd || next !== undefined };
  });
}

/** Returns the position of a bar in percent; a bar without a duration stays visible. */
export function placeBar(bar: Bar, bars: readonly Bar[]): { readonly left: number; readonly width: number } {
  const from = Math.min(...bars.map(({ fromMs }) => fromMs));
  const span = Math.max(1, Math.max(...bars.map(({ toMs }) => toMs)) - from);
  const left = ((bar.fromMs - from) / span) * 100;
  const width = Math.max(0.5, ((bar.toMs - bar.fromMs) / span) * 100);
  return { left: Math.min(left, 99.5), width: Math.min(width, 100 - Math.min(left, 99.5)) };
}
