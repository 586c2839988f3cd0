import { decideOutcomes, type FaultHits, TERMINALS, type Terminal } from "./decide-outcomes.ts";
import { judgeJobs } from "./judge-jobs.ts";
import { judgeMachines } from "./judge-machines.ts";
import { judgeQueues } from "./judge-queues.ts";
import { judgeRoom } from "./judge-room.ts";
import { type EventSeen, groupNodesByWork, type RunObservations, type SessionSeen } from "./observed.ts";
import type { JobShape } from "./plan-jobs.ts";
import type { TeamQueue } from "./plan-queues.ts";
import type { SessionShape } from "./plan-session-shapes.ts";
import type { Finding } from "./finding.ts";

/** Effects last for this time after a fault ends: back-off, a new leader, an executor that takes over. */
const AFTERMATH_MS = 15_000;
/** Pods of a lost machine are detected when it is on again. */
const LOST_AFTER_MS = 3000;

const ORDER = ["QUEUE", "ACCEPT", "PROVISION", "RUN"] as const;

/** The rule that a simulated run may break by an unreadable log. */
export const RESULT_RULE = "the result is kept";

/** The work of a run, and the queues of its jobs; a run of the simulator has no queues. */
type JudgedPlan = {
  readonly shapes: readonly SessionShape[];
  readonly jobs: readonly JobShape[];
  readonly teams?: readonly TeamQueue[];
};

/** Returns the violations of a run. */
export function judgeRun({ shapes, jobs, teams = [] }: JudgedPlan, observed: RunObservations): Finding[] {
  return [
    ...shapes.flatMap((shape) => judgeSession(shape, observed)),
    ...judgeJobs(jobs, observed),
    ...judgeMachines(observed),
    ...judgeRoom(observed),
    ...judgeQueues(teams, observed),
    ...judgeLeftovers(observed),
  ];
}

/** The faults that affected a session. */
export function countHits(session: SessionSeen, observed: RunObservations): FaultHits {
  const { createdAtMs, finishedAtMs } = session;
  const endMs = finishedAtMs === 0 ? Number.POSITIVE_INFINITY : finishedAtMs;
  const overlaps = (fromMs: number, toMs: number): boolean => fromMs <= endMs && toMs >= createdAtMs;
  const nodes = groupNodesByWork(observed.ledger).get(session.name) ?? new Set<string>();
  return {
    nodeLost: observed.outages.some(
      ({ node, fromMs, toMs }) => nodes.has(node) && overlaps(fromMs, toMs + LOST_AFTER_MS),
    ),
    disturbed: observed.faults.some(
      ({ fromMs, toMs }) => fromMs !== undefined && overlaps(fromMs, (toMs ?? fromMs) + AFTERMATH_MS),
    ),
  };
}

function judgeSession(shape: SessionShape, observed: RunObservations): Finding[] {
  const { name } = shape;
  const finding = (rule: string, expected: string, found: string): Finding => ({
    work: name,
    rule,
    expected,
    found,
  });
  const session = observed.sessions.get(name);
  const refused = observed.refused.get(name);
  if (refused !== undefined) return [finding("a valid request is not refused", "an acknowledgement", refused)];
  if (session === undefined) {
    return [
      observed.acknowledged.has(name)
        ? finding("an acknowledged submission is never lost", "the session exists", "the session does not exist")
        : finding("every submission is acknowledged in the end", "the session exists", "it was never acknowledged"),
    ];
  }
  const events = session.events.map(({ kind }) => kind);
  const ends = session.events.filter(({ kind }) => isTerminal(kind));
  const [end] = ends;
  const how = `${events.join(", ")}${session.waitingBecause === "" ? "" : ` (${session.waitingBecause})`}`;
  if (end === undefined || session.finishedAtMs === 0) return [finding("every session ends", "a terminal event", how)];
  const problems: Finding[] = [];
  if (ends.length > 1 || session.events.at(-1) !== end) {
    problems.push(finding("one outcome, and it is the last event", "one terminal event at the end", how));
  }
  if (!isInOrder(session.events)) {
    problems.push(finding("events are in order", [...ORDER, "a terminal event"].join(", "), how));
  }
  const hits = countHits(session, observed);
  const expectation = decideOutcomes(shape, hits);
  const outcome = end.kind === "ERROR" ? `ERROR ${end.reason}` : end.kind;
  if (!expectation.outcomes.some((each) => each === outcome)) {
    const expected = `${expectation.outcomes.join(" or ")} (${expectation.because})`;
    problems.push(finding("the outcome is allowed", expected, `${outcome}: ${end.description}`));
  }
  if (end.kind === "DONE" && events.join() !== [...ORDER, "DONE"].join()) {
    problems.push(finding("a session that is done has passed through every phase", [...ORDER, "DONE"].join(", "), how));
  }
  const result = JSON.stringify({ session: name });
  const mayMiss = expectation.resultWhenDone === "perhaps" && session.resultJson === "";
  if (end.kind === "DONE" && session.resultJson !== result && !mayMiss) {
    const found = session.resultJson === "" ? ["none", ...session.warnings].join("; ") : session.resultJson;
    problems.push(finding(RESULT_RULE, result, found));
  }
  if (session.warnings.length > 0 && !hits.disturbed) {
    problems.push(finding("an undisturbed session ends without a warning", "none", session.warnings.join("; ")));
  }
  return [...problems, ...judgePublished(session, observed)];
}

/** Publication may repeat events, but must publish all of them and no others. */
function judgePublished(session: SessionSeen, { published }: RunObservations): Finding[] {
  const kinds = [...(published.get(session.name) ?? [])].sort().join(", ");
  const recorded = [...new Set(session.events.map(({ kind }) => kind))].sort().join(", ");
  if (kinds === recorded) return [];
  return [{ work: session.name, rule: "published events equal recorded events", expected: recorded, found: kinds }];
}

function judgeLeftovers({ left }: RunObservations): Finding[] {
  const nothing = (rule: string, found: readonly string[]): Finding[] =>
    found.length === 0 ? [] : [{ work: undefined, rule, expected: "none", found: found.join(", ") }];
  return [
    ...nothing("no pod is left", left.pods),
    ...nothing("no service and no budget of a job is left", left.objects),
    ...nothing("no reservation is left", left.reservations),
    ...nothing("no machine is held or lost", left.machines),
    ...nothing("no message is dead-lettered", left.deadLetters),
    ...nothing("no use of a queue is left, and its status is that of the ledger", left.queues ?? []),
    ...nothing("no lock is left", left.locks),
  ];
}

function isTerminal(kind: string): kind is Terminal {
  return TERMINALS.some((terminal) => terminal === kind);
}

/** Each kind occurs once and in order, and times never decrease. */
function isInOrder(events: readonly EventSeen[]): boolean {
  const places = events.map(({ kind }) => (isTerminal(kind) ? ORDER.length : ORDER.findIndex((each) => each === kind)));
  return (
    places[0] === 0 &&
    places.every((place, index) => index === 0 || place > (places[index - 1] ?? 0)) &&
    events.every(({ atMs }, index) => index === 0 || atMs >= (events[index - 1]?.atMs ?? 0))
  );
}
