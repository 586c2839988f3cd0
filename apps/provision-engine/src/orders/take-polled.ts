import { backoffMs, pause, takeTurns } from "@muster/backoff";
import { assertNever, describeFault, faultOf, isRetryable } from "@muster/faults";
import { splitId, type Result } from "@muster/leases";
import { buildResult } from "../domain/build-result.ts";
import { decidePolled } from "../domain/decide-polled.ts";
import { inPolledTrace } from "../lease-trace.ts";
import { takeOrder, withdraw, type RequestDeps } from "./requests.ts";
import type { LeaseJob, LeaseSource } from "../sources/lease-source.ts";
import type { Answer } from "../lead/tell-lease.ts";

export type TakePolledDeps = {
  readonly requests: RequestDeps;
  readonly feedback: (answer: Answer) => Promise<void>;
  readonly sign: (result: Omit<Result, "signature">) => Result;
  /** All that was there at the start has been taken. */
  readonly historyTaken: (source: string) => void;
  /** An order that cannot be taken, or one that is tried again. */
  readonly failed: (id: string, what: "refused" | "retried" | "untold", reason: unknown) => void;
  /** Between two attempts of what its user may not have yet. */
  readonly laterMs: number;
};

const AT_ONCE = 64;
const RETRY = { firstMs: 1000, mostMs: 30_000 };
/** Orders that their users may not have yet: they wait beside the others, so that nobody's limits hold up what others ordered. More of them are refused. */
const LATER_MOST = 1000;

/**
 * Takes what a source that is polled brings, many orders beside each other, those of one lease in order, and those of a type only once those of the type before are
 * written. What cannot be written down is tried, ever more seldom, until it is, and what its user may not have yet is tried until he may; an order that is none, or that is refused, is told to its controller, beside the others, too.
 */
export async function takePolled(deps: TakePolledDeps, source: LeaseSource, signal: AbortSignal): Promise<void> {
  const turns = takeTurns(AT_ONCE);
  const underWay = new Map<string, Promise<void>>();
  const settled = async (): Promise<void> => {
    await Promise.all(underWay.values());
  };
  const begins = takeTurns(1);
  const begin = (id: string, work: () => Promise<void>): Promise<void> =>
    begins(async () => {
      if (underWay.size >= AT_ONCE || underWay.has(id)) await settled();
      const working = turns(work).then(() => void underWay.delete(id));
      underWay.set(id, working);
    });
  const later = new Map<string, OrderJob>();
  const takeOne = async (job: OrderJob): Promise<void> => {
    const { id } = job.order;
    const isKnown = later.delete(id);
    const because = await insistOn(deps, job, signal, later.size < LATER_MOST);
    if (because === undefined) return;
    later.set(id, job);
    if (!isKnown) deps.failed(id, "retried", because);
  };
  const ended = new AbortController();
  const retrying = everyPause(deps.laterMs, AbortSignal.any([signal, ended.signal]), async () => {
    for (const [id, job] of [...later])
      // What was listed of it since then stands instead.
      await begin(id, async () => (later.get(id) === job ? takeOne(job) : undefined));
  });
  let type: string | undefined;
  for await (const job of source(signal)) {
    switch (job.kind) {
      case "order":
        if (type !== undefined && job.order.type !== type) await settled();
        ({ type } = job.order);
        await begin(job.order.id, () => takeOne(job));
        break;
      case "unreadable":
        deps.failed(job.id, "refused", job.reason);
        await begin(job.id, () => tellRefused(deps, job.source, { id: job.id, type: "", reason: job.reason }));
        break;
      case "history-read":
        await settled();
        if (!signal.aborted) deps.historyTaken(job.source);
        break;
      case "due":
        break;
      default:
        assertNever(job);
    }
  }
  ended.abort();
  await retrying;
  await settled();
}

type OrderJob = Extract<LeaseJob, { kind: "order" }>;

async function everyPause(ms: number, signal: AbortSignal, work: () => Promise<void>): Promise<void> {
  await pause(ms, signal);
  while (!signal.aborted) {
    await work();
    await pause(ms, signal);
  }
}

/** Why its user may not have it yet; undefined: that is not so. */
type Taken = string | undefined;

async function insistOn(deps: TakePolledDeps, job: OrderJob, signal: AbortSignal, mayWait: boolean): Promise<Taken> {
  const { id } = job.order;
  for (let failures = 1; !signal.aborted; failures += 1) {
    try {
      return await take(deps, job, mayWait);
    } catch (error) {
      const fault = faultOf(error);
      const isLater = fault !== undefined && isRetryable(fault);
      if (!isLater) {
        await giveUp(deps, job, error);
        return undefined;
      }
      deps.failed(id, "retried", error);
    }
    await pause(backoffMs(failures, RETRY), signal);
  }
  return undefined;
}

/** What is no fault is a defect, of which the log tells alone. */
async function giveUp(deps: TakePolledDeps, { order, source, isAnswered }: OrderJob, error: unknown): Promise<void> {
  deps.failed(order.id, "refused", error);
  const fault = faultOf(error);
  if (fault === undefined || isAnswered) return;
  await tellRefused(deps, source, { id: order.id, type: order.type, reason: describeFault(fault) });
}

async function take(deps: TakePolledDeps, job: OrderJob, mayWait: boolean): Promise<Taken> {
  const { order, source, withdrawn, isAnswered } = job;
  const { requests } = deps;
  const { id, type } = order;
  const news = { source, withdrawn, isAnswered };
  // Most of what is listed again asks for nothing: for that no answer of the store is waited for.
  if (decidePolled(news, requests.holdings.seen(id)?.record).do === "nothing") return undefined;
  const stored = await requests.records.get(id);
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
      const request = { order, requestId: "", source, dryRun: false };
      const ordered = await inPolledTrace(order, stored?.record, () => takeOrder(requests, request));
      if (!("fault" in ordered)) return undefined;
      const reason = describeFault(ordered.fault);
      if (mayWait && isRetryable(ordered.fault)) return reason;
      deps.failed(id, "refused", reason);
      if (ordered.answer === "deleted") await tell(deps, { id, source, number: 0, result: undefined, deleted: true });
      else if (!isAnswered) await tellRefused(deps, source, { id, type, reason });
      return undefined;
    }
    default:
      assertNever(verdict.do);
  }
}

/** Unless there is a lease of that id, of which the answer would not be true. */
async function tellRefused(
  deps: TakePolledDeps,
  source: string,
  { id, type, reason }: { readonly id: string; readonly type: string; readonly reason: string },
): Promise<void> {
  try {
    splitId(id);
    if ((await deps.requests.records.get(id)) !== undefined) return;
  } catch (error) {
    deps.failed(id, "untold", error);
    return;
  }
  const result = deps.sign(buildResult({ id, type }, { error: reason }, deps.requests.nowNs()));
  await tell(deps, { id, source, number: 0, result, deleted: true });
}

/** Of what nothing is stored: it is told once each time that it is listed. */
async function tell({ feedback, failed }: TakePolledDeps, answer: Answer): Promise<void> {
  await feedback(answer).catch((error: unknown) => failed(answer.id, "untold", error));
}
