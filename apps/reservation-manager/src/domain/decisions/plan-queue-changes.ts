import type { LedgerEvent } from "../ledger/ledger.ts";
import { areQueuesEqual, type Queue, type Queues } from "../ledger/queue.ts";

/** Limit of bytes per log entry, which holds twice as much. A queue that exceeds it alone is too large (`toQueue`). */
export const MAX_CHANGE_BYTES = 300_000;

/** Estimates the bytes of the queue in a message: names, and for each quota its pair, tags and three amounts. */
export function countQueueBytes({ name, parent = "", quotas, problem = "" }: Queue): number {
  let bytes = 100 + name.length + parent.length + problem.length;
  for (const pair of quotas.keys()) bytes += pair.length + 50;
  return bytes;
}

/** Plans the steps from the ledger's queues to the configured ones. Not `complete`: the next plan continues. */
export function planQueueChanges(
  stated: readonly Queue[],
  queues: Queues,
  nowMs: number,
): { readonly events: readonly LedgerEvent[]; readonly complete: boolean } {
  const names = new Set(stated.map(({ name }) => name));
  const events: LedgerEvent[] = [...queues.keys()]
    .filter((name) => !names.has(name))
    .map((name) => ({ kind: "queueRemoved", name, atMs: nowMs }));
  for (const queue of stated) {
    const known = queues.get(queue.name);
    if (known === undefined || !areQueuesEqual(known, queue)) events.push({ kind: "queueChanged", queue, atMs: nowMs });
  }
  let bytes = 0;
  const first = events.findIndex((event) => {
    bytes += event.kind === "queueChanged" ? countQueueBytes(event.queue) : 300;
    return bytes > MAX_CHANGE_BYTES;
  });
  return first === -1 ? { events, complete: true } : { events: events.slice(0, first), complete: false };
}
