import { QUEUE_FINALIZER, getRecord, type QueueRow } from "./queue-row.ts";
import type { QueueRecord } from "./read-queue.ts";

/** The steps that make the bucket of queues equal to the Queues of the cluster. */
export type MirrorPlan = {
  /** Queues that get the finalizer before the ledger follows them. */
  readonly unprotected: readonly QueueRow[];
  readonly puts: readonly QueueRecord[];
  /** Names of entries that no Queue has. */
  readonly deletions: readonly string[];
};

/** Plans the mirror. `entries` is the bucket by key; `isSame` compares an entry with the one to write. */
export function planMirror<Entry>(
  rows: readonly QueueRow[],
  entries: ReadonlyMap<string, Entry>,
  isSame: (entry: Entry, record: QueueRecord) => boolean,
): MirrorPlan {
  const names = new Set(rows.map(({ name }) => name));
  return {
    unprotected: rows.filter(({ isDeleting, finalizers }) => !isDeleting && !finalizers.includes(QUEUE_FINALIZER)),
    puts: rows.map(getRecord).filter((record) => {
      const entry = entries.get(record.name);
      return entry === undefined || !isSame(entry, record);
    }),
    deletions: [...entries.keys()].filter((name) => !names.has(name)),
  };
}
