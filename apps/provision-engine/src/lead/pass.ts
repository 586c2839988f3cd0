import { retryOnConflict } from "@muster/backoff";
import { assertNever, faultOf } from "@muster/faults";
import type { Order, Result } from "@muster/leases";
import type { CallPauses } from "./call-pauses.ts";
import { buildResult } from "../domain/build-result.ts";
import { decideRetry, type RetryPolicy } from "../domain/decide-retry.ts";
import { decideTakeOver } from "../domain/decide-take-over.ts";
import type { LeaseRecord } from "../domain/lease.ts";
import type { LeaseSnapshot } from "../domain/lease-snapshot.ts";
import { hashOrder, type Digest } from "../domain/order-hash.ts";
import { planLease, type LeasePlan, type LeasePolicy } from "../domain/plan-lease.ts";
import { transitionLease, type LeaseChange } from "../domain/transition-lease.ts";
import { inLeasePass, inLeaseStep, recordDecision } from "../lease-trace.ts";

/** What came of one call for a workload. `retryable`: the same call may succeed later. `waits`: it has not failed, however often it is asked: it stands in a queue, or its time was over first, of which there is nothing to tell. */
export type Outcome =
  /** `remade`: of a lease that was there, what was not, and has been made again. */
  | { readonly ok: true; readonly data: string; readonly recreated?: readonly string[] }
  | { readonly ok: false; readonly message: string; readonly isRetryable: boolean; readonly isWaiting?: boolean };

export type Stored = { readonly record: LeaseRecord; readonly revision: number };

export type PassDeps = {
  /** The engine's own fencing token. */
  readonly fence: number;
  readonly now: () => bigint;
  readonly read: (id: string) => Promise<Stored | undefined>;
  /** The record as this process knows it, which may be behind; undefined: it does not. Whatever is written after it is refused where it is. */
  readonly seen: (id: string) => Stored | undefined;
  /** Replaces this revision. Rejects with FaultError conflict when somebody else was faster, or a later leader has written. */
  readonly write: (stored: Stored, next: LeaseRecord) => Promise<Stored>;
  readonly remove: (stored: Stored) => Promise<void>;
  /** What its next step depends on, as it is now. */
  readonly snapshotOf: (record: LeaseRecord) => LeaseSnapshot;
  /** Told of each plan before anything else is looked at: what is to be begun counts from then on, and not only from the write that follows. */
  readonly planned: (snapshot: LeaseSnapshot, plan: LeasePlan, nowNs: bigint) => void;
  /** Makes what is missing of the lease, and finds what is there. Resolves also when it fails, and within its deadline. */
  readonly provision: (record: LeaseRecord) => Promise<Outcome>;
  /** Removes what is there of the lease, of this run or an earlier one; that nothing is there is success. */
  readonly decommission: (record: LeaseRecord) => Promise<Outcome>;
  readonly pauses: Pick<CallPauses, "noteWait">;
  readonly sign: (result: Omit<Result, "signature">) => Result;
  /** Whether both orders have the same data. */
  readonly isSame: (a: Order, b: Order) => boolean;
  readonly digest: Digest;
};

/** What a change of a record is written with. */
export type WriteDeps = Pick<PassDeps, "fence" | "now" | "read" | "write">;

export type PassPolicy = LeasePolicy & {
  readonly retry: RetryPolicy;
  /** After so many failures an order that could be tried again has failed. */
  readonly maxProvisionAttempts: number;
};

/** When the lease is to be looked at again, unless something changes before; undefined: only then. */
export type PassEnd = { readonly retryAfterNs: bigint | undefined; readonly because: string };

/** Of one pass; the longest way is from an order to a lease that is over, and to its record's end. */
const MAX_STEPS = 20;

/**
 * Does for one lease what there is to do, until it has to wait. Each step is decided from the record as it is stored, so a pass that dies is gone on with by the next
 * one. Of one lease there must be one pass at a time; one of a leader that was deposed changes nothing in the record once its successor has.
 */
export async function passLease(deps: PassDeps, policy: PassPolicy, id: string, signal: AbortSignal): Promise<PassEnd> {
  const first = planNext(deps, policy, deps.seen(id) ?? (await deps.read(id)), signal);
  if (!("plan" in first)) return first;
  return inLeasePass(first.stored.record, async () => {
    let next = first;
    for (let step = 1; ; step++) {
      const { stored, plan } = next;
      const changed = await inLeaseStep(stored.record, plan, () => takeStep(deps, policy, stored, plan));
      if (step === MAX_STEPS) return continueNow(deps);
      const after = planNext(deps, policy, changed, signal);
      if (!("plan" in after)) return after;
      next = after;
    }
  });
}

type Step = Exclude<LeasePlan, { kind: "wait" }>;

/** What is to be done next for a lease, or why the pass has come to its end. */
function planNext(
  deps: PassDeps,
  policy: PassPolicy,
  stored: Stored | undefined,
  signal: AbortSignal,
): PassEnd | { readonly stored: Stored; readonly plan: Step } {
  if (stored === undefined)
    return { retryAfterNs: undefined, because: "there is no such lease, or it is another engine's" };
  if (signal.aborted) return continueNow(deps);
  if (stored.record.fence > deps.fence) return { retryAfterNs: undefined, because: "another engine leads" };
  const snapshot = deps.snapshotOf(stored.record);
  const nowNs = deps.now();
  const plan = planLease(snapshot, policy, nowNs);
  deps.planned(snapshot, plan, nowNs);
  return plan.kind === "wait" ? { retryAfterNs: plan.untilNs, because: plan.because } : { stored, plan };
}

function continueNow({ now }: PassDeps): PassEnd {
  return { retryAfterNs: now(), because: "it is not finished" };
}

async function takeStep(deps: PassDeps, policy: PassPolicy, stored: Stored, plan: Step): Promise<Stored | undefined> {
  try {
    return await execute(deps, policy, stored, plan);
  } catch (error) {
    if (faultOf(error)?.code !== "conflict") throw error;
    // A user's change came first: what is to be done now may be something else.
    return deps.read(stored.record.order.id);
  }
}

async function execute(deps: PassDeps, policy: PassPolicy, stored: Stored, plan: Step): Promise<Stored | undefined> {
  const { record } = stored;
  switch (plan.kind) {
    case "change":
      return apply(deps, stored, plan.change);
    case "fail":
      return apply(deps, stored, { kind: "provision-failed", result: signed(deps, record, { error: plan.message }) });
    case "give-up": {
      const ending = { cause: "CRASHED", message: plan.message, request: undefined } as const;
      const result = signed(deps, record, { error: plan.message });
      return apply(deps, stored, { kind: "ending", ending, result });
    }
    case "take-over":
      return takeOver(deps, stored);
    case "provision": {
      const outcome = await deps.provision(record);
      if (!outcome.ok && outcome.isWaiting === true) deps.pauses.noteWait(record, deps.now());
      return writeOutcome(deps, stored, (current) => changeFor(deps, policy, current, outcome));
    }
    case "decommission": {
      const outcome = await deps.decommission(record);
      return writeOutcome(deps, stored, (current) =>
        outcome.ok ? { kind: "decommissioned" } : delay(deps, policy, current, outcome.message),
      );
    }
    case "compact":
      return apply(deps, stored, { kind: "compacted", orderHash: hashOrder(record.order, deps.digest) });
    case "remove":
      await deps.remove(stored);
      return undefined;
    default:
      return assertNever(plan);
  }
}

/** One step of handing over a workload, of which each is one write. */
async function takeOver(deps: PassDeps, stored: Stored): Promise<Stored | undefined> {
  const { record } = stored;
  const { takesOver } = record;
  // What is handed over is not taken back: a user's end that is not heard of yet counts.
  const current = await deps.read(record.order.id);
  if (current?.revision !== stored.revision) return current;
  const older = takesOver === undefined ? undefined : await deps.read(takesOver);
  // Another engine leads, and goes on with it.
  if (older !== undefined && older.record.fence > deps.fence) return undefined;
  const seen = older && { record: older.record, isSame: deps.isSame(record.order, older.record.order) };
  const step = recordDecision(decideTakeOver(record, seen, deps.fence, deps.now()));
  switch (step.kind) {
    case "hand-over":
      if (older !== undefined) await apply(deps, older, step.change);
      return stored;
    case "fence":
      if (older !== undefined) await deps.write(older, older.record);
      return stored;
    case "take":
      return apply(deps, stored, step.change);
    case "refuse": {
      const error = `failed to apply provision: ${step.because}`;
      return apply(deps, stored, { kind: "provision-failed", result: signed(deps, record, { error }) });
    }
    case "leave":
      return apply(deps, stored, { kind: "decommissioned" });
    default:
      return assertNever(step);
  }
}

function changeFor(deps: PassDeps, policy: PassPolicy, record: LeaseRecord, outcome: Outcome): LeaseChange {
  if (outcome.ok) return { kind: "provisioned", result: signed(deps, record, { data: outcome.data }) };
  if (outcome.isWaiting === true) return { kind: "waiting", message: outcome.message };
  // What it has taken over is there, and not taken down for that.
  const isThere = record.madeFor !== undefined;
  const again = isThere || (outcome.isRetryable && record.attempts + 1 < policy.maxProvisionAttempts);
  if (again) return delay(deps, policy, record, outcome.message);
  return { kind: "provision-failed", result: signed(deps, record, { error: outcome.message }) };
}

function delay({ now }: PassDeps, { retry }: PassPolicy, { attempts }: LeaseRecord, message: string): LeaseChange {
  return { kind: "delayed", message, notBeforeNs: decideRetry(attempts + 1, now(), retry) };
}

function signed({ sign, now }: PassDeps, { order }: LeaseRecord, outcome: Parameters<typeof buildResult>[1]): Result {
  return sign(buildResult(order, outcome, now()));
}

/**
 * Writes down what came of a call. While it was made, the record may well have changed: its history is published, its user renews it. As long as it is still in the
 * phase that the call was made for, what came of it holds, and the call is not made twice.
 */
async function writeOutcome(
  deps: WriteDeps,
  called: Stored,
  changeOf: (current: LeaseRecord) => LeaseChange,
): Promise<Stored | undefined> {
  const { run, phase, order } = called.record;
  return retryOnConflict(`lease ${order.id}`, async (attempt) => {
    const stored = attempt === 1 ? called : await deps.read(order.id);
    if (stored === undefined || stored.record.fence > deps.fence) return { unchanged: stored };
    if (stored.record.run !== run || stored.record.phase !== phase) return { unchanged: stored };
    return { write: () => apply(deps, stored, changeOf(stored.record)) };
  });
}

/** Writes down what happens while a call is under way. Where that cannot be, only what came of the call is known. */
export async function writeDuringCall(
  deps: WriteDeps,
  { order, run }: LeaseRecord,
  change: Extract<LeaseChange, { kind: "waiting" | "lost" }>,
): Promise<void> {
  try {
    const stored = await deps.read(order.id);
    if (stored?.record.run === run) await writeOutcome(deps, stored, () => change);
  } catch (error) {
    if (faultOf(error) === undefined) throw error;
  }
}

/** A change that no longer fits is none, and the record is looked at anew. */
async function apply(deps: WriteDeps, stored: Stored, change: LeaseChange): Promise<Stored | undefined> {
  const { next } = transitionLease(stored.record, change, deps.now());
  return next === undefined ? deps.read(stored.record.order.id) : deps.write(stored, next);
}
