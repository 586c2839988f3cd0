import type { Job, JobEvent, Lease, LeaseEvent, ReplicaSet, Session } from "../adapters/messages.ts";
import { timeOf, type Stage } from "./work.ts";

export type Bar = {
  /** The subject of the bar: a phase, a pod, a node. */
  readonly label: string;
  readonly stage: Stage;
  readonly fromMs: number;
  /** The present moment if the bar is not over. */
  readonly toMs: number;
  readonly isOver: boolean;
  readonly note: string;
  /** The step that the bar shows, where several bars have one label; undefined: the label states it. */
  readonly what?: MemberStep;
};

/** The steps of a member of a job. */
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

/** Returns the phases of a job, as far as its times and conditions record them. */
export function timelineOfJob(job: Job, nowMs: number): readonly Bar[] {
  const { state, createdAtMs, startedAtMs, finishedAtMs, conditions } = job;
  const since = (type: string): number =>
    conditions.find((each) => each.type === type && each.isTrue)?.lastTransitionMs ?? 0;
  const running = since("Running");
  const points = [
    { label: "QUEUED", stage: "waiting", atMs: createdAtMs, note: state === "QUEUED" ? job.waitingBecause : "" },
    { label: "STARTING", stage: "starting", atMs: startedAtMs || since("MachinesReserved"), note: "" },
    { label: "RUNNING", stage: "running", atMs: running, note: "" },
    { label: "RESTARTING", stage: "starting", atMs: since("Restarting"), note: "" },
    { label: "PREEMPTED", stage: "waiting", atMs: since("Preempted"), note: "" },
    { label: "SUSPENDED", stage: "waiting", atMs: since("Suspended"), note: "" },
    { label: state, stage: state === "FAILED" ? "failed" : "succeeded", atMs: finishedAtMs, note: "" },
  ] as const;
  const known = points.filter(({ atMs }) => atMs > 0).toSorted((one, other) => one.atMs - other.atMs);
  return barsBetween(known, nowMs);
}

/** Maps an event of a pod to the step that it begins. Other events begin none. */
const STEP_OF_EVENT: Readonly<Record<string, MemberStep>> = {
  Scheduled: "starting",
  Pulling: "pulling",
  Pulled: "starting",
  Created: "starting",
  Started: "running",
  Killing: "ending",
};

/** Returns the members of a job by the events of their pods, with one bar per step. Without a pod a member waits. */
export function timelineOfMembers(events: readonly JobEvent[], job: Job, nowMs: number): readonly Bar[] {
  const byObject = Map.groupBy(events, ({ object }) => object);
  const endMs = job.finishedAtMs || nowMs;
  return job.members.flatMap(({ component, pod, state }) => {
    const own = pod === "" ? [] : (byObject.get(`Pod/${pod}`) ?? []);
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

/** Returns the position of a bar in percent; bars of no length stay visible. */
export function placeBar(bar: Bar, bars: readonly Bar[]): { readonly left: number; readonly width: number } {
  const from = Math.min(...bars.map(({ fromMs }) => fromMs));
  const span = Math.max(1, Math.max(...bars.map(({ toMs }) => toMs)) - from);
  const left = ((bar.fromMs - from) / span) * 100;
  const width = Math.max(0.5, ((bar.toMs - bar.fromMs) / span) * 100);
  return { left: Math.min(left, 99.5), width: Math.min(width, 100 - Math.min(left, 99.5)) };
}
