import { formatCount } from "./plural.ts";
import type { Outcome, Work, WorkEvent } from "./work.ts";

/** A condition of a job, as replies report it. */
export type JobCondition = {
  readonly type: string;
  readonly isTrue: boolean;
  readonly reason: string;
  readonly message: string;
  readonly sinceMs: number;
};

/** Types of conditions, in the order in which a job gets them. */
export const JOB_CONDITIONS = [
  ...["Created", "MachinesReserved", "PodNamesTaken", "PodsWaiting", "SpecUnreadable", "Preempted"],
  ...["Running", "Restarting", "Suspended", "Succeeded", "Failed"],
];

export type JobPhase =
  "QUEUED" | "STARTING" | "RUNNING" | "RESTARTING" | "PREEMPTED" | "SUSPENDED" | "SUCCEEDED" | "FAILED" | "CANCELLED";

/** Maps a phase to the condition that records its time and reason. */
const CONDITION: ReadonlyMap<string, string> = new Map<JobPhase, string>([
  ["STARTING", "MachinesReserved"],
  ["RUNNING", "Running"],
  ["RESTARTING", "Restarting"],
  ["PREEMPTED", "Preempted"],
  ["SUSPENDED", "Suspended"],
  ["SUCCEEDED", "Succeeded"],
  ["FAILED", "Failed"],
]);
/** Phases whose reason is shown. */
const WITH_REASON: ReadonlySet<string> = new Set<JobPhase>(["RESTARTING", "PREEMPTED", "SUSPENDED", "FAILED"]);

/** Returns the phases of a job up to its state, as far as its conditions record them. */
export function buildJobPhases(job: {
  readonly state: string;
  readonly createdAtMs: number;
  /** Zero until the job has had its machines. */
  readonly startedAtMs: number;
  readonly conditions: readonly JobCondition[];
}): WorkEvent[] {
  const { state, createdAtMs, startedAtMs, conditions } = job;
  const queued = { phase: "QUEUED", atMs: createdAtMs, description: "", reason: "" };
  if (state === "QUEUED") {
    // The reason of a false condition is the ledger's code for the wait.
    const waits = conditions.find(({ type, isTrue }) => type === "MachinesReserved" && !isTrue);
    return [{ ...queued, description: waits?.message ?? "", reason: waits?.reason ?? "" }];
  }
  const eventsOf = (phase: string): WorkEvent[] =>
    conditions
      .filter(({ type, isTrue }) => isTrue && type === CONDITION.get(phase))
      .map(({ sinceMs, message, reason }) => ({
        phase,
        atMs: sinceMs,
        description: message,
        reason: WITH_REASON.has(phase) ? reason : "",
      }));
  const known = ["STARTING", "RUNNING"].filter((phase) => phase !== state).flatMap(eventsOf);
  // A finished job has no machines, and so no condition about them.
  const isForgotten = state !== "STARTING" && startedAtMs > 0 && !known.some(({ phase }) => phase === "STARTING");
  const started = { phase: "STARTING", atMs: startedAtMs, description: "", reason: "" };
  const earlier = isForgotten ? [started, ...known] : known;
  const [current = { phase: state, atMs: earlier.at(-1)?.atMs ?? createdAtMs, description: "", reason: "" }] =
    eventsOf(state);
  // Kubeflow has no condition for a cancellation: it is a reason of Failed.
  const isCancelled = findJobOutcome(state, conditions) === "cancelled";
  const last = isCancelled ? { ...current, phase: "CANCELLED", reason: "" } : current;
  return [queued, ...earlier.filter(({ atMs }) => atMs <= last.atMs), last];
}

/** Adjusts the creation time of a submitted job: it is within the second that the API server keeps, and not before the submission was sent. */
export function addSubmissionTime(job: Work, sentMs: number): Work {
  if (job.outcome !== undefined) return job;
  const createdAtMs = withinSecond(job.createdAtMs, sentMs);
  const events = job.events.map((event) => ({ ...event, atMs: Math.max(event.atMs, createdAtMs) }));
  return { ...job, createdAtMs, events, resolution: "exact" };
}

/** Merges the present job with phases and failures that were read before, which its conditions no longer record. */
export function continueJob(seen: Work, now: Work, nowMs: number): Work {
  const isSame = seen.uid === now.uid;
  const { finishedAtMs } = now;
  return {
    ...now,
    ...(isSame && { createdAtMs: seen.createdAtMs, resolution: seen.resolution }),
    finishedAtMs: finishedAtMs && Math.max(seen.createdAtMs, withinSecond(finishedAtMs, nowMs)),
    spec: Object.keys(now.spec).length === 0 ? seen.spec : now.spec,
    warnings: seen.warnings,
    cancelRequested: now.cancelRequested || seen.cancelRequested,
    events: continueEvents(seen, now, nowMs),
  };
}

/** A further failure during a restart changes the reason, and adds no phase. */
function continueEvents(seen: Work, now: Work, nowMs: number): readonly WorkEvent[] {
  const [before, last] = [seen.events.at(-1), now.events.at(-1)];
  if (before?.phase !== "RESTARTING" || last?.phase !== "RESTARTING")
    return [...seen.events, ...findNewPhases(seen, now, nowMs)];
  return [...seen.events.slice(0, -1), { ...last, atMs: before.atMs }];
}

function findNewPhases(seen: Work, now: Work, nowMs: number): WorkEvent[] {
  const [before, last] = [seen.events.at(-1), now.events.at(-1)];
  const failures = Number(now.columns["failures"] ?? 0) - Number(seen.columns["failures"] ?? 0);
  if (before === undefined || last === undefined || (before.phase === last.phase && failures <= 0)) return [];
  // The time must not precede that of the last event read.
  const current = { ...last, atMs: Math.max(before.atMs, withinSecond(last.atMs, nowMs)) };
  if (failures <= 0 || now.outcome !== undefined || [before, last].some(({ phase }) => phase === "RESTARTING")) {
    return [current];
  }
  const missed = { phase: "RESTARTING", atMs: nowMs, description: formatCount(failures, "failure"), reason: "" };
  return [missed, { ...current, atMs: nowMs }];
}

/** Returns the moment within this second that is nearest to a moment of our own clock, because the API server keeps whole seconds. */
function withinSecond(secondMs: number, nearMs: number): number {
  return Math.max(secondMs, Math.min(nearMs, secondMs + 999));
}

/** Maps the reason of an event to a phase that conditions no longer record once it is over. */
const EVENT_PHASES: ReadonlyMap<string, JobPhase> = new Map<string, JobPhase>([
  ["JobRunning", "RUNNING"],
  ["JobRestarting", "RESTARTING"],
  ["Preempted", "PREEMPTED"],
]);

/** An event of the job controller about a job or its pods: `object` is `Job/train`. */
export type JobEvent = {
  readonly atMs: number;
  readonly object: string;
  readonly reason: string;
  readonly message: string;
};

/** Adds earlier phases of the job from its remaining events. Events expire, and of equal ones only the first and the last time are known. */
export function recallPhases(job: Work, jobEvents: readonly JobEvent[]): Work {
  const [first, last] = [job.events[0], job.events.at(-1)];
  if (first === undefined || last === undefined) return job;
  const own = `${job.kind}/${job.name}`;
  const recalled = jobEvents.flatMap(({ atMs, object, reason, message }): WorkEvent[] => {
    const phase = object.toLowerCase() === own ? EVENT_PHASES.get(reason) : undefined;
    // The time of an event is when it was recorded, cut to seconds.
    const isPast = atMs > first.atMs && atMs <= last.atMs;
    return phase === undefined || !isPast
      ? []
      : [{ phase, atMs, description: message, reason: WITH_REASON.has(phase) ? reason : "" }];
  });
  const way: WorkEvent[] = [];
  for (const event of [...job.events.slice(0, -1), ...recalled].sort((a, b) => a.atMs - b.atMs))
    if (way.at(-1)?.phase !== event.phase) way.push(event);
  return { ...job, events: [...(way.at(-1)?.phase === last.phase ? way.slice(0, -1) : way), last] };
}

/** Returns undefined until the job is over. */
export function findJobOutcome(state: string, conditions: readonly JobCondition[]): Outcome | undefined {
  if (state === "SUCCEEDED") return "success";
  if (state !== "FAILED") return undefined;
  return conditions.some(({ type, reason }) => type === "Failed" && reason === "Cancelled") ? "cancelled" : "failure";
}
