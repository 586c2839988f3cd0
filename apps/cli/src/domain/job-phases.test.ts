import { expect, it } from "vitest";
import { session, START_MS } from "../../test/session-fixture.ts";
import {
  buildJobPhases,
  continueJob,
  findJobOutcome,
  recallPhases,
  addSubmissionTime,
  type JobCondition,
} from "./job-phases.ts";
import { computeAgeMs, type Work } from "./work.ts";

function condition(type: string, second: number, more: Partial<JobCondition> = {}): JobCondition {
  return { type, isTrue: true, reason: `${type}Reason`, message: type, sinceMs: START_MS + second * 1000, ...more };
}

const CREATED = condition("Created", 0);
const RESERVED = condition("MachinesReserved", 2);
const RUNNING = condition("Running", 3);

it.each<[title: string, state: string, conditions: JobCondition[], phases: string[], startedSecond?: number]>([
  ["a job that no controller has read", "QUEUED", [], ["0 QUEUED"]],
  [
    "a waiting job, with the ledger's code",
    "QUEUED",
    [CREATED, condition("MachinesReserved", 1, { isTrue: false, reason: "POOL_AVAILABILITY" })],
    ["0 QUEUED POOL_AVAILABILITY"],
  ],
  ["a job whose pods start", "STARTING", [CREATED, RESERVED], ["0 QUEUED", "2 STARTING"]],
  ["a running job", "RUNNING", [CREATED, RESERVED, RUNNING], ["0 QUEUED", "2 STARTING", "3 RUNNING"]],
  [
    "a restarting job",
    "RESTARTING",
    [CREATED, RESERVED, condition("Restarting", 4)],
    ["0 QUEUED", "2 STARTING", "4 RESTARTING RestartingReason"],
  ],
  [
    "a preempted job",
    "PREEMPTED",
    [CREATED, { ...RUNNING, isTrue: false }, condition("Preempted", 8, { reason: "RECLAIM" })],
    ["0 QUEUED", "8 PREEMPTED RECLAIM"],
  ],
  [
    "a finished job whose Running is false",
    "SUCCEEDED",
    [CREATED, RESERVED, { ...RUNNING, isTrue: false }, condition("Succeeded", 9)],
    ["0 QUEUED", "2 STARTING", "9 SUCCEEDED"],
  ],
  [
    "a finished job that has released its machines",
    "SUCCEEDED",
    [CREATED, { ...RUNNING, isTrue: false }, condition("Succeeded", 9)],
    ["0 QUEUED", "2 STARTING", "9 SUCCEEDED"],
    2,
  ],
  [
    "a job that failed before it had machines",
    "FAILED",
    [CREATED, condition("Failed", 1)],
    ["0 QUEUED", "1 FAILED FailedReason"],
  ],
  [
    "a cancelled job, which has not failed",
    "FAILED",
    [CREATED, RESERVED, condition("Failed", 4, { reason: "Cancelled" })],
    ["0 QUEUED", "2 STARTING", "4 CANCELLED"],
  ],
  ["a job in a state of a newer service", "DREAMING", [CREATED, RESERVED], ["0 QUEUED", "2 STARTING", "2 DREAMING"]],
])("gives the phases of %s", (_title, state, conditions, phases, startedSecond) => {
  const startedAtMs = startedSecond === undefined ? 0 : START_MS + startedSecond * 1000;
  const events = buildJobPhases({ state, createdAtMs: START_MS, startedAtMs, conditions });
  const shown = events.map(({ phase, atMs, reason }) => `${(atMs - START_MS) / 1000} ${phase} ${reason}`.trim());
  expect(shown).toEqual(phases);
});

it.each<[state: string, reason: string, outcome: Work["outcome"]]>([
  ["RUNNING", "", undefined],
  ["SUCCEEDED", "JobSucceeded", "success"],
  ["FAILED", "BackoffLimitExceeded", "failure"],
  ["FAILED", "Cancelled", "cancelled"],
])("the outcome of %s because of %s is %s", (state, reason, outcome) => {
  const type = state === "FAILED" ? "Failed" : "Succeeded";
  expect(findJobOutcome(state, [condition(type, 1, { reason })])).toBe(outcome);
});

function job(phase: string, second: number, failures = 0, more: Partial<Work> = {}): Work {
  const event = { phase, atMs: START_MS + second * 1000, description: "", reason: "" };
  return { ...session([]), events: [event], columns: { failures }, ...more };
}

/** Returns the lines for a follower that reads each of these states, the last one 10.5 s after the submission. */
function follow(first: Work, ...rest: readonly Work[]): string[] {
  const last = rest.reduce((seen, now) => continueJob(seen, now, START_MS + 10_500), first);
  return last.events.map(({ phase, atMs, description }) =>
    `${(atMs - START_MS) / 1000} ${phase} ${description}`.trim(),
  );
}

it.each<[title: string, seen: readonly [Work, ...Work[]], events: string[]]>([
  ["no change gives no phase", [job("RUNNING", 3), job("RUNNING", 3)], ["3 RUNNING"]],
  [
    "phases that the conditions no longer record stay",
    [job("RUNNING", 3), job("SUCCEEDED", 9)],
    ["3 RUNNING", "9.999 SUCCEEDED"],
  ],
  ["nothing is later than now", [job("RUNNING", 3), job("SUCCEEDED", 10)], ["3 RUNNING", "10.5 SUCCEEDED"]],
  ["nothing is before the last observed time", [job("RESTARTING", 8), job("QUEUED", 0)], ["8 RESTARTING", "8 QUEUED"]],
  [
    "failures between two reads are shown",
    [job("RUNNING", 3), job("RUNNING", 3, 2)],
    ["3 RUNNING", "10.5 RESTARTING 2 failures", "10.5 RUNNING"],
  ],
  [
    "a further failure during a restart adds no phase",
    [job("RESTARTING", 3, 1), job("RESTARTING", 3, 2), job("RUNNING", 5, 2)],
    ["3 RESTARTING", "5.999 RUNNING"],
  ],
  [
    "the failure beyond the limit is only the end",
    [job("RUNNING", 3), job("FAILED", 9, 1, { outcome: "failure" })],
    ["3 RUNNING", "9.999 FAILED"],
  ],
])("while a job is followed %s", (_title, seen, events) => {
  const [first, ...rest] = seen;
  expect(follow(first, ...rest)).toEqual(events);
});

it.each([
  {
    what: "is over within the second in which it was submitted",
    created: 0,
    sentMs: 250,
    ended: 0,
    seenMs: 930,
    tookMs: 680,
  },
  { what: "is over in the next second", created: 0, sentMs: 970, ended: 1, seenMs: 1040, tookMs: 70 },
  { what: "is created in the second after it was sent", created: 1, sentMs: 970, ended: 1, seenMs: 1870, tookMs: 870 },
  { what: "is answered late", created: 0, sentMs: 100, ended: 0, seenMs: 8000, tookMs: 899 },
  { what: "is followed by a clock that is behind", created: 5, sentMs: 100, ended: 5, seenMs: 300, tookMs: 0 },
])("a job that $what has the duration that the follower observed", ({ created, sentMs, ended, seenMs, tookMs }) => {
  const submitted = job("QUEUED", created, 0, { createdAtMs: START_MS + created * 1000, resolution: "seconds" });
  const over = { outcome: "success", finishedAtMs: START_MS + ended * 1000 } as const;
  const done = continueJob(
    addSubmissionTime(submitted, START_MS + sentMs),
    job("SUCCEEDED", ended, 0, { createdAtMs: submitted.createdAtMs, ...over }),
    START_MS + seenMs,
  );
  expect(computeAgeMs(done, 0)).toBe(tookMs);
  expect(done.resolution).toBe("exact");
  expect(done.events.map(({ atMs }) => atMs)).toEqual([done.createdAtMs, done.finishedAtMs]);
});

it("a job that was not followed keeps its whole seconds", () => {
  const seen = job("RUNNING", 3, 0, { resolution: "seconds" });
  expect(continueJob(seen, job("SUCCEEDED", 9), START_MS + 9300).resolution).toBe("seconds");
});

const jobEvent = (second: number, reason: string, object = "Session/echo") => ({
  atMs: START_MS + second * 1000,
  object,
  reason,
  message: reason,
});

it.each<[title: string, events: ReturnType<typeof jobEvent>[], phases: string[]]>([
  ["nothing without an event", [], ["0 QUEUED", "2 STARTING", "9 SUCCEEDED"]],
  [
    "the phases that its conditions no longer record",
    [jobEvent(3, "JobRunning"), jobEvent(5, "JobRestarting"), jobEvent(6, "JobRunning")],
    ["0 QUEUED", "2 STARTING", "3 RUNNING", "5 RESTARTING", "6 RUNNING", "9 SUCCEEDED"],
  ],
  [
    "consecutive equal events as one",
    [jobEvent(5, "JobRestarting"), jobEvent(6, "JobRestarting")],
    ["0 QUEUED", "2 STARTING", "5 RESTARTING", "9 SUCCEEDED"],
  ],
  [
    "no events of other jobs, of an earlier job of its name, or without a phase",
    [jobEvent(3, "JobRunning", "Pod/echo"), jobEvent(-5, "JobRunning"), jobEvent(4, "SuccessfulCreatePod")],
    ["0 QUEUED", "2 STARTING", "9 SUCCEEDED"],
  ],
])("a job recalls %s", (_title, events, phases) => {
  const way = [job("QUEUED", 0), job("STARTING", 2), job("SUCCEEDED", 9)].flatMap((each) => each.events);
  const recalled = recallPhases({ ...session([]), kind: "session", name: "echo", events: way }, events).events;
  expect(recalled.map(({ phase, atMs }) => `${(atMs - START_MS) / 1000} ${phase}`)).toEqual(phases);
});

it("a followed job keeps the data that only its submission reported", () => {
  const warnings = [{ code: "MANIFEST", message: "spec.x is ignored" }];
  const seen = job("QUEUED", 0, 0, { warnings, spec: { a: 1 }, cancelRequested: true });
  expect(continueJob(seen, job("RUNNING", 1, 0, { spec: {} }), START_MS)).toMatchObject({
    warnings,
    spec: { a: 1 },
    cancelRequested: true,
  });
});
