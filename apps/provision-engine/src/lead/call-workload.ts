import { deadline, TIMER_MS_MAX } from "@muster/backoff";
import { describeFault, faultOf, formatDuration, isRetryable } from "@muster/faults";
import { isOver, waitMsUntil } from "@muster/leases";
import { isOngoing, type LeaseRecord } from "../domain/lease.ts";
import { inLeaseTrace } from "../lease-trace.ts";
import type { OrderSecrets } from "../orders/order-secrets.ts";
import type { Outcome, PassDeps, Stored } from "./pass.ts";
import { userTurns } from "./user-turns.ts";
import type { Workload } from "../types/workload.ts";

export type CallOptions = {
  readonly workloads: ReadonlyMap<string, Workload>;
  readonly secrets: OrderSecrets;
  readonly nowNs: () => bigint;
  /** Of each kind of call at once. */
  readonly parallel: number;
  readonly deadlineMs: number;
  readonly read: (id: string) => Promise<Pick<Stored, "record"> | undefined>;
  /** The record as this process knows it: what is to be made may have ended while its call stood in the queue. One that ends at that very moment is cut off. */
  readonly seen: (id: string) => Pick<Stored, "record"> | undefined;
  /** Writes down what a provisioner waits for. Rejects with nothing but AbortError. */
  readonly recordWait: (record: LeaseRecord, because: string) => Promise<void>;
  /** Writes down what was lost before the lease became active. Rejects with nothing but AbortError. */
  readonly recordLoss: (record: LeaseRecord, what: string) => Promise<void>;
  /** Asked before each call. */
  readonly isHeld: () => boolean;
  readonly signal: AbortSignal;
  /** Told of what is no fault. */
  readonly defect: (id: string, error: unknown) => void;
};

/** Text of an error in a record. */
const MAX_MESSAGE_CHARACTERS = 2000;
/** Of a result: its record stays below the largest value of a bucket. */
const MAX_RESULT_BYTES = 262_144;

type MakingCall = "provision" | "check";
type CallName = MakingCall | "decommission";

export type WorkloadCalls = Pick<PassDeps, "provision" | "decommission"> & {
  /** Undefined: it was ended, or its time was over, before that was done. */
  check(record: LeaseRecord): Promise<Outcome | undefined>;
  /** Once this run of the lease is not wanted any more, its provisioner is waited for no longer, whether it has begun or stands in the queue. */
  cancel(record: LeaseRecord): void;
};

/**
 * Calls of workloads, so many at once and user by user, each no longer than its deadline, nor a provisioner than its lease. One that goes on beyond it is left alone: the next call finds what it has made. Rejects with
 * AbortError once the lead is lost.
 */
export function callWorkloads(options: CallOptions): WorkloadCalls {
  const { workloads, nowNs, parallel, read } = options;
  const provisioning = userTurns(parallel);
  const decommissioning = userTurns(parallel);
  const checking = userTurns(parallel);
  const inFlight = new Map<string, { readonly run: number; readonly cancel: AbortController }>();
  const makeUntilExpiry = async (name: MakingCall, record: LeaseRecord, cut: AbortSignal): Promise<Outcome> => {
    const { order, run, expiresAtNs } = record;
    using queued = deadline(waitMsUntil(expiresAtNs, nowNs(), TIMER_MS_MAX), [cut]);
    const turns = name === "check" ? checking : provisioning;
    try {
      return await turns(order.user, () => makeInTurn(options, name, { id: order.id, run }, cut), queued.signal);
    } catch (error) {
      if (!queued.signal.aborted || error !== queued.signal.reason) throw error;
      return cut.aborted ? CANCELLED : EXPIRED;
    }
  };
  const make = async (name: MakingCall, asked: LeaseRecord): Promise<Outcome> => {
    const { id } = asked.order;
    const { run } = asked;
    const cancel = new AbortController();
    inFlight.set(id, { run, cancel });
    try {
      for (let record = asked; ;) {
        const outcome = await makeUntilExpiry(name, record, cancel.signal);
        if (outcome !== EXPIRED) return outcome;
        const renewed = (await read(id))?.record;
        if (renewed?.run !== run || renewed.expiresAtNs <= record.expiresAtNs) return outcome;
        record = renewed;
      }
    } finally {
      inFlight.delete(id);
    }
  };
  return {
    provision: (record) => make("provision", record),
    check: async (record) => {
      const outcome = await make("check", record);
      return outcome === CANCELLED || outcome === EXPIRED ? undefined : outcome;
    },
    cancel: (record) => {
      const found = inFlight.get(record.order.id);
      if (found?.run === record.run && !isOngoing(record)) found.cancel.abort();
    },
    decommission: (record) =>
      decommissioning(record.order.user, async () => {
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

/** At its turn, for which it may have waited for long. */
async function makeInTurn(
  options: CallOptions,
  name: MakingCall,
  { id, run }: { readonly id: string; readonly run: number },
  cut: AbortSignal,
): Promise<Outcome> {
  const { workloads, nowNs, read, seen } = options;
  if (options.signal.aborted) throw leadLost();
  const record = (seen(id) ?? (await read(id)))?.record;
  if (record?.phase !== (name === "check" ? "ACTIVE" : "PROVISIONING") || record.run !== run || cut.aborted)
    return CANCELLED;
  if (isOver(record.expiresAtNs, nowNs())) return EXPIRED;
  const workload = workloads.get(record.order.type);
  if (workload === undefined)
    return { ...failed(`type of reservation not served: ${record.order.type}`, true), isWaiting: name === "check" };
  const recreated: string[] = [];
  const work = workOf(options, workload, record, name, recreated);
  const outcome = await call(options, record, name, work, cut);
  return outcome.ok && name === "check" ? { ...outcome, recreated } : outcome;
}

/** What makes the lease, or looks after it, and seals what came of it. */
function workOf(
  { secrets, recordWait, recordLoss }: CallOptions,
  workload: Workload,
  record: LeaseRecord,
  name: MakingCall,
  recreated: string[],
): (signal: AbortSignal) => Promise<string> {
  let recorded = record.trouble;
  const callbacks = {
    onCreated: (what: string) => void recreated.push(what),
    onWait: async (because: string): Promise<void> => {
      if (name === "check" || recorded.includes(because)) return;
      recorded = because;
      await recordWait(record, because.slice(0, MAX_MESSAGE_CHARACTERS));
    },
    onLost: async (what: string): Promise<void> => {
      if (name === "provision") await recordLoss(record, what.slice(0, MAX_MESSAGE_CHARACTERS));
    },
  };
  return async (signal) => {
    const { order } = record;
    const opened = { ...record, order: secrets.open(order), ...callbacks };
    if (name === "provision" || workload.check === undefined) {
      // What was on the disk of what it takes over is not to be made anew, and empty.
      if (name === "provision" && record.madeFor !== undefined) await workload.check?.(opened, signal);
      return secrets.seal(order, await workload.provision(opened, signal));
    }
    const changed = await workload.check(opened, signal);
    // What stands in the record is sealed already.
    return changed === undefined ? (record.result?.data ?? "null") : secrets.seal(order, changed);
  };
}

async function call(
  { deadlineMs: maxDeadlineMs, nowNs, isHeld, signal, defect }: CallOptions,
  record: LeaseRecord,
  name: CallName,
  work: (signal: AbortSignal) => Promise<string>,
  cut?: AbortSignal,
): Promise<Outcome> {
  // A process that was frozen may come here before it knows that it leads no more.
  const isLost = (): boolean => signal.aborted;
  if (isLost() || !isHeld()) throw leadLost();
  // What is made for a lease that is over by then would only be taken down.
  const deadlineMs = name !== "decommission" ? waitMsUntil(record.expiresAtNs, nowNs(), maxDeadlineMs) : maxDeadlineMs;
  using timeout = deadline(deadlineMs, cut === undefined ? [signal] : [signal, cut]);
  const ended = timeout.signal;
  const early = Promise.withResolvers<Outcome>();
  const resolveEarly = (): void => {
    if (cut?.aborted === true) early.resolve(CANCELLED);
    else if (deadlineMs < maxDeadlineMs) early.resolve(EXPIRED);
    else
      early.resolve({ ...failed(`no answer within ${formatDuration(deadlineMs)}`, true), isWaiting: name === "check" });
  };
  ended.addEventListener("abort", resolveEarly);
  try {
    const makeInTurn = () => outcomeOf(record.order.id, name, () => work(ended), defect);
    const traced = inLeaseTrace(record, { name: `${name} ${record.order.type}` }, makeInTurn, failureOf);
    const outcome = await Promise.race([traced, early.promise]);
    // What was cut off by the end of the lead has not failed.
    if (isLost() && !outcome.ok) throw leadLost();
    return outcome;
  } finally {
    ended.removeEventListener("abort", resolveEarly);
  }
}

async function outcomeOf(
  id: string,
  name: CallName,
  work: () => Promise<string>,
  defect: CallOptions["defect"],
): Promise<Outcome> {
  try {
    const data = await work();
    return isJson(data)
      ? { ok: true, data }
      : failed(`its result is no JSON, or larger than ${MAX_RESULT_BYTES} bytes`, false);
  } catch (error) {
    const fault = faultOf(error);
    // That nobody answers says nothing of the order.
    const isFull = fault?.code === "pool_availability";
    // What was there already has been lost where it stands in a queue again.
    const isWaiting = fault?.code === "unavailable" || (isFull && name !== "check");
    if (fault !== undefined) return { ...failed(describeFault(fault), isRetryable(fault)), isWaiting };
    if (!(error instanceof Error && error.name === "AbortError")) defect(id, error);
    return failed("a defect of the engine, which its log tells", true);
  }
}

/** Whatever the types say: a result that cannot be written would be tried for ever. */
function isJson(data: unknown): boolean {
  if (typeof data !== "string" || Buffer.byteLength(data) > MAX_RESULT_BYTES) return false;
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

function leadLost(): DOMException {
  return new DOMException("the lead is lost", "AbortError");
}

function failed(message: string, isRetryable: boolean): Extract<Outcome, { ok: false }> {
  return { ok: false, message: message.slice(0, MAX_MESSAGE_CHARACTERS), isRetryable };
}

/** Nothing failed: it ends, or was renewed in the last moment. What it has waited for is still what there is to tell. */
const CANCELLED: Outcome = { ...failed("", true), isWaiting: true };
const EXPIRED: Outcome = { ...CANCELLED };
