import type { AuditTrail } from "@muster/bus";
import type { View } from "@muster/store";
import type { LeaseEvent, LeaseRecord } from "../domain/lease.ts";

/** The audit trail of leases. */
export type LeaseHistory = AuditTrail<LeaseEvent>;

/** A record and its revision in the store. */
export type StoredLease = { readonly record: LeaseRecord; readonly revision: number };

/** Stored leases. Every method rejects with FaultError as a bucket does. */
export type LeaseRecords = {
  /** The record stored now; undefined if it is missing. Rejects with invalid_request if it cannot be read. */
  get(id: string): Promise<StoredLease | undefined>;
  /** All readable records stored now. */
  list(): Promise<StoredLease[]>;
  /** Rejects with limit_exceeded if the record, or the bucket, would leave no room for the writes of the engine. */
  create(record: LeaseRecord): Promise<StoredLease>;
  /**
   * A user's change; the record keeps its fence. Rejects with conflict if another writer was first. Rejects with limit_exceeded while its history cannot be
   * published, or if no room would be left for the writes of the engine. An end is always accepted.
   */
  change(stored: StoredLease, next: LeaseRecord): Promise<StoredLease>;
  /**
   * A change by the engine, which sets the fence of the record. Rejects with conflict also if a later leader has written. A record that is too large is shrunk.
   */
  own(stored: StoredLease, next: LeaseRecord, fence: number): Promise<StoredLease>;
  remove(stored: StoredLease): Promise<void>;
};

/** The value of a key: a record, or bytes that this version cannot read, which stay unchanged. */
export type StoredValue = { readonly record: LeaseRecord } | { readonly unreadable: string };

/** A record that this version cannot read. Its lease is not served, does not end, and counts in no total. */
type UnreadableLease = { readonly id: string; readonly because: string };

/** The present unreadable records, ordered by id. */
export function listUnreadableLeases(view: Pick<View<StoredValue>, "entries">): UnreadableLease[] {
  return view
    .entries()
    .flatMap(({ key, value }) => ("unreadable" in value ? [{ id: key, because: value.unreadable }] : []));
}

type UnreadableWatch = Disposable & { readonly count: () => number };

/** Reports each unreadable record once, and again if its reason changes. */
export function watchUnreadable(
  view: Pick<View<StoredValue>, "get" | "entries" | "onChange">,
  report: (lease: UnreadableLease) => void,
): UnreadableWatch {
  const known = new Map<string, string>();
  const found = (lease: UnreadableLease): void => {
    if (known.get(lease.id) === lease.because) return;
    known.set(lease.id, lease.because);
    report(lease);
  };
  for (const lease of listUnreadableLeases(view)) found(lease);
  const stop = view.onChange((id) => {
    const value = view.get(id)?.value;
    if (value !== undefined && "unreadable" in value) found({ id, because: value.unreadable });
    else known.delete(id);
  });
  return { count: () => known.size, [Symbol.dispose]: stop };
}
