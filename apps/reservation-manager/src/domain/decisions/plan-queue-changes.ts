import type { LedgerEvent } from "../ledger/ledger.ts";
import { sameQueue, type Queue, type Queues } from "../ledger/queue.ts";

/** Queues that one entry of the log changes: with all their quotas they fit into it. */
const MAX_CHANGES = 50;

/** What makes the ledger's queues those that are stated; not `complete`: the next plan continues. */
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
    if (known === undefined || !sameQueue(known, queue)) events.push({ kind: "queueChanged", queue, atMs: nowMs });
  }
  return { events: events.slice(0, MAX_CHANGES), complete: events.length <= MAX_CHANGES };
}
