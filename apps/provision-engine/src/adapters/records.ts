import { throwFault } from "@muster/faults";
import { buckets } from "@muster/proto";
import { openBucket, type Bucket } from "@muster/store";
import { buildStorable, countPromisedBytes, decideRoom, type StoreSize } from "../domain/decide-quota.ts";
import { isOngoing, type LeaseRecord } from "../domain/lease.ts";
import type { StoredLease, StoredValue, LeaseRecords } from "../holdings/records.ts";
import { recordCodec } from "./messages.ts";

/** Maximum number of unpublished events. A lease with more accepts no changes by its user until its history is published. */
export const MAX_OUTBOX_EVENTS = 100;

/** Maximum size of a stored record. */
export const MAX_RECORD_BYTES = 512 * 1024;
/** Maximum size after a user's request, for 64 KiB of order and 256 KiB of result; the rest is reserved for the engine. */
export const MAX_USER_RECORD_BYTES = 400 * 1024;

/** Pause after which leases may have ended and records may have been removed. */
const FULL_RETRY_MS = 1000;

type LeaseBucket = Bucket<StoredValue, LeaseRecord>;

export function openLeases(connection: Parameters<typeof openBucket>[0]): Promise<LeaseBucket> {
  return openBucket(connection, {
    name: buckets.leases,
    codec: recordCodec,
    maxValueBytes: MAX_RECORD_BYTES,
    fullRetryAfterMs: FULL_RETRY_MS,
  });
}

/** `room` limits the share of the bucket that users may fill. */
export function makeRecords(bucket: LeaseBucket, room: Room = UNLIMITED): LeaseRecords {
  const write = async ({ revision }: StoredLease, record: LeaseRecord): Promise<StoredLease> => ({
    record,
    revision: await bucket.update(record.order.id, record, revision),
  });
  const requireRoom = async (before: LeaseRecord, next: LeaseRecord): Promise<void> => {
    if (next.outbox.length > MAX_OUTBOX_EVENTS) {
      const what = `number of events of lease ${next.order.id} that are not on their stream`;
      throwFault({ code: "limit_exceeded", what, limit: MAX_OUTBOX_EVENTS, retryAfterMs: FULL_RETRY_MS });
    }
    await room.take(growth(before, next, checkSize(next)));
  };
  return {
    get: async (id) => {
      const entry = await bucket.get(id);
      if (entry === undefined) return undefined;
      const { value, revision } = entry;
      if ("record" in value) return { record: value.record, revision };
      const reason = `the record of lease ${id} cannot be read: ${value.unreadable}`;
      return throwFault({ code: "invalid_request", field: "record", reason });
    },
    list: async () =>
      (await bucket.list()).flatMap(({ value, revision }) =>
        "record" in value ? [{ record: value.record, revision }] : [],
      ),
    create: async (record) => {
      await room.take(checkSize(record) + countPromisedBytes(record));
      return { record, revision: await bucket.create(record.order.id, record) };
    },
    change: async (stored, next) => {
      if (isOngoing(next)) await requireRoom(stored.record, next);
      return write(stored, next);
    },
    own: async (stored, next, fence) => {
      if (stored.record.fence > fence) {
        const id = `${bucket.name}/${next.order.id}`;
        throwFault({ code: "conflict", id, expectedRevision: stored.revision, actualRevision: 0 });
      }
      return write(stored, buildStorable({ ...next, fence }, computeBytes, MAX_RECORD_BYTES));
    },
    remove: ({ record, revision }) => bucket.delete(record.order.id, revision),
  };
}

function checkSize(record: LeaseRecord): number {
  const bytes = computeBytes(record);
  if (bytes <= MAX_USER_RECORD_BYTES) return bytes;
  const what = `size of ${bytes} bytes of the record of lease ${record.order.id}`;
  // Publishing its history makes the record smaller.
  const retryAfterMs = record.outbox.length > 1 ? FULL_RETRY_MS : 0;
  return throwFault({ code: "limit_exceeded", what, limit: MAX_USER_RECORD_BYTES, retryAfterMs });
}

function growth(before: LeaseRecord, next: LeaseRecord, bytes: number): number {
  return Math.max(0, bytes - computeBytes(before) + countPromisedBytes(next) - countPromisedBytes(before));
}

function computeBytes(record: LeaseRecord): number {
  return recordCodec.encode(record).length;
}

/** Reserves a part of a bucket for the engine's own writes. */
type Room = {
  /** Call before a write of this size. Rejects with limit_exceeded if the write would use the reserved part, and as a bucket does. */
  take(bytes: number): Promise<void>;
};

/** For callers without a limited bucket. */
const UNLIMITED: Room = { take: () => Promise.resolve() };

/** Maximum age of the last fill level; later writes are added to that level. */
const FRESH_MS = 1000;
const RETRY_MS = 10_000;

type RoomDeps = {
  readonly name: string;
  readonly fill: () => Promise<StoreSize>;
  /** Bytes that the engine will still write for existing leases. */
  readonly promised: () => number;
  readonly nowMs: () => number;
};

export function openRoom({ name, fill, promised, nowMs }: RoomDeps): Room {
  let asked: { readonly atMs: number; readonly fill: Promise<StoreSize>; taken: number } | undefined;
  return {
    take: async (bytes) => {
      if (asked === undefined || nowMs() - asked.atMs >= FRESH_MS) asked = { atMs: nowMs(), fill: fill(), taken: 0 };
      const now = asked;
      const filled = await now.fill.catch((error: unknown) => {
        asked = undefined;
        throw error;
      });
      const verdict = decideRoom(filled, promised() + now.taken, bytes);
      if (verdict.kind === "none") {
        const what = `size of bucket ${name} without the part that is reserved for ends of leases`;
        throwFault({ code: "limit_exceeded", what, limit: verdict.limit, retryAfterMs: RETRY_MS });
      }
      now.taken += bytes;
    },
  };
}
