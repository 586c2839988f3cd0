import { retryOnConflict } from "@muster/backoff";
import { faultOf } from "@muster/faults";
import type { Result } from "@muster/leases";
import type { History, Records } from "./records.ts";
import { decideFeedbackRetry, type FeedbackPolicy } from "../domain/decide-feedback-retry.ts";
import { isSettled, type LeaseRecord } from "../domain/lease.ts";
import { hashOrder, type Digest } from "../domain/order-hash.ts";
import { planFeedback } from "../domain/plan-feedback.ts";
import { transitionLease, type LeaseChange } from "../domain/transition-lease.ts";
import { inLeaseTrace } from "../lease-trace.ts";
import type { Stored } from "./pass.ts";

/** What the source of a lease is told. */
export type Answer = {
  readonly id: string;
  /** Of its order, which may have the id of one that is forgotten; absent: it came from a controller, and nothing is stored of it. */
  readonly createdNs?: bigint;
  /** Name of the source that is told. */
  readonly source: string;
  /** Grows with each thing that is told of the lease. */
  readonly number: number;
  readonly result: Result | undefined;
  readonly deleted: boolean;
};

export type ReportDeps = {
  readonly records: Pick<Records, "get" | "own">;
  /** The record as this process knows it, which may be behind; undefined: it does not. */
  readonly seen: (id: string) => Stored | undefined;
  readonly history: Pick<History, "publish">;
  /** The Feedbacker: resolves once it cannot be lost any more. The same answer again is no other one. */
  readonly feedback: (answer: Answer) => Promise<void>;
  /** With the key that the engine has now. */
  readonly sign: (result: Omit<Result, "signature">) => Result;
  readonly nowNs: () => bigint;
  readonly policy: FeedbackPolicy;
  readonly digest: Digest;
  readonly fence: number;
  /** Waits for an answer, but not for long; false: it has not come by then. */
  readonly isInTime: (answered: Promise<unknown>) => Promise<boolean>;
  /** Has the lease looked at once more. */
  readonly wake: (id: string) => void;
  readonly failed: (id: string, error: unknown) => void;
};

/** Tells of leases, one look per lease at a time. */
export type Reporter = {
  /**
   * Publishes the history of a lease, and tells its source what has become of it. A source that takes its time to answer holds up nothing but itself: what it came to is
   * noted by the look that the lease is woken for. Resolves with when to come again; rejects where the history, or the record, could not be written.
   */
  report(id: string): Promise<bigint | undefined>;
  /** Resolves once no source is being told any more. */
  settled(): Promise<void>;
};

type Sent = { readonly change?: LeaseChange; readonly retryAtNs?: bigint };
/** The outcome is kept until it is written down, so that nothing is told again for a write that failed. */
type InFlight = { outcome: Sent | undefined; isLate: boolean; readonly done: Promise<void> };

export function openReporter(deps: ReportDeps): Reporter {
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
    // Most sources answer as soon as the stream does, and both are one write then.
    const [published] = await Promise.all([publish(deps, stored.record), earlier ?? isInTime(sending.done)]);
    const { outcome } = sending;
    // Before anything here can fail: the look that comes then does not wait for it.
    sending.isLate = outcome === undefined;
    await writeOutcomes(
      deps,
      stored,
      [published.change, outcome?.change].flatMap((change) => change ?? []),
    );
    if (outcome !== undefined) inFlight.delete(id);
    if (published.failure !== undefined) throw published.failure;
    // Something else may be to be told by now.
    if (outcome !== undefined && earlier !== undefined) return nowNs();
    return outcome?.retryAtNs;
  };
  return {
    report: report,
    settled: async () => {
      await Promise.all(Array.from(inFlight.values(), ({ done }) => done));
    },
  };
}

/** Writes down what is told. Where the record has changed meanwhile, that still holds, and is not told twice for it. */
async function writeOutcomes(deps: ReportDeps, first: Stored, changes: readonly LeaseChange[]): Promise<void> {
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

/** In the write that says that all is told: one of its own would be one more for each lease. */
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
    await inLeaseTrace(record, { name: "answer", because }, () => feedback(answer));
  } catch (error) {
    failed(id, error);
    const change = decideFeedbackRetry(faultOf(error), record.feedback, nowNs(), policy);
    return { change, ...(change.notBeforeNs !== undefined && { retryAtNs: change.notBeforeNs }) };
  }
  const [before, after] = [plan.result?.signature, result?.signature];
  const isResigned = before !== undefined && after !== undefined && Buffer.compare(before, after) !== 0;
  return { change: { kind: "feedback-sent", number, ...(isResigned && { resigned: { before, after } }) } };
}

/** An answer that is told again may have been signed with a key that the engine has no more. Of a compact lease the data are gone that the signature is of. */
function resign({ sign }: ReportDeps, { orderHash }: LeaseRecord, result: Result | undefined): Result | undefined {
  return result === undefined || orderHash !== undefined ? result : sign(result);
}
