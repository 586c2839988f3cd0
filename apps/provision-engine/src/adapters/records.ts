import { throwFault } from "@muster/faults";
import { buckets } from "@muster/proto";
import { openBucket, type Bucket } from "@muster/store";
import type { LeaseRecord } from "../domain/lease.ts";
import type { Stored } from "../pass.ts";
import { recordCodec, type Readable } from "./messages.ts";

/** Events of a lease that wait for their stream; beyond it its user can change nothing of it until the stream has taken them. */
export const OUTBOX_MAX = 100;

/** Leases end, and their records go. */
const FULL_RETRY_MS = 1000;

export type LeaseBucket = Bucket<Readable, LeaseRecord>;

/** Leases as they are stored. Everything rejects with FaultError as a bucket does. */
export type Records = {
  /** As it is stored now; undefined: there is none. Rejects with invalid_request where nobody can read it. */
  get(id: string): Promise<Stored | undefined>;
  /** All that can be read, as they are stored now. */
  list(): Promise<Stored[]>;
  create(record: LeaseRecord): Promise<Stored>;
  /** A user's change: the record keeps the fence of its engine. Rejects with conflict when somebody else was faster, limit_exceeded while its history cannot be published. */
  change(stored: Stored, next: LeaseRecord): Promise<Stored>;
  /** A change by the engine, whose fence the record carries from then on. Rejects with conflict also when a later leader has written. */
  own(stored: Stored, next: LeaseRecord, fence: number): Promise<Stored>;
  remove(stored: Stored): Promise<void>;
};

export function openLeases(connection: Parameters<typeof openBucket>[0]): Promise<LeaseBucket> {
  return openBucket(connection, { name: buckets.leases, codec: recordCodec, fullRetryAfterMs: FULL_RETRY_MS });
}

export function makeRecords(bucket: LeaseBucket): Records {
  const write = async ({ revision }: Stored, record: LeaseRecord): Promise<Stored> => ({
    record,
    revision: await bucket.update(record.order.id, record, revision),
  });
  return {
    get: async (id) => {
      const entry = await bucket.get(id);
      if (entry === undefined) return undefined;
      const { value, revision } = entry;
      if ("record" in value) return { record: value.record, revision };
      const reason = `the record of lease ${id} cannot be read: ${value.unreadable}`;
      return throwFault({ code: "invalid_request", field: "id", reason });
    },
    list: async () =>
      (await bucket.list()).flatMap(({ value, revision }) =>
        "record" in value ? [{ record: value.record, revision }] : [],
      ),
    create: async (record) => ({ record, revision: await bucket.create(record.order.id, record) }),
    change: async (stored, next) => {
      if (next.outbox.length > OUTBOX_MAX) {
        const what = `number of events of lease ${next.order.id} that are not on their stream`;
        throwFault({ code: "limit_exceeded", what, limit: OUTBOX_MAX, retryAfterMs: FULL_RETRY_MS });
      }
      return write(stored, next);
    },
    own: async (stored, next, fence) => {
      if (stored.record.fence > fence) {
        const id = `${bucket.name}/${next.order.id}`;
        throwFault({ code: "conflict", id, expectedRevision: stored.revision, actualRevision: 0 });
      }
      return write(stored, { ...next, fence });
    },
    remove: ({ record, revision }) => bucket.delete(record.order.id, revision),
  };
}
