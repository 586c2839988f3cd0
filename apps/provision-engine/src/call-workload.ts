import { takeTurns, TIMER_MS_MAX } from "@muster/backoff";
import { describeFault, faultOf, isRetryable } from "@muster/faults";
import { isOver, waitMsUntil } from "@muster/leases";
import type { LeaseRecord } from "./domain/lease.ts";
import { inLeaseTrace } from "./lease-trace.ts";
import type { Outcome, PassDeps, Stored } from "./pass.ts";
import type { Workload } from "./workloads/workload.ts";

export type CallOptions = {
  readonly workloads: ReadonlyMap<string, Workload>;
  readonly nowNs: () => bigint;
  /** Of each kind of call at once. */
  readonly parallel: number;
  readonly deadlineMs: number;
  /** What is to be made may have ended while its call stood in the queue. */
  readonly read: (id: string) => Promise<Pick<Stored, "record"> | undefined>;
  /** Asked before each call. */
  readonly isHeld: () => boolean;
  readonly signal: AbortSignal;
  /** Told of what is no fault. */
  readonly defect: (id: string, error: unknown) => void;
};

/** Text of an error in a record. */
const MESSAGE_CHARACTERS_MAX = 2000;
/** Of a result: its record stays below the largest value of a bucket. */
const RESULT_BYTES_MAX = 262_144;

export type WorkloadCalls = Pick<PassDeps, "provision" | "decommission"> & {
  /** Once this run of the lease is not wanted any more, its provisioner is waited for no longer, whether it has begun or stands in the queue. */
  cut(record: LeaseRecord): void;
};

/**
 * Calls of workloads, so many at once, each no longer than its deadline, nor a provisioner than its lease. One that goes on beyond it is left alone: the next call finds what it has made. Rejects with
 * AbortError once the lead is lost.
 */
export function callWorkloads(options: CallOptions): WorkloadCalls {
  const { workloads, nowNs, parallel, read } = options;
  const provisioning = takeTurns(parallel);
  const decommissioning = takeTurns(parallel);
  const wanted = new Map<string, { readonly run: number; readonly cut: AbortController }>();
  const provision = async (id: string, run: number, cut: AbortSignal): Promise<Outcome> => {
    if (options.signal.aborted) throw lost();
    const record = (await read(id))?.record;
    if (record?.phase !== "PROVISIONING" || record.run !== run || cut.aborted) return UNWANTED;
    if (isOver(record.expiresAtNs, nowNs())) return TOO_LATE;
    const workload = workloads.get(record.order.type);
    if (workload === undefined) return failed(`type of reservation not served: ${record.order.type}`, true);
    return call(options, record, "provision", (signal) => workload.provision(record, signal), cut);
  };
  return {
    provision: async ({ order: { id }, run, expiresAtNs }) => {
      const cut = new AbortController();
      wanted.set(id, { run, cut });
      const over = AbortSignal.timeout(waitMsUntil(expiresAtNs, nowNs(), TIMER_MS_MAX));
      const queued = AbortSignal.any([cut.signal, over]);
      try {
        return await provisioning(() => provision(id, run, cut.signal), queued);
      } catch (error) {
        if (error !== queued.reason) throw error;
        return cut.signal.aborted ? UNWANTED : TOO_LATE;
      } finally {
        wanted.delete(id);
      }
    },
    cut: ({ order: { id }, run, phase }) => {
      const found = wanted.get(id);
      const isWanted = phase === "ORDERED" || phase === "PROVISIONING" || phase === "ACTIVE";
      if (found?.run === run && !isWanted) found.cut.abort();
    },
    decommission: (record) =>
      decommissioning(async () => {
        const workload = workloads.get(record.order.type);
        // Who served the type before may have left something, which is taken down once it is served again.
        if (workload === undefined) return failed(`type of reservation not served: ${record.order.type}`, true);
        return call(options, record, "decommission", async (signal) => {
          await workload.decommission(record, signal);
          return "null";
        });
      }),
  };
}

async function call(
  { deadlineMs: longestMs, nowNs, isHeld, signal, defect }: CallOptions,
  record: LeaseRecord,
  doing: "provision" | "decommission",
  work: (signal: AbortSignal) => Promise<string>,
  cut?: AbortSignal,
): Promise<Outcome> {
  // A process that was frozen may come here before it knows that it leads no more.
  const isLost = (): boolean => signal.aborted;
  if (isLost() || !isHeld()) throw lost();
  // What is made for a lease that is over by then would only be taken down.
  const deadlineMs = doing === "provision" ? waitMsUntil(record.expiresAtNs, nowNs(), longestMs) : longestMs;
  const late = AbortSignal.timeout(deadlineMs);
  const ended = AbortSignal.any(cut === undefined ? [signal, late] : [signal, late, cut]);
  const gaveUp = Promise.withResolvers<Outcome>();
  const giveUp = (): void =>
    gaveUp.resolve(cut?.aborted === true ? UNWANTED : failed(`no answer within ${deadlineMs} ms`, true));
  ended.addEventListener("abort", giveUp);
  try {
    const begin = () => settled(record.order.id, () => work(ended), defect);
    const traced = inLeaseTrace(record, `${doing} ${record.order.type}`, begin, failureOf);
    const outcome = await Promise.race([traced, gaveUp.promise]);
    // What was cut off by the end of the lead has not failed.
    if (isLost() && !outcome.ok) throw lost();
    return outcome;
  } finally {
    ended.removeEventListener("abort", giveUp);
  }
}

async function settled(id: string, work: () => Promise<string>, defect: CallOptions["defect"]): Promise<Outcome> {
  try {
    const data = await work();
    return isJson(data)
      ? { ok: true, data }
      : failed(`its result is no JSON, or larger than ${RESULT_BYTES_MAX} bytes`, false);
  } catch (error) {
    const fault = faultOf(error);
    // That nobody answers says nothing of the order.
    const waits = fault?.code === "pool_availability" || fault?.code === "unavailable";
    if (fault !== undefined) return { ...failed(describeFault(fault), isRetryable(fault)), waits };
    if (!(error instanceof Error && error.name === "AbortError")) defect(id, error);
    return failed("a defect of the engine, which its log tells", true);
  }
}

/** Whatever the types say: a result that cannot be written would be tried for ever. */
function isJson(data: unknown): boolean {
  if (typeof data !== "string" || Buffer.byteLength(data) > RESULT_BYTES_MAX) return false;
  try {
    JSON.parse(data);
    return true;
  } catch {
    return false;
  }
}

function failureOf(outcome: Outcome): string | undefined {
  return outcome.ok ? undefined : outcome.message;
}

function lost(): DOMException {
  return new DOMException("the lead is lost", "AbortError");
}

function failed(message: string, retryable: boolean): Extract<Outcome, { ok: false }> {
  return { ok: false, message: message.slice(0, MESSAGE_CHARACTERS_MAX), retryable };
}

const UNWANTED = failed("it was ended before it was there", true);
const TOO_LATE = failed("its time was over before its turn came", true);
