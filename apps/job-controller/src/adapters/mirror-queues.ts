import { forEachSome } from "@muster/backoff";
import { unlessMissing, type KubeCalls, type KubeObject } from "@muster/kube";
import { muster } from "@muster/proto";
import { makeProtoCodec, type Bucket, type Codec } from "@muster/store";
import { planMirror, type MirrorPlan } from "../domain/queues/plan-mirror.ts";
import { QUEUE_FINALIZER, readQueueRow, type QueueObject, type QueueRow } from "../domain/queues/queue-row.ts";
import type { QueueRecord } from "../domain/queues/read-queue.ts";
import { runWhileLeading, type LeadCheck } from "./lead-check.ts";
import { QUEUES, type Queues } from "./follow-queues.ts";

type QueueMessage = muster.reservation.v1.Queue;

/** The bucket from which the ledger follows queues. */
export type QueueBucket = Pick<Bucket<QueueMessage | undefined, QueueRecord>, "list" | "create" | "update" | "delete">;

export type MirrorDeps = {
  readonly queues: Pick<Queues, "rows">;
  readonly calls: Pick<KubeCalls, "get" | "patch">;
  readonly openBucket: () => Promise<QueueBucket>;
};

/** Limits the concurrent writes of one round. */
const MAX_CONCURRENT = 8;
const { Queue } = muster.reservation.v1;
const codec = makeProtoCodec(Queue);

/** Decodes an unreadable entry as undefined; a round replaces it like an entry that differs. */
export const queueCodec: Codec<QueueMessage | undefined, QueueRecord> = {
  encode: codec.encode,
  decode: (bytes) => {
    try {
      return codec.decode(bytes);
    } catch {
      return undefined;
    }
  },
};

/**
 * Makes the bucket equal to the Queues while this process leads; a queue gets its finalizer before the ledger follows it. Tries all writes, and then rejects
 * with the first error. Does nothing before the queues are listed.
 */
export async function mirrorQueues(deps: MirrorDeps, isHeld: LeadCheck): Promise<void> {
  const rows = deps.queues.rows();
  if (rows === undefined || !isHeld()) return;
  const bucket = await deps.openBucket();
  const entries = await bucket.list();
  const revisions = new Map(entries.map(({ key, revision }) => [key, revision]));
  const plan = planMirror([...rows.values()], new Map(entries.map(({ key, value }) => [key, { value }])), isSame);
  const failures: unknown[] = [];
  const isFailed = new Set<string>();
  await forEachSome(
    plan.unprotected,
    MAX_CONCURRENT,
    runWhileLeading(isHeld, (row) => protect(deps, row)),
    (row, error) => {
      isFailed.add(row.name);
      failures.push(error);
    },
  );
  const failed = (_item: unknown, error: unknown): unknown => failures.push(error);
  const put = async (record: QueueRecord): Promise<unknown> => {
    const revision = revisions.get(record.name);
    return revision === undefined ? bucket.create(record.name, record) : bucket.update(record.name, record, revision);
  };
  const puts = plan.puts.filter(({ name }) => !isFailed.has(name));
  await forEachSome(puts, MAX_CONCURRENT, runWhileLeading(isHeld, put), failed);
  const remove = async (name: string): Promise<void> => {
    // The cache may lag behind another leader's writes, and not show a new queue yet.
    if ((await unlessMissing(deps.calls.get(QUEUES, name))) !== undefined) return;
    await bucket.delete(name, revisions.get(name) ?? 0);
  };
  await forEachSome(plan.deletions, MAX_CONCURRENT, runWhileLeading(isHeld, remove), failed);
  if (failures.length > 0) throw asError(failures, plan);
}

function asError(failures: readonly unknown[], { unprotected, puts, deletions }: MirrorPlan): unknown {
  if (failures.length === 1) return failures[0];
  const tried = unprotected.length + puts.length + deletions.length;
  return new AggregateError(failures, `${failures.length} of ${tried} writes of queues failed`);
}

function isSame({ value }: { readonly value: QueueMessage | undefined }, record: QueueRecord): boolean {
  return value !== undefined && Buffer.compare(Queue.encode(value).finish(), codec.encode(record)) === 0;
}

/** Adds the finalizer. The queue is read again, because its status is written concurrently, which would cause a conflict. */
async function protect({ calls }: Pick<MirrorDeps, "calls">, { name, uid }: QueueRow): Promise<void> {
  const found = await unlessMissing(calls.get<KubeObject & QueueObject>(QUEUES, name));
  const row = found && readQueueRow(found);
  if (row?.uid !== uid || row.isDeleting || row.finalizers.includes(QUEUE_FINALIZER)) return;
  await setFinalizers(calls, row, [...row.finalizers, QUEUE_FINALIZER]);
}

/** Sets the finalizers; the resource version makes a concurrent change a conflict. */
export async function setFinalizers(
  calls: Pick<KubeCalls, "patch">,
  { name, uid, resourceVersion }: QueueRow,
  finalizers: readonly string[],
): Promise<void> {
  const body = { metadata: { uid, resourceVersion, finalizers } };
  await calls.patch<KubeObject>(QUEUES, name, { kind: "merge", body });
}
