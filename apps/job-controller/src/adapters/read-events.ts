import type { CoreV1Event } from "@kubernetes/client-node";
import { listPages, type KubeCalls } from "@muster/kube";
import type { muster } from "@muster/proto";
import { buildMemberName } from "../domain/member-names.ts";
import type { JobRow } from "./read-job.ts";

const MAX_EVENTS = 1000;
/** A page may be large, because events are small. */
const PAGE = 500;
/** The limit of members whose events are listed by name, with one call each. For more members, a list of all pod events is cheaper. */
const MAX_NAMED_LISTS = 32;

/**
 * Returns the newest events of the job and its members, sorted by time and then by recording order. A repeated event is returned for its first and its last
 * time. Rejects as the API server does.
 */
export async function readEvents(
  calls: Pick<KubeCalls, "list">,
  job: JobRow,
  signal: AbortSignal,
): Promise<muster.job.v1.JobEvent.$Properties[]> {
  const { namespace, name, uid } = job.metadata;
  const newest: Occurrence[] = [];
  const read = async (fieldSelector: string, isMeant: (name: string) => boolean): Promise<void> => {
    const pages = listPages<CoreV1Event>(
      calls,
      { apiVersion: "v1", plural: "events", namespace },
      { query: { fieldSelector }, signal },
      PAGE,
    );
    for await (const page of pages) {
      newest.push(...page.filter(({ involvedObject }) => isMeant(involvedObject.name ?? "")).flatMap(listOccurrences));
      if (newest.length > 2 * MAX_EVENTS) keepNewest(newest);
    }
  };
  const members = job.shape.types.flatMap(({ type, replicas }) =>
    Array.from({ length: replicas }, (_, index) => buildMemberName({ name }, { type, index })),
  );
  await read(`involvedObject.uid=${uid}`, () => true);
  if (members.length <= MAX_NAMED_LISTS) {
    for (const member of members) await read(`involvedObject.kind=Pod,involvedObject.name=${member}`, () => true);
  } else {
    // A prefix is not enough: the pod `train-2-worker-0` of the job `train-2` has the same prefix as the pods of `train`.
    const names = new Set(members);
    await read("involvedObject.kind=Pod", (each) => names.has(each));
  }
  keepNewest(newest);
  return newest.map(eventMessage);
}

/** An event at a time that the API server kept. */
type Occurrence = {
  readonly event: CoreV1Event;
  readonly atMs: number;
  /** Occurrences up to this time. */
  readonly count: number;
};

function listOccurrences(event: CoreV1Event): Occurrence[] {
  const { series } = event;
  const last = { event, atMs: lastMs(event), count: series?.count ?? event.count ?? 1 };
  const first = { event, atMs: firstMs(event), count: 1 };
  return last.count > 1 && first.atMs < last.atMs ? [first, last] : [last];
}

function keepNewest(occurrences: Occurrence[]): void {
  // Most timestamps are whole seconds, so events within a second are sorted by the order of their writes.
  occurrences.sort((a, b) => a.atMs - b.atMs || getRevision(a.event) - getRevision(b.event));
  occurrences.splice(0, occurrences.length - MAX_EVENTS);
}

function firstMs({ firstTimestamp, eventTime, metadata }: CoreV1Event): number {
  return new Date(firstTimestamp ?? eventTime ?? metadata.creationTimestamp ?? 0).getTime();
}

function lastMs({ series, lastTimestamp, eventTime, metadata }: CoreV1Event): number {
  return new Date(series?.lastObservedTime ?? lastTimestamp ?? eventTime ?? metadata.creationTimestamp ?? 0).getTime();
}

/** Returns a revision that is comparable within one etcd; other servers define no order. */
function getRevision({ metadata }: CoreV1Event): number {
  return Number(metadata.resourceVersion ?? 0) || 0;
}

function eventMessage({ event, atMs, count }: Occurrence): muster.job.v1.JobEvent.$Properties {
  const { type, reason, message, involvedObject } = event;
  return {
    atMs,
    type: type ?? "Normal",
    reason: reason ?? "",
    message: message ?? "",
    count,
    object: `${involvedObject.kind ?? ""}/${involvedObject.name ?? ""}`,
    firstAtMs: Math.min(firstMs(event), atMs),
  };
}
