import type { Trail } from "@muster/bus";
import type { LeaseEvent, LeaseRecord } from "../domain/lease.ts";
import type { Stored } from "./pass.ts";

/** The audit trail of leases. */
export type History = Trail<LeaseEvent>;

/** Stored leases. Everything rejects with FaultError as a bucket does. */
export type Records = {
  /** The record stored now; undefined if it is missing. Rejects with invalid_request if it cannot be read. */
  get(id: string): Promise<Stored | undefined>;
  /** All readable records stored now. */
  list(): Promise<Stored[]>;
  /** Rejects with limit_exceeded if the record, or the bucket, would leave no room for the writes of the engine. */
  create(record: LeaseRecord): Promise<Stored>;
  /**
   * A user's change; the record keeps its fence. Rejects with conflict if another writer was first. Rejects with limit_exceeded while its history cannot be
   * published, or if no room would be left for the writes of the engine. An end is always accepted.
   */
  change(stored: Stored, next: LeaseRecord): Promise<Stored>;
  /**
   * A change by the engine, which sets the fence of the record. Rejects with conflict also if a later leader has written. A record that is too large is shrunk.
   */
  own(stored: Stored, next: LeaseRecord, fence: number): Promise<Stored>;
  remove(stored: Stored): Promise<void>;
};

/** The value of a key: a record, or bytes that this version cannot read, which stay unchanged. */
export type Readable = { readonly record: LeaseRecord } | { readonly unreadable: string };
