import { deadline, MAX_TIMER_MS } from "@muster/backoff";
import { describeFault, faultOf, formatDuration, isRetryable } from "@muster/faults";
import { isOver, waitMsUntil } from "@muster/leases";
import { goesOn, type LeaseRecord } from "../domain/lease.ts";
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
  readonly waits: (record: LeaseRecord, because: string) => Promise<void>;
  /** Writes down what was lost before the lease became active. Rejects with nothing but AbortError. */
  readonly lost: (record: LeaseRecord, what: string) => Promise<void>;
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

type Doing = "provision" | "check";
type Calling = Doing | "decommission";

export type WorkloadCalls = Pick<PassDeps, "provision" | "decommission"> & {
  /** Undefined: it was ended, or its time was over, before that was done. */
  check(record: LeaseRecord): Promise<Outcome | undefined>;
  /** Once this run of the lease is not wanted any more, its provisioner is waited for no longer, whether it has begun or stands in the queue. */
  cut(record: LeaseRecord): void;
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
  const wanted = new Map<string, { readonly run: number; readonly cut: AbortController }>();
  const untilOver = async (doing: Doing, record: LeaseRecord, cut: AbortSignal): Promise<Outcome> => {
    const { order, run, expiresAtNs } = record;
    using queued = deadline(waitMsUntil(expiresAtNs, nowNs(), MAX_TIMER_MS), [cut]);
    const turns = doing === "check" ? checking : provisioning;
    try {
      return await turns(order.user, () => begin(options, doing, { id: order.id, run }, cut), queued.signal);
    } catch (error) {
      if (!queued.signal.aborted || error !== queued.signal.reason) throw error;
      return cut.aborted ? UNWANTED : TOO_LATE;
    }
  };
  const inTurn = async (doing: Doing, asked: LeaseRecord): Promise<Outcome> => {
    const { id } = asked.order;
    const { run } = asked;
    const cut = new AbortController();
    wanted.set(id, { run, cut });
    try {
      for (let record = asked; ;) {
        const outcome = await untilOver(doing, record, cut.signal);
        if (outcome !== TOO_LATE) return outcome;
        const renewed = (await read(id))?.record;
        if (renewed?.run !== run || renewed.expiresAtNs <= record.expiresAtNs) return outcome;
        record = renewed;
      }
    } finally {
      wanted.delete(id);
    }
  };
  return {
    provision: (record) => inTurn("provision", record),
    check: async (record) => {
      const outcome = await inTurn("check", record);
      return outcome === UNWANTED || outcome === TOO_LATE ? undefined : outcome;
    },
    cut: (record) => {
      const found = wanted.get(record.order.id);
      if (found?.run === record.run && !goesOn(record)) found.cut.abort();
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
async function begin(
  options: CallOptions,
  doing: Doing,
  { id, run }: { readonly id: string; readonly run: number },
  cut: AbortSignal,
): Promise<Outcome> {
  const { workloads, nowNs, read, seen } = options;
  if (options.signal.aborted) throw lost();
  const record = (seen(id) ?? (await read(id)))?.record;
  if (record?.phase !== (doing === "check" ? "ACTIVE" : "PROVISIONING") || record.run !== run || cut.aborted)
    return UNWANTED;
  if (isOver(record.expiresAtNs, nowNs())) return TOO_LATE;
  const workload = workloads.get(record.order.type);
  if (workload === undefined)
    return { ...failed(`type of reservation not served: ${record.order.type}`, true), waits: doing === "check" };
  const remade: string[] = [];
  const work = making(options, workload, record, doing, remade);
  const outcome = await call(options, record, doing, work, cut);
  return outcome.ok && doing === "check" ? { ...outcome, remade } : outcome;
}

/** What makes the lease, or looks after it, and seals what came of it. */
function making(
  { secrets, waits, lost }: CallOptions,
  workload: Workload,
  record: LeaseRecord,
  doing: Doing,
  remade: string[],
): (signal: AbortSignal) => Promise<string> {
  let told = record.trouble;
  const asked = {
    made: (what: string) => void remade.push(what),
    waits: async (because: string): Promise<void> => {
      if (doing === "check" || told.includes(because)) return;
      told = because;
      await waits(record, because.slice(0, MESSAGE_CHARACTERS_MAX));
    },
    lost: async (what: string): Promise<void> => {
      if (doing === "provision") await lost(record, what.slice(0, MESSAGE_CHARACTERS_MAX));
    },
  };
  return async (signal) => {
    const { order } = record;
    const opened = { ...record, order: secrets.open(order), ...asked };
    if (doing === "provision" || workload.check === undefined) {
      // What was on the disk of what it takes over is not to be made anew, and empty.
      if (doing === "provision" && record.madeFor !== undefined) await workload.check?.(opened, signal);
      return secrets.seal(order, await workload.provision(opened, signal));
    }
    const changed = await workload.check(opened, signal);
    // What stands in the record is sealed already.
    return changed === undefined ? (record.result?.data ?? "null") : secrets.seal(order, changed);
  };
}

async function call(
  { deadlineMs: longestMs, nowNs, isHeld, signal, defect }: CallOptions,
  record: LeaseRecord,
  doing: Calling,
  work: (signal: AbortSignal) => Promise<string>,
  cut?: AbortSignal,
): Promise<Outcome> {
  // A process that was frozen may come here before it knows that it leads no more.
  const isLost = (): boolean => signal.aborted;
  if (isLost() || !isHeld()) throw lost();
  // What is made for a lease that is over by then would only be taken down.
  const deadlineMs = doing !== "decommission" ? waitMsUntil(record.expiresAtNs, nowNs(), longestMs) : longestMs;
  using late = deadline(deadlineMs, cut === undefined ? [signal] : [signal, cut]);
  const ended = late.signal;
  const gaveUp = Promise.withResolvers<Outcome>();
  const giveUp = (): void => {
    if (cut?.aborted === true) gaveUp.resolve(UNWANTED);
    else if (deadlineMs < longestMs) gaveUp.resolve(TOO_LATE);
    else
      gaveUp.resolve({ ...failed(`no answer within ${formatDuration(deadlineMs)}`, true), waits: doing === "check" });
  };
  ended.addEventListener("abort", giveUp);
  try {
    const begin = () => settled(record.order.id, doing, () => work(ended), defect);
    const traced = inLeaseTrace(record, { name: `${doing} ${record.order.type}` }, begin, failureOf);
    const outcome = await Promise.race([traced, gaveUp.promise]);
    // What was cut off by the end of the lead has not failed.
    if (isLost() && !outcome.ok) throw lost();
    return outcome;
  } finally {
    ended.removeEventListener("abort", giveUp);
  }
}

async function settled(
  id: string,
  doing: Calling,
  work: () => Promise<string>,
  defect: CallOptions["defect"],
): Promise<Outcome> {
  try {
    const data = await work();
    return isJson(data)
      ? { ok: true, data }
      : failed(`its result is no JSON, or larger than ${RESULT_BYTES_MAX} bytes`, false);
  } catch (error) {
    const fault = faultOf(error);
    // That nobody answers says nothing of the order.
    const isFull = fault?.code === "pool_availability";
    // What was there already has been lost where it stands in a queue again.
    const waits = fault?.code === "unavailable" || (isFull && doing !== "check");
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

/** Nothing failed: it ends, or was renewed in the last moment. What it has waited for is still what there is to tell. */
const UNWANTED: Outcome = { ...failed("", true), waits: true };
const TOO_LATE: Outcome = { ...UNWANTED };
