import { DELETING } from "@muster/ledger-client/choose-queue";
import { API_GROUP } from "@muster/names";
import { readQueue, type QueueRecord } from "./read-queue.ts";

/** The finalizer that keeps a Queue until it has neither work nor queues below it. */
export const QUEUE_FINALIZER = `${API_GROUP}/queue-in-use`;

/** A Queue as it is cached. */
export type QueueRow = {
  readonly name: string;
  readonly uid: string;
  readonly resourceVersion: string;
  readonly generation: number;
  readonly isDeleting: boolean;
  readonly finalizers: readonly string[];
  readonly record: QueueRecord;
  /** The status from the API server, which clients can edit. */
  readonly status: unknown;
};

/** The fields of a Queue that a row keeps. */
export type QueueObject = {
  readonly metadata?: {
    readonly name?: string;
    readonly uid?: string;
    readonly resourceVersion?: string;
    readonly generation?: number;
    readonly deletionTimestamp?: Date | string;
    readonly finalizers?: readonly string[];
  };
  readonly spec?: unknown;
  readonly status?: unknown;
};

/** Reads a Queue. Never throws: the record has the problems of the spec. */
export function readQueueRow({ metadata = {}, spec, status }: QueueObject): QueueRow {
  const { name = "", uid = "", resourceVersion = "0", generation = 0, finalizers = [] } = metadata;
  const isDeleting = metadata.deletionTimestamp !== undefined;
  return { name, uid, resourceVersion, generation, isDeleting, finalizers, record: readQueue(name, spec), status };
}

/** The record that the ledger follows: a queue that is being deleted admits no work. */
export function getRecord({ record, isDeleting }: QueueRow): QueueRecord {
  return isDeleting ? { ...record, problem: DELETING } : record;
}
