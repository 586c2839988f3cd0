import { computeBackoffMs, pause, takeTurns } from "@muster/backoff";
import { assertNever, describeFault, findFault, isRetryable, throwFault, type Fault } from "@muster/faults";
import { isLeaseId, splitId, type Result } from "@muster/leases";
import { buildResult } from "../domain/signed-content.ts";
import { decidePolled } from "../domain/decide-polled.ts";
import { runInPolledTrace } from "../lead/lease-trace.ts";
import { takeOrder, withdrawOrder, type RequestDeps } from "./requests.ts";
import { makeWaitingOrders, type WaitingOrders } from "./waiting-orders.ts";
import type { LeaseJob, LeaseSource } from "./poll-source.ts";
import type { StoredLease } from "../holdings/records.ts";
import type { LeaseFeedback } from "../lead/report-lease.ts";

export type TakePolledDeps = {
  readonly requests: RequestDeps;
  readonly feedback: (answer: LeaseFeedback) => Promise<void>;
  readonly sign: (result: Omit<Result, "signature">) => Result;
  /** All orders that existed at the start are taken. */
  readonly historyTaken: (source: string) => void;
  /** An order was refused, is retried, or its answer could not be sent. */
  readonly failed: (id: string, what: "refused" | "retried" | "unreported", reason: unknown) => void;
  /** Pause between attempts of waiting orders, which exceed a limit of their user or the room of the store. */
  readonly retryWaitingMs: number;
};

const MAX_IN_FLIGHT = 64;
const RETRY = { firstMs: 1000, maxMs: 30_000 };
/** Maximum number of waiting orders, which delay no other user's orders. Further ones are refused. */
const MAX_WAITING = 1000;

/**
 * Takes the orders of a polled source, many concurrently. Orders of one lease are taken in sequence, and orders of a type after the orders of the previous
 * type. Faults of the store are retried with a growing pause. An order over its user's limits or the room of the store waits, with the later orders of its
 * user. Refused and unreadable orders are reported to the controller. After the source ends, continues until no order waits.
 */
export async function takePolled(deps: TakePolledDeps, source: LeaseSource, signal: AbortSignal): Promise<void> {
  const { begin, settled } = makeSequencer();
  const waiting = makeWaitingOrders<OrderJob>(MAX_WAITING);
  const takeOne = (job: OrderJob): Promise<void> => takeOrWait(deps, waiting, job, signal);
  const histories = new Map<string, readonly string[]>();
  const reportHistories = (): void => {
    for (const [from, listed] of histories) {
      if (listed.some((id) => waiting.has(id))) continue;
      histories.delete(from);
      if (!signal.aborted) deps.historyTaken(from);
    }
  };
  const ended = new AbortController();
  const retrying = retryWaiting(
    { waiting, begin, takeOne, afterRound: reportHistories, ended: ended.signal },
    deps,
    signal,
  );
  let type: string | undefined;
  for await (const job of source(signal)) {
    switch (job.kind) {
      case "order":
        // The lease that the order takes over must be recorded first.
        if ((type !== undefined && job.order.type !== type) || job.order.reference !== undefined) await settled();
        ({ type } = job.order);
        await begin(job.order.id, () => takeOne(job));
        break;
      case "unreadable":
        deps.failed(job.id, "refused", job.reason);
        await begin(job.id, () => reportRefusal(deps, job.source, { id: job.id, type: "", reason: job.reason }));
        break;
      case "history-read":
        await settled();
        // A waiting order may already have objects, which clean-up must not treat as leftovers.
        histories.set(job.source, waiting.ids());
        reportHistories();
        break;
      default:
        assertNever(job);
    }
  }
  await settled();
  ended.abort();
  await retrying;
  await settled();
}

type OrderJob = Extract<LeaseJob, { kind: "order" }>;
/** Resolves once the work has begun; `done` resolves when it ends. */
type Begin = (id: string, work: () => Promise<void>) => Promise<{ readonly done: Promise<void> }>;

/** Runs work of different ids concurrently, and of one id in sequence. */
function makeSequencer(): { readonly begin: Begin; settled(): Promise<void> } {
  const begins = takeTurns(1);
  const inFlight = new Map<string, Promise<void>>();
  const settled = async (): Promise<void> => {
    await Promise.all(inFlight.values());
  };
  const begin: Begin = (id, work) =>
    begins(async () => {
      if (inFlight.size >= MAX_IN_FLIGHT || inFlight.has(id)) await settled();
      const done = work().finally(() => void inFlight.delete(id));
      inFlight.set(id, done);
      return { done };
    });
  return { begin, settled };
}

type Retrying = {
  readonly waiting: WaitingOrders<OrderJob>;
  readonly begin: Begin;
  takeOne(job: OrderJob): Promise<void>;
  afterRound(): void;
  /** Aborted once the source has ended. */
  readonly ended: AbortSignal;
};

/** Retries waiting orders, in sequence for each user until one still has to wait. */
async function retryWaiting(
  retrying: Retrying,
  { retryWaitingMs: laterMs }: TakePolledDeps,
  signal: AbortSignal,
): Promise<void> {
  const { waiting, begin, takeOne, afterRound, ended } = retrying;
  const isEmpty = (): boolean => waiting.ids().length === 0;
  const tryQueue = async (jobs: readonly OrderJob[]): Promise<void> => {
    for (const job of jobs) {
      // A newer listing of the same order replaces this one.
      const { done } = await begin(job.order.id, async () => (waiting.isCurrent(job) ? takeOne(job) : undefined));
      await done;
      if (waiting.has(job.order.id)) return;
    }
  };
  const isOver = (): boolean => signal.aborted || (ended.aborted && isEmpty());
  // Not `runPeriodically`: this loop ends with the source, once no order waits.
  while (!isOver()) {
    await pause(laterMs, isEmpty() ? AbortSignal.any([signal, ended]) : signal);
    await Promise.all(waiting.byUser().map(tryQueue));
    afterRound();
  }
}

async function takeOrWait(
  deps: TakePolledDeps,
  waiting: WaitingOrders<OrderJob>,
  job: OrderJob,
  signal: AbortSignal,
): Promise<void> {
  const { id } = job.order;
  const place = { mayWait: waiting.hasRoom(id), isBehind: () => waiting.isBehind(job) };
  const because = await takeRetrying(deps, job, place, signal);
  if (because === undefined) waiting.drop(id);
  else if (waiting.put(job)) deps.failed(id, "retried", because);
}

/** The position of an order among the waiting ones. */
type QueuePlace = { readonly mayWait: boolean; isBehind(): boolean };
/** Why the order has to wait; undefined if it need not wait. */
type WaitReason = string | undefined;

async function takeRetrying(
  deps: TakePolledDeps,
  job: OrderJob,
  place: QueuePlace,
  signal: AbortSignal,
): Promise<WaitReason> {
  const { id } = job.order;
  for (let failures = 1; !signal.aborted; failures += 1) {
    try {
      return await take(deps, job, place);
    } catch (error) {
      const fault = findFault(error);
      if (fault === undefined || !isRetryable(fault) || (isFull(fault) && !place.mayWait)) {
        await refuse(deps, job, error);
        return undefined;
      }
      if (isFull(fault)) return describeFault(fault);
      deps.failed(id, "retried", error);
    }
    await pause(computeBackoffMs(failures, RETRY), signal);
  }
  return undefined;
}

/** A limit is reached for now. */
function isFull(fault: Fault): boolean {
  return fault.code === "limit_exceeded" && isRetryable(fault);
}

/** Reports the refusal; an error that is not a fault is a defect, and only logged. */
async function refuse(deps: TakePolledDeps, { order, source, isAnswered }: OrderJob, error: unknown): Promise<void> {
  deps.failed(order.id, "refused", error);
  const fault = findFault(error);
  if (fault === undefined || isAnswered) return;
  await reportRefusal(deps, source, { id: order.id, type: order.type, reason: describeFault(fault) });
}

async function take(deps: TakePolledDeps, job: OrderJob, place: QueuePlace): Promise<WaitReason> {
  const { order, source, withdrawn, isAnswered } = job;
  const { requests } = deps;
  const { id } = order;
  const polled = { source, withdrawn, isAnswered };
  // Most listed orders need no work, which is known without a read of the store.
  if (decidePolled(polled, requests.holdings.seen(id)?.record).kind === "nothing") return undefined;
  const stored = await findStored(deps, id);
  const verdict = decidePolled(polled, stored?.record);
  switch (verdict.kind) {
    case "nothing":
      return undefined;
    case "report-deleted":
      await report(deps, { id, source, number: 0, result: undefined, deleted: true });
      return undefined;
    case "withdraw":
      await runInPolledTrace(order, stored?.record, () => withdrawOrder(requests, id, source));
      return undefined;
    case "order": {
      // Throws if the id is invalid.
      splitId(id);
      if (place.isBehind()) {
        if (place.mayWait) return `an earlier order of user ${order.user} waits`;
        const what = "number of waiting orders in the engine";
        return throwFault({ code: "limit_exceeded", what, limit: MAX_WAITING, retryAfterMs: deps.retryWaitingMs });
      }
      const request = { order, requestId: "", source, dryRun: false };
      const ordered = await runInPolledTrace(order, stored?.record, () => takeOrder(requests, request));
      if (!("fault" in ordered)) return undefined;
      if (ordered.answer !== "deleted") return throwFault(ordered.fault);
      deps.failed(id, "refused", describeFault(ordered.fault));
      await report(deps, { id, source, number: 0, result: undefined, deleted: true });
      return undefined;
    }
    default:
      assertNever(verdict.kind);
  }
}

/** Reports an error for an order. Reports no error if a lease has the same id, because the source would take it for an error of that lease. */
async function reportRefusal(
  deps: TakePolledDeps,
  source: string,
  { id, type, reason }: { readonly id: string; readonly type: string; readonly reason: string },
): Promise<void> {
  try {
    if ((await findStored(deps, id)) !== undefined) return;
  } catch (error) {
    deps.failed(id, "unreported", error);
    return;
  }
  const result = deps.sign(buildResult({ id, type }, { error: reason }, deps.requests.nowNs()));
  await report(deps, { id, source, number: 0, result, deleted: true });
}

/** The stored lease of an id; undefined also for an invalid id. */
async function findStored({ requests }: TakePolledDeps, id: string): Promise<StoredLease | undefined> {
  return isLeaseId(id) ? requests.records.get(id) : undefined;
}

/** Sends an answer about an order that is not stored, once for each time it is listed. */
async function report({ feedback, failed }: TakePolledDeps, answer: LeaseFeedback): Promise<void> {
  await feedback(answer).catch((error: unknown) => failed(answer.id, "unreported", error));
}
