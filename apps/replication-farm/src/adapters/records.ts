import { takeTurns } from "@muster/backoff";
import { throwFault } from "@muster/faults";
import { openBucket, type Bucket } from "@muster/store";
import { MAX_OUTBOX } from "../domain/audit.ts";
import type { AuditRecord } from "../domain/replica-set.ts";
import type { StoredValue } from "./messages.ts";

/** The common part of both kinds of records. */
type Fenced = { readonly fence: number; readonly outbox: readonly AuditRecord[] };

export type StoredRecord<Record> = { readonly record: Record; readonly revision: number };

/** A change of a record that was read, with its audit records. */
type RecordChange<Record> = {
  readonly key: string;
  readonly revision: number;
  readonly next: Record;
  readonly audits: readonly AuditRecord[];
};

/** Stored replica sets, or rolling updates. Every method rejects with FaultError as a bucket does. */
export type FarmRecords<Record> = {
  /** The stored record; undefined: it does not exist. */
  get(key: string): Promise<(StoredValue<Record> & { readonly revision: number }) | undefined>;
  create(key: string, record: Record): Promise<number>;
  /**
   * A user's change: the record keeps the fence of its owner. Rejects with conflict when another writer was faster, with limit_exceeded while the audit
   * stream is too far behind.
   */
  change(change: RecordChange<Record>): Promise<StoredRecord<Record>>;
  /** A change by the owner, which sets its fence in the record. Rejects with conflict also when a later owner has written. */
  own(change: RecordChange<Record>, fence: number): Promise<StoredRecord<Record>>;
  remove(key: string, revision: number): Promise<void>;
};

const FULL_RETRY_MS = 1000;
/** A change of a node triggers a pass of every set; this limit of concurrent calls keeps the store responsive. */
const MAX_STORE_CALLS = 128;

export function makeRecords<Record extends Fenced>(bucket: Bucket<StoredValue<Record>, Record>): FarmRecords<Record> {
  const inTurn = takeTurns(MAX_STORE_CALLS);
  const write = async ({ key, revision, next, audits }: RecordChange<Record>, fence: number) => {
    if (next.outbox.length + audits.length > MAX_OUTBOX) {
      const what = `number of audit records of ${key} that are not published`;
      throwFault({ code: "limit_exceeded", what, limit: MAX_OUTBOX, retryAfterMs: FULL_RETRY_MS });
    }
    const record = { ...next, fence, outbox: [...next.outbox, ...audits] };
    return { record, revision: await inTurn(() => bucket.update(key, record, revision)) };
  };
  return {
    get: (key) =>
      inTurn(async () => {
        const entry = await bucket.get(key);
        return entry && { ...entry.value, revision: entry.revision };
      }),
    create: (key, record) => bucket.create(key, record),
    change: (change) => write(change, change.next.fence),
    own: (change, fence) => {
      const { key, revision, next } = change;
      if (next.fence > fence)
        throwFault({ code: "conflict", id: `${bucket.name}/${key}`, expectedRevision: revision, actualRevision: 0 });
      return write(change, fence);
    },
    remove: (key, revision) => bucket.delete(key, revision),
  };
}

/** Opens a bucket whose values may be unreadable. */
export function openRecords<Record>(
  connection: Parameters<typeof openBucket>[0],
  name: string,
  codec: Parameters<typeof openBucket<StoredValue<Record>, Record>>[1]["codec"],
): Promise<Bucket<StoredValue<Record>, Record>> {
  return openBucket(connection, { name, codec });
}
