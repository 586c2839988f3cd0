import { makeDeadline, MAX_TIMER_MS } from "@muster/backoff";
import { describeFault, findFault, formatDuration, isRetryable } from "@muster/faults";
import { isOver, waitMsUntil } from "@muster/leases";
import { isOngoing, type LeaseRecord } from "../domain/lease.ts";
import { runInLeaseTrace } from "./lease-trace.ts";
import type { OrderSecrets } from "../holdings/order-secrets.ts";
import type { PassOutcome, PassDeps } from "./pass.ts";
import type { StoredLease } from "../holdings/records.ts";
import { makeUserTurns } from "./user-turns.ts";
import type { Workload } from "../types/workload.ts";

export type CallOptions = {
  readonly workloads: ReadonlyMap<string, Workload>;
  readonly secrets: OrderSecrets;
  readonly nowNs: () => bigint;
  /** Maximum concurrent calls of each kind. */
  readonly parallel: number;
  readonly deadlineMs: number;
  readonly read: (id: string) => Promise<Pick<StoredLease, "record"> | undefined>;
  /** The record as this process knows it: a lease may have ended while its call was queued. Later ends cancel the call. */
  readonly seen: (id: string) => Pick<StoredLease, "record"> | undefined;
  /** Records the reason why a provisioner waits. Rejects only with AbortError. */
  readonly recordWait: (record: LeaseRecord, because: string) => Promise<void>;
  /** Records a loss before the lease became active. Rejects only with AbortError. */
  readonly recordLoss: (record: LeaseRecord, what: string) => Promise<void>;
  /** Checked before each call. */
  readonly isHeld: () => boolean;
  readonly signal: AbortSignal;
  /** Called with errors that are not faults. */
  readonly defect: (id: string, error: unknown) => void;
};

/** Maximum error text in a record. */
const MAX_MESSAGE_CHARACTERS = 2000;
/** Maximum size of a result, so that its record stays below the maximum value of a bucket. */
const MAX_RESULT_BYTES = 262_144;

type MakingCall = "provision" | "check";
type CallName = MakingCall | "decommission";

export type WorkloadCalls = Pick<PassDeps, "provision" | "decommission"> & {
  /** Undefined: the lease ended or expired before the end of the check. */
  check(record: LeaseRecord): Promise<PassOutcome | undefined>;
  /** If this run of the lease is ending, stops waiting for its provisioner, whether queued or in flight. */
  cancel(record: LeaseRecord): void;
};

/**
 * Calls workloads with limited concurrency, fair between users. A call ends at its deadline, and a provisioner call also when its lease expires. A call that
 * continues after its end is abandoned: the next call finds its objects. Rejects with AbortError once the lead is lost.
 */
export function callWorkloads(options: CallOptions): WorkloadCalls {
  const { workloads, nowNs, parallel, read } = options;
  const provisioning = makeUserTurns(parallel);
  const decommissioning = makeUserTurns(parallel);
  const checking = makeUserTurns(parallel);
  const inFlight = new Map<string, { readonly run: number; readonly cancel: AbortController }>();
  const makeUntilExpiry = async (name: MakingCall, record: LeaseRecord, cut: AbortSignal): Promise<PassOutcome> => {
    const { order, run, expiresAtNs } = record;
    using queued = makeDeadline(waitMsUntil(expiresAtNs, nowNs(), MAX_TIMER_MS), [cut]);
    const turns = name === "check" ? checking : provisioning;
    try {
      return await turns(order.user, () => callInTurn(options, name, { id: order.id, run }, cut), queued.signal);
    } catch (error) {
      if (!queued.signal.aborted || error !== queued.signal.reason) throw error;
      return cut.aborted ? CANCELLED : EXPIRED;
    }
  };
  const make = async (name: MakingCall, asked: LeaseRecord): Promise<PassOutcome> => {
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
        // An earlier configuration may have served the type: its objects are removed once it is served again.
        if (workload === undefined) return failed(`type of reservation not served: ${record.order.type}`, true);
        return call(options, record, "decommission", async (signal) => {
          await workload.decommission(record, signal);
          return "null";
        });
      }),
  };
}

/** Starts a queued call, possibly long after it was requested. */
async function callInTurn(
  options: CallOptions,
  name: MakingCall,
  { id, run }: { readonly id: string; readonly run: number },
  cut: AbortSignal,
): Promise<PassOutcome> {
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
  const work = buildWork(options, workload, record, name, recreated);
  const outcome = await call(options, record, name, work, cut);
  return outcome.ok && name === "check" ? { ...outcome, recreated } : outcome;
}

/** Returns the work that provisions or checks a lease and seals its result. */
function buildWork(
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
      // A lost disk of a workload that is taken over must not be recreated empty.
      if (name === "provision" && record.madeFor !== undefined) await workload.check?.(opened, signal);
      return secrets.seal(order, await workload.provision(opened, signal));
    }
    const changed = await workload.check(opened, signal);
    // The stored result is sealed already.
    return changed === undefined ? (record.result?.data ?? "null") : secrets.seal(order, changed);
  };
}

async function call(
  { deadlineMs: maxDeadlineMs, nowNs, isHeld, signal, defect }: CallOptions,
  record: LeaseRecord,
  name: CallName,
  work: (signal: AbortSignal) => Promise<string>,
  cut?: AbortSignal,
): Promise<PassOutcome> {
  // A process that was frozen may continue here before it notices that it no longer leads.
  const isLost = (): boolean => signal.aborted;
  if (isLost() || !isHeld()) throw leadLost();
  // Objects of a lease that is over at their creation would be removed immediately.
  const deadlineMs = name !== "decommission" ? waitMsUntil(record.expiresAtNs, nowNs(), maxDeadlineMs) : maxDeadlineMs;
  using timeout = makeDeadline(deadlineMs, cut === undefined ? [signal] : [signal, cut]);
  const ended = timeout.signal;
  const early = Promise.withResolvers<PassOutcome>();
  const resolveEarly = (): void => {
    if (cut?.aborted === true) early.resolve(CANCELLED);
    else if (deadlineMs < maxDeadlineMs) early.resolve(EXPIRED);
    else
      early.resolve({ ...failed(`no answer within ${formatDuration(deadlineMs)}`, true), isWaiting: name === "check" });
  };
  ended.addEventListener("abort", resolveEarly);
  try {
    const runWork = () => awaitOutcome(record.order.id, name, () => work(ended), defect);
    const traced = runInLeaseTrace(record, { name: `${name} ${record.order.type}` }, runWork, findFailure);
    const outcome = await Promise.race([traced, early.promise]);
    // A call cut off by the loss of the lead has not failed.
    if (isLost() && !outcome.ok) throw leadLost();
    return outcome;
  } finally {
    ended.removeEventListener("abort", resolveEarly);
  }
}

async function awaitOutcome(
  id: string,
  name: CallName,
  work: () => Promise<string>,
  defect: CallOptions["defect"],
): Promise<PassOutcome> {
  try {
    const data = await work();
    return isJson(data)
      ? { ok: true, data }
      : failed(`its result is not JSON, or larger than ${MAX_RESULT_BYTES} bytes`, false);
  } catch (error) {
    const fault = findFault(error);
    // An unavailable dependency does not count as a failure of the order.
    const isFull = fault?.code === "pool_availability";
    // An active lease that has to queue again has lost its machines, which is a failure.
    const isWaiting = fault?.code === "unavailable" || (isFull && name !== "check");
    if (fault !== undefined) return { ...failed(describeFault(fault), isRetryable(fault)), isWaiting };
    if (!(error instanceof Error && error.name === "AbortError")) defect(id, error);
    return failed("internal error of the engine; see its log", true);
  }
}

/** Rejects results that cannot be stored: writing them would be retried forever. */
function isJson(data: unknown): boolean {
  if (typeof data !== "string" || Buffer.byteLength(data) > MAX_RESULT_BYTES) return false;
  try {
    JSON.parse(data);
    return true;
  } catch {
    return false;
  }
}

function findFailure(outcome: PassOutcome): string | undefined {
  return outcome.ok ? undefined : outcome.message;
}

function leadLost(): DOMException {
  return new DOMException("the lead is lost", "AbortError");
}

function failed(message: string, isRetryable: boolean): Extract<PassOutcome, { ok: false }> {
  return { ok: false, message: message.slice(0, MAX_MESSAGE_CHARACTERS), isRetryable };
}

/** The lease ends, or was renewed at the last moment. The recorded reason of its wait stays. */
const CANCELLED: PassOutcome = { ...failed("", true), isWaiting: true };
const EXPIRED: PassOutcome = { ...CANCELLED };
