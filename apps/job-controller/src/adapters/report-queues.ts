import { isDeepStrictEqual } from "node:util";
import { forEachSome } from "@muster/backoff";
import { findFault } from "@muster/faults";
import { unlessFault, type KubeCalls, type KubeObject } from "@muster/kube";
import type { ReservationCalls } from "@muster/ledger-client";
import { listChildren } from "../domain/queues/list-children.ts";
import { describeQueue, isQueueEmpty, type LedgerQueue, type QueueFacts } from "../domain/queues/describe-queue.ts";
import { QUEUE_FINALIZER, readQueueRow, type QueueObject, type QueueRow } from "../domain/queues/queue-row.ts";
import { runWhileLeading, type LeadCheck } from "./lead-check.ts";
import { QUEUES, type Queues } from "./follow-queues.ts";
import { setFinalizers } from "./mirror-queues.ts";

export type ReportDeps = {
  readonly queues: Pick<Queues, "rows">;
  readonly calls: Pick<KubeCalls, "patch">;
  readonly ledger: Pick<ReservationCalls, "listQueues">;
  readonly now: () => number;
  /** A monotonic clock. */
  readonly elapsedMs: () => number;
};

/** The status of a queue is written at most this often, and is at most this old while it changes. */
export const REPORT_EVERY_MS = 2000;
/** Maximum number of concurrent writes in one round. */
const MAX_CONCURRENT = 8;
const LEDGER_TIMEOUT_MS = 5000;
/** A ledger that does not answer for this long is reported as silent; a change of its leader takes about as long. */
const SILENT_AFTER_MS = 10_000;

/**
 * Returns a function that makes one round of reports: it writes each status that differs from the ledger's counts, and removes the finalizer of empty queues
 * that are being deleted. It tries all writes, and then rejects with the first error. Without a Queue it does not call the ledger.
 */
export function makeQueueReports(deps: ReportDeps): (isHeld: LeadCheck) => Promise<void> {
  /** The writes of this process that the cache does not show yet. */
  const written = new Map<string, QueueRow>();
  let silentSinceMs: number | undefined;
  return async (isHeld) => {
    const rows = deps.queues.rows() ?? new Map<string, QueueRow>();
    for (const name of written.keys()) if (!rows.has(name)) written.delete(name);
    if (rows.size === 0 || !isHeld()) return;
    const states = await listStates(deps.ledger);
    silentSinceMs = states === undefined ? (silentSinceMs ?? deps.elapsedMs()) : undefined;
    if (silentSinceMs !== undefined && deps.elapsedMs() - silentSinceMs < SILENT_AFTER_MS) return;
    const children = listChildren(rows);
    const report = async (cached: QueueRow): Promise<void> => {
      const { name } = cached;
      const about = { state: states?.get(name), isSilent: states === undefined, children: children.get(name) ?? [] };
      const row = await writeStatus(deps, newest(written.get(name), cached), about);
      if (row === undefined) return;
      written.set(name, row);
      if (row.isDeleting && row.finalizers.includes(QUEUE_FINALIZER) && isQueueEmpty(about))
        await removeFinalizer(deps, row);
    };
    const failures: unknown[] = [];
    const failed = (_row: QueueRow, error: unknown): unknown => failures.push(error);
    await forEachSome([...rows.values()], MAX_CONCURRENT, runWhileLeading(isHeld, report), failed);
    if (failures.length > 0) throw failures[0];
  };
}

/** Writes the status and returns the resulting queue; undefined if the queue is deleted, or another one has its name. */
async function writeStatus(
  { calls, now }: ReportDeps,
  row: QueueRow,
  about: Omit<QueueFacts, "nowMs">,
): Promise<QueueRow | undefined> {
  const status = describeQueue(row, { ...about, nowMs: now() });
  if (isDeepStrictEqual(status, row.status)) return row;
  const patch = { kind: "merge", body: { metadata: { uid: row.uid }, status } } as const;
  const options = { subresource: "status" };
  const answer = await unlessGone(calls.patch<KubeObject & QueueObject>(QUEUES, row.name, patch, options));
  return answer && readQueueRow(answer);
}

/** Removes the finalizer. After a conflict, the next round decides by the newer version. */
async function removeFinalizer({ calls }: ReportDeps, row: QueueRow): Promise<void> {
  const others = row.finalizers.filter((each) => each !== QUEUE_FINALIZER);
  await unlessGone(setFinalizers(calls, row, others));
}

function unlessGone<Value>(call: Promise<Value>): Promise<Value | undefined> {
  return unlessFault(call, "not_found", "conflict");
}

/** Returns the newer of the cached row and the own row. */
function newest(own: QueueRow | undefined, cached: QueueRow): QueueRow {
  if (own?.uid !== cached.uid) return cached;
  return BigInt(own.resourceVersion) > BigInt(cached.resourceVersion) ? own : cached;
}

/** Reads every queue of the ledger by name; undefined if the ledger does not answer. */
async function listStates(
  ledger: Pick<ReservationCalls, "listQueues">,
): Promise<ReadonlyMap<string, LedgerQueue> | undefined> {
  const states = new Map<string, LedgerQueue>();
  try {
    for (let after = ""; ;) {
      const page = await ledger.listQueues({ continue: after }, { timeoutMs: LEDGER_TIMEOUT_MS });
      for (const state of page.queues) if (state.queue !== undefined) states.set(state.queue.name, state);
      after = page.continue;
      if (after === "") return states;
    }
  } catch (error) {
    if (findFault(error) === undefined) throw error;
    return undefined;
  }
}
