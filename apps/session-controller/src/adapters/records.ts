import type { NatsBus } from "@muster/bus";
import { findFault, throwFault } from "@muster/faults";
import { buckets } from "@muster/proto";
import type { ServiceContext } from "@muster/service";
import { openBucket, openView, type Bucket, type View, type ViewOptions } from "@muster/store";
import { SESSIONS_BYTES, type Config } from "../config.ts";
import type { SessionDigest } from "../domain/plan-sweep.ts";
import type { SessionRecord } from "../domain/session.ts";
import type { StoredSession } from "../session-deps.ts";
import { digestCodec, recordCodec } from "./messages.ts";
import type { SessionMetrics } from "./metrics.ts";
import type { Occupant } from "./occupancy.ts";

export type SessionRecords = Bucket<SessionRecord>;
/** The part of each session that stays in memory; the rest is read on demand. */
export type SessionIndex = View<SessionDigest & Occupant>;

/** Retry time while the bucket is full: expired sessions are deleted, so the bucket soon has room. */
const FULL_RETRY_MS = 1000;

export function openRecords(connection: NatsBus["connection"]): Promise<SessionRecords> {
  return openBucket(connection, {
    name: buckets.sessions,
    codec: recordCodec,
    maxBytes: SESSIONS_BYTES,
    fullRetryAfterMs: FULL_RETRY_MS,
  });
}

/** Opens an index with a digest of every stored session, and the names of the records that do not decode. */
export async function openIndex(
  { logger, signal }: ServiceContext<Config>,
  { connection }: NatsBus,
  {
    records,
    metrics,
    onProblem,
  }: { readonly records: SessionRecords; readonly metrics: SessionMetrics } & Required<Pick<ViewOptions, "onProblem">>,
): Promise<{ readonly index: SessionIndex; readonly unreadable: ReadonlySet<string> }> {
  const unreadable = new Set<string>();
  const digests = await openBucket(connection, {
    name: buckets.sessions,
    codec: digestCodec,
    onDecodeError: (error, key) => {
      metrics.unreadable();
      unreadable.add(key);
      logger.error({ err: error }, "cannot read a stored session; it stays unchanged");
    },
  });
  const index = await openView(digests, { signal, onProblem });
  index.onChange((name) => {
    if (unreadable.has(name)) void checkUnreadable(records, unreadable, name);
  });
  return { index, unreadable };
}

/** Removes the name from the list once its record can be read, or is deleted. */
async function checkUnreadable(records: SessionRecords, unreadable: Set<string>, name: string): Promise<void> {
  try {
    await loadAllRecords(records, name);
    unreadable.delete(name);
  } catch {
    // The record is still unreadable, or the store is unavailable: the name stays.
  }
}

const MAX_LISTED_NAMES = 5;

export function formatNames(names: ReadonlySet<string>): string {
  const more = names.size > MAX_LISTED_NAMES ? ` and ${names.size - MAX_LISTED_NAMES} more` : "";
  return `${[...names].slice(0, MAX_LISTED_NAMES).join(", ")}${more}`;
}

/** Reads a session. An undecodable record is a fault, so that it does not stop reads of other sessions. */
export async function loadAllRecords(
  records: Pick<SessionRecords, "get">,
  name: string,
): Promise<StoredSession | undefined> {
  try {
    const entry = await records.get(name);
    return entry === undefined ? undefined : { record: entry.value, revision: entry.revision };
  } catch (error) {
    if (findFault(error) !== undefined) throw error;
    return throwFault({ code: "internal", operation: `reading session ${name}` }, { cause: error });
  }
}
