import type { Trail } from "@muster/bus";
import type { LeaseEvent, LeaseRecord } from "../domain/lease.ts";
import type { Stored } from "./pass.ts";

/** The trail of what happened to leases. */
export type History = Trail<LeaseEvent>;

/** Leases as they are stored. Everything rejects with FaultError as a bucket does. */
export type Records = {
  /** As it is stored now; undefined: there is none. Rejects with invalid_request where nobody can read it. */
  get(id: string): Promise<Stored | undefined>;
  /** All that can be read, as they are stored now. */
  list(): Promise<Stored[]>;
  /** Rejects with limit_exceeded also where the record, or all of them, leave no room for what the engine will write. */
  create(record: LeaseRecord): Promise<Stored>;
  /** A user's change: the record keeps the fence of its engine. Rejects with conflict when somebody else was faster, limit_exceeded while its history cannot be published, or where no room is left for what the engine will write. An end is always taken. */
  change(stored: Stored, next: LeaseRecord): Promise<Stored>;
  /** A change by the engine, whose fence the record carries from then on. Rejects with conflict also when a later leader has written. Of a record that is too large what is needed is written. */
  own(stored: Stored, next: LeaseRecord, fence: number): Promise<Stored>;
  remove(stored: Stored): Promise<void>;
};

/** What stands under a key: a record, or bytes that no version of this engine has written, which are left as they are. */
export type Readable = { readonly record: LeaseRecord } | { readonly unreadable: string };
