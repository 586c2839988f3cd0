import type { Finding } from "./finding.ts";
import { type JobSeen, groupNodesByWork, type RunObservations } from "./observed.ts";

/** One line of the history of a session or job. */
export type StoryLine = { readonly atMs: number; readonly source: string; readonly text: string };

/** The story of a session or job includes faults from this time before its start to this time after its end. */
const AROUND_MS = 5000;

/** Collects the entries of the ledger, record, pods, users and faults about a session or job, without log lines. */
export function buildStory(
  name: string,
  observed: RunObservations,
  userLog: readonly { readonly work: string; readonly atMs: number; readonly text: string }[],
): StoryLine[] {
  const session = observed.sessions.get(name);
  const job = observed.jobs.get(name);
  const own = userLog.filter((entry) => entry.work === name);
  const fromMs =
    Math.min(...own.map(({ atMs }) => atMs), session?.createdAtMs ?? Infinity, job?.createdAtMs ?? Infinity) -
    AROUND_MS;
  const endedMs = job?.endedAtMs ?? (session?.finishedAtMs ? session.finishedAtMs : Infinity);
  const toMs = endedMs + AROUND_MS;
  const grants = observed.ledger.filter((entry) => entry.kind === "granted" && entry.work === name);
  const reservations = new Set(grants.map(({ reservation }) => reservation));
  return [
    ...own.map(({ atMs, text }) => ({ atMs, source: "user", text })),
    ...(session?.events ?? []).map(({ atMs, kind, reason, description }) => ({
      atMs,
      source: "event",
      text: `${kind} ${reason === "" ? "" : `${reason} `}${description}`,
    })),
    ...describeJobEnd(job),
    ...observed.ledger
      .filter(({ reservation }) => reservations.has(reservation))
      .map((entry) => ({
        atMs: entry.atMs,
        source: "ledger",
        text:
          entry.kind === "granted"
            ? `${entry.reservation} granted ${entry.nodes.join(", ")}`
            : `${entry.reservation} ended`,
      })),
    ...observed.pods
      .filter((pod) => pod.work === name)
      .flatMap(({ name: pod, uid, node, confirmed, firstSeenMs, goneMs, states }) => [
        {
          atMs: firstSeenMs,
          source: "pod",
          text: `${pod} ${uid} exists, ${confirmed ? `later on ${node}` : "never confirmed"}: ${states.join(", ")}`,
        },
        ...(goneMs === undefined ? [] : [{ atMs: goneMs, source: "pod", text: `${pod} ${uid} is gone` }]),
      ]),
    ...observed.faults.flatMap(({ id, text, fromMs: beganMs, toMs: endedMs }) => [
      ...(beganMs === undefined ? [] : [{ atMs: beganMs, source: "fault", text: `${id} begins: ${text}` }]),
      ...(endedMs === undefined ? [] : [{ atMs: endedMs, source: "fault", text: `${id} ends` }]),
    ]),
    ...observed.podDeletions
      .filter(({ work }) => work === name)
      .map(({ pod, atMs }) => ({ atMs, source: "fault", text: `a user deletes ${pod}` })),
    ...observed.outages
      .filter(({ node }) => groupNodesByWork(observed.ledger).get(name)?.has(node))
      .flatMap(({ node, fromMs: offMs, toMs: onMs }) => [
        { atMs: offMs, source: "fault", text: `${node} is off` },
        { atMs: onMs, source: "fault", text: `${node} is on` },
      ]),
  ]
    .filter(({ atMs }) => atMs >= fromMs && atMs <= toMs)
    .sort((a, b) => a.atMs - b.atMs);
}

function describeJobEnd(job: JobSeen | undefined): StoryLine[] {
  if (job === undefined) return [];
  const { ends, endedAtMs, goneMs, state } = job;
  return [
    ...(endedAtMs === undefined ? [] : [{ atMs: endedAtMs, source: "job", text: `${ends.join(", then ")}: ${state}` }]),
    ...(goneMs === undefined ? [] : [{ atMs: goneMs, source: "job", text: "it is deleted" }]),
  ];
}

/** Counts the outcomes of sessions and jobs, most frequent first. */
export function countOutcomes(observed: RunObservations): ReadonlyMap<string, number> {
  const counts = new Map<string, number>();
  for (const { events, finishedAtMs } of observed.sessions.values()) {
    const end = events.at(-1);
    const outcome = finishedAtMs === 0 || end === undefined ? "not ended" : `${end.kind} ${end.reason}`.trim();
    counts.set(outcome, (counts.get(outcome) ?? 0) + 1);
  }
  for (const { ends, goneMs } of observed.jobs.values()) {
    const outcome = ends.at(-1) ?? (goneMs === undefined ? "not ended" : "deleted before its end");
    counts.set(`job ${outcome}`, (counts.get(`job ${outcome}`) ?? 0) + 1);
  }
  return new Map([...counts].sort(([, a], [, b]) => b - a));
}

export function describeFinding({ work, rule, expected, found }: Finding): string {
  return `${work ?? "system"}: ${rule}\n  expected: ${expected}\n  found:    ${found}`;
}
