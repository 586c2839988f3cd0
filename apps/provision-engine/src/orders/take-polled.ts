import { backoffMs, pause, takeTurns } from "@muster/backoff";
import { assertNever, describeFault, faultOf, isRetryable, throwFault, type Fault } from "@muster/faults";
import { isLeaseId, splitId, type Result } from "@muster/leases";
import { buildResult } from "../domain/build-result.ts";
import { decidePolled } from "../domain/decide-polled.ts";
import { inPolledTrace } from "../lease-trace.ts";
import { takeOrder, withdraw, type RequestDeps } from "./requests.ts";
import { waitingOrders, type WaitingOrders } from "./waiting-orders.ts";
import type { LeaseJob, LeaseSource } from "../sources/lease-source.ts";
import type { Stored } from "../lead/pass.ts";
import type { Answer } from "../lead/tell-lease.ts";

export type TakePolledDeps = {
  readonly requests: RequestDeps;
  readonly feedback: (answer: Answer) => Promise<void>;
  readonly sign: (result: Omit<Result, "signature">) => Result;
  /** All that was there at the start has been taken. */
  readonly historyTaken: (source: string) => void;
  /** An order that cannot be taken, or one that is tried again. */
  readonly failed: (id: string, what: "refused" | "retried" | "untold", reason: unknown) => void;
  /** Between two attempts of what waits: its user may not have it yet, or there is no room. */
  readonly laterMs: number;
};

const AT_ONCE = 64;
const RETRY = { firstMs: 1000, maxMs: 30_000 };
/** Orders that wait beside the others, so that neither one user's limits nor a full store hold up what others order and withdraw. More of them are refused. */
const LATER_MOST = 1000;

/**
 * Takes what a source that is polled brings, many orders beside each other, those of one lease in order, and those of a type only once those of the type before are
 * written. What the store does not answer is tried, ever more seldom, until it does; what its user may not have yet, or finds no room, waits, with all that he orders after
 * it; an order that is none, or that is refused, is told to its controller, beside the others, too. Once the source has ended it goes on until nothing waits.
 */
export async function takePolled(deps: TakePolledDeps, source: LeaseSource, signal: AbortSignal): Promise<void> {
  const { begin, settled } = sideBySide();
  const waiting = waitingOrders<OrderJob>(LATER_MOST);
  const takeOne = (job: OrderJob): Promise<void> => takeOrWait(deps, waiting, job, signal);
  const histories = new Map<string, readonly string[]>();
  const tellHistories = (): void => {
    for (const [from, listed] of histories) {
      if (listed.some((id) => waiting.has(id))) continue;
      histories.delete(from);
      if (!signal.aborted) deps.historyTaken(from);
    }
  };
  const ended = new AbortController();
  const retrying = retryWaiting(
    { waiting, begin, takeOne, afterRound: tellHistories, ended: ended.signal },
    deps,
    signal,
  );
  let type: string | undefined;
  for await (const job of source(signal)) {
    switch (job.kind) {
      case "order":
        // What it takes over is there before it.
        if ((type !== undefined && job.order.type !== type) || job.order.reference !== undefined) await settled();
        ({ type } = job.order);
        await begin(job.order.id, () => takeOne(job));
        break;
      case "unreadable":
        deps.failed(job.id, "refused", job.reason);
        await begin(job.id, () => tellRefused(deps, job.source, { id: job.id, type: "", reason: job.reason }));
        break;
      case "history-read":
        await settled();
        // What waits may have been made before: nobody may take it for left over.
        histories.set(job.source, waiting.ids());
        tellHistories();
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
/** Resolves once it has begun, with what ends with it. */
type Begin = (id: string, work: () => Promise<void>) => Promise<{ readonly done: Promise<void> }>;

/** Work of many ids beside each other, and of one id after each other. */
function sideBySide(): { readonly begin: Begin; settled(): Promise<void> } {
  const begins = takeTurns(1);
  const underWay = new Map<string, Promise<void>>();
  const settled = async (): Promise<void> => {
    await Promise.all(underWay.values());
  };
  const begin: Begin = (id, work) =>
    begins(async () => {
      if (underWay.size >= AT_ONCE || underWay.has(id)) await settled();
      const done = work().finally(() => void underWay.delete(id));
      underWay.set(id, done);
      return { done };
    });
  return { begin, settled };
}

type Retrying = {
  readonly waiting: WaitingOrders<OrderJob>;
  readonly begin: Begin;
  takeOne(job: OrderJob): Promise<void>;
  afterRound(): void;
  /** Aborted once the source brings nothing any more. */
  readonly ended: AbortSignal;
};

/** Tries what waits, those of a user one after another up to the first that still has to. */
async function retryWaiting(retrying: Retrying, { laterMs }: TakePolledDeps, signal: AbortSignal): Promise<void> {
  const { waiting, begin, takeOne, afterRound, ended } = retrying;
  const isEmpty = (): boolean => waiting.ids().length === 0;
  const tryQueue = async (jobs: readonly OrderJob[]): Promise<void> => {
    for (const job of jobs) {
      // What was listed of it since then stands instead.
      const { done } = await begin(job.order.id, async () => (waiting.isCurrent(job) ? takeOne(job) : undefined));
      await done;
      if (waiting.has(job.order.id)) return;
    }
  };
  const isOver = (): boolean => signal.aborted || (ended.aborted && isEmpty());
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
  const because = await insistOn(deps, job, place, signal);
  if (because === undefined) waiting.drop(id);
  else if (waiting.put(job)) deps.failed(id, "retried", because);
}

/** Where an order stands among those that wait. */
type Place = { readonly mayWait: boolean; isBehind(): boolean };
/** Why it cannot be taken yet; undefined: that is not so. */
type Taken = string | undefined;

async function insistOn(deps: TakePolledDeps, job: OrderJob, place: Place, signal: AbortSignal): Promise<Taken> {
  const { id } = job.order;
  for (let failures = 1; !signal.aborted; failures += 1) {
    try {
      return await take(deps, job, place);
    } catch (error) {
      const fault = faultOf(error);
      if (fault === undefined || !isRetryable(fault) || (isFull(fault) && !place.mayWait)) {
        await giveUp(deps, job, error);
        return undefined;
      }
      if (isFull(fault)) return describeFault(fault);
      deps.failed(id, "retried", error);
    }
    await pause(backoffMs(failures, RETRY), signal);
  }
  return undefined;
}

/** There is no room, and may be later. */
function isFull(fault: Fault): boolean {
  return fault.code === "limit_exceeded" && isRetryable(fault);
}

/** What is no fault is a defect, of which the log tells alone. */
async function giveUp(deps: TakePolledDeps, { order, source, isAnswered }: OrderJob, error: unknown): Promise<void> {
  deps.failed(order.id, "refused", error);
  const fault = faultOf(error);
  if (fault === undefined || isAnswered) return;
  await tellRefused(deps, source, { id: order.id, type: order.type, reason: describeFault(fault) });
}

async function take(deps: TakePolledDeps, job: OrderJob, place: Place): Promise<Taken> {
  const { order, source, withdrawn, isAnswered } = job;
  const { requests } = deps;
  const { id } = order;
  const news = { source, withdrawn, isAnswered };
  // Most of what is listed again asks for nothing: for that no answer of the store is waited for.
  if (decidePolled(news, requests.holdings.seen(id)?.record).do === "nothing") return undefined;
  const stored = await storedOf(deps, id);
  const verdict = decidePolled(news, stored?.record);
  switch (verdict.do) {
    case "nothing":
      return undefined;
    case "tell-deleted":
      await tell(deps, { id, source, number: 0, result: undefined, deleted: true });
      return undefined;
    case "withdraw":
      await inPolledTrace(order, stored?.record, () => withdraw(requests, id, source));
      return undefined;
    case "order": {
      // Throws where no lease can have this id.
      splitId(id);
      if (place.isBehind()) {
        if (place.mayWait) return `an earlier order of user ${order.user} waits`;
        const what = "orders that wait in the engine";
        return throwFault({ code: "limit_exceeded", what, limit: LATER_MOST, retryAfterMs: deps.laterMs });
      }
      const request = { order, requestId: "", source, dryRun: false };
      const ordered = await inPolledTrace(order, stored?.record, () => takeOrder(requests, request));
      if (!("fault" in ordered)) return undefined;
      if (ordered.answer !== "deleted") return throwFault(ordered.fault);
      deps.failed(id, "refused", ordered.because);
      await tell(deps, { id, source, number: 0, result: undefined, deleted: true });
      return undefined;
    }
    default:
      assertNever(verdict.do);
  }
}

/** Answers with an error, unless the id is that of a lease: the answer would not be about it. */
async function tellRefused(
  deps: TakePolledDeps,
  source: string,
  { id, type, reason }: { readonly id: string; readonly type: string; readonly reason: string },
): Promise<void> {
  try {
    if ((await storedOf(deps, id)) !== undefined) return;
  } catch (error) {
    deps.failed(id, "untold", error);
    return;
  }
  const result = deps.sign(buildResult({ id, type }, { error: reason }, deps.requests.nowNs()));
  await tell(deps, { id, source, number: 0, result, deleted: true });
}

/** The lease of an id as it is stored; undefined also for an id that no lease can have. */
async function storedOf({ requests }: TakePolledDeps, id: string): Promise<Stored | undefined> {
  return isLeaseId(id) ? requests.records.get(id) : undefined;
}

/** Of what nothing is stored: it is told once each time that it is listed. */
async function tell({ feedback, failed }: TakePolledDeps, answer: Answer): Promise<void> {
  await feedback(answer).catch((error: unknown) => failed(answer.id, "untold", error));
}
