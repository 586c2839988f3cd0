import { retryOnConflict } from "@muster/backoff";
import { findFault } from "@muster/faults";
import type { Result } from "@muster/leases";
import type { LeaseHistory, LeaseRecords, StoredLease } from "../holdings/records.ts";
import { decideFeedbackRetry, type FeedbackPolicy, planFeedback } from "../domain/plan-feedback.ts";
import { isSettled, type LeaseRecord } from "../domain/lease.ts";
import { hashOrder, type ComputeDigest } from "../domain/signed-content.ts";
import { transitionLease } from "../domain/transition-lease.ts";
import type { LeaseChange } from "../domain/lease-change.ts";
import { runInLeaseTrace } from "./lease-trace.ts";

/** Feedback for the source of a lease. */
export type LeaseFeedback = {
  readonly id: string;
  /** Creation time of the order, because ids can be reused; absent if no part of the order is stored. */
  readonly createdNs?: bigint;
  /** Name of the source. */
  readonly source: string;
  /** Increases with each new feedback about the lease. */
  readonly number: number;
  readonly result: Result | undefined;
  readonly deleted: boolean;
};

export type ReportDeps = {
  readonly records: Pick<LeaseRecords, "get" | "own">;
  /** The record as this process knows it, possibly outdated; undefined: unknown. */
  readonly seen: (id: string) => StoredLease | undefined;
  readonly history: Pick<LeaseHistory, "publish">;
  /** The Feedbacker: resolves once the feedback is durable. Repetitions have no further effect. */
  readonly feedback: (answer: LeaseFeedback) => Promise<void>;
  /** Signs with the present key of the engine. */
  readonly sign: (result: Omit<Result, "signature">) => Result;
  readonly nowNs: () => bigint;
  readonly policy: FeedbackPolicy;
  readonly digest: ComputeDigest;
  readonly fence: number;
  /** Waits a short time for an answer; false: the answer has not arrived. */
  readonly isInTime: (answered: Promise<unknown>) => Promise<boolean>;
  /** Schedules another report of the lease. */
  readonly wake: (id: string) => void;
  readonly failed: (id: string, error: unknown) => void;
};

/** Reports leases, with one report per lease at a time. */
export type FeedbackReporter = {
  /**
   * Publishes the history of a lease and sends feedback to its source. A slow source delays no other work: the report that `wake` schedules records its
   * outcome. Resolves with the time of the next report. Rejects if the history or the record could not be written.
   */
  report(id: string): Promise<bigint | undefined>;
  /** Resolves once no feedback is in flight. */
  settled(): Promise<void>;
};

type Sent = { readonly change?: LeaseChange; readonly retryAtNs?: bigint };
/** The outcome is kept until it is written, so that a failed write does not repeat the feedback. */
type InFlight = { outcome: Sent | undefined; isLate: boolean; readonly done: Promise<void> };

export function openReporter(deps: ReportDeps): FeedbackReporter {
  const { records, seen, fence, isInTime, wake, nowNs } = deps;
  const inFlight = new Map<string, InFlight>();
  const begin = (record: LeaseRecord): InFlight => {
    const sending: InFlight = {
      outcome: undefined,
      isLate: false,
      done: sendFeedback(deps, record).then((sent) => {
        sending.outcome = sent;
        if (sending.isLate) wake(record.order.id);
      }),
    };
    inFlight.set(record.order.id, sending);
    return sending;
  };
  const report = async (id: string): Promise<bigint | undefined> => {
    const stored = seen(id) ?? (await records.get(id));
    if (stored === undefined || stored.record.fence > fence) {
      inFlight.delete(id);
      return undefined;
    }
    const earlier = inFlight.get(id);
    const sending = earlier ?? begin(stored.record);
    // Most sources answer as fast as the stream, and one write then records both.
    const [published] = await Promise.all([publish(deps, stored.record), earlier ?? isInTime(sending.done)]);
    const { outcome } = sending;
    // Set before any call can fail, so that the next report does not wait for this feedback.
    sending.isLate = outcome === undefined;
    await writeOutcomes(
      deps,
      stored,
      [published.change, outcome?.change].flatMap((change) => change ?? []),
    );
    if (outcome !== undefined) inFlight.delete(id);
    if (published.failure !== undefined) throw published.failure;
    // Newer feedback may be pending by now.
    if (outcome !== undefined && earlier !== undefined) return nowNs();
    return outcome?.retryAtNs;
  };
  return {
    report,
    settled: async () => {
      await Promise.all(Array.from(inFlight.values(), ({ done }) => done));
    },
  };
}

/** Records the outcomes of a report. They stay valid if the record has changed meanwhile, and are not sent twice. */
async function writeOutcomes(deps: ReportDeps, first: StoredLease, changes: readonly LeaseChange[]): Promise<void> {
  const { records, fence, nowNs } = deps;
  const { id } = first.record.order;
  await retryOnConflict(`lease ${id}`, async (attempt) => {
    const stored = attempt === 1 ? first : await records.get(id);
    if (stored === undefined || stored.record.fence > fence) return { unchanged: stored };
    const { record } = stored;
    const known = changes.reduce((each, change) => transitionLease(each, change, nowNs()).next ?? each, record);
    if (known === record) return { unchanged: stored };
    return { write: () => records.own(stored, compacted(deps, known), fence) };
  });
}

/** Compacts a settled record in the same write, to save one write for each lease. */
function compacted({ digest, nowNs }: ReportDeps, record: LeaseRecord): LeaseRecord {
  if (record.orderHash !== undefined || !isSettled(record)) return record;
  const orderHash = hashOrder(record.order, digest);
  return transitionLease(record, { kind: "compacted", orderHash }, nowNs()).next ?? record;
}

async function publish(
  { history }: ReportDeps,
  { outbox }: LeaseRecord,
): Promise<{ readonly change?: LeaseChange; readonly failure?: Error }> {
  const last = outbox.at(-1);
  if (last === undefined) return {};
  try {
    await history.publish(outbox);
  } catch (error) {
    return { failure: error instanceof Error ? error : new Error(String(error)) };
  }
  return { change: { kind: "published", upTo: last.id } };
}

async function sendFeedback(deps: ReportDeps, record: LeaseRecord): Promise<Sent> {
  const { feedback, failed, nowNs, policy } = deps;
  const plan = planFeedback(record, nowNs());
  if (plan.kind === "nothing") return {};
  if (plan.kind === "later") return { retryAtNs: plan.untilNs };
  const { number, deleted, because } = plan;
  const result = resign(deps, record, plan.result);
  const { order, source } = record;
  const { id } = order;
  try {
    const answer = { id, createdNs: order.createdNs, source, number, result, deleted };
    await runInLeaseTrace(record, { name: "answer", because }, () => feedback(answer));
  } catch (error) {
    failed(id, error);
    const change = decideFeedbackRetry(findFault(error), record.feedback, nowNs(), policy);
    return { change, ...(change.notBeforeNs !== undefined && { retryAtNs: change.notBeforeNs }) };
  }
  const [before, after] = [plan.result?.signature, result?.signature];
  const isResigned = before !== undefined && after !== undefined && Buffer.compare(before, after) !== 0;
  return { change: { kind: "feedback-sent", number, ...(isResigned && { resigned: { before, after } }) } };
}

/** Signs repeated feedback again, because the key may have changed. The signed data of a compacted lease are removed, so its signature stays. */
function resign({ sign }: ReportDeps, { orderHash }: LeaseRecord, result: Result | undefined): Result | undefined {
  return result === undefined || orderHash !== undefined ? result : sign(result);
}
