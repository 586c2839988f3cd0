import { retryOnConflict } from "@muster/backoff";
import { makeReconciler, type ObservedInput, type PlannedStep, type Reconcile } from "@muster/controller";
import { assertNever, findFault } from "@muster/faults";
import type { Order, Result } from "@muster/leases";
import type { CallPauses } from "./call-pauses.ts";
import { buildResult, hashOrder, type ComputeDigest } from "../domain/signed-content.ts";
import { decideRetry, type RetryPolicy } from "../domain/decide-retry.ts";
import { decideTakeOver } from "../domain/decide-take-over.ts";
import type { LeaseRecord } from "../domain/lease.ts";
import { type LeaseSnapshot, planLease, type LeasePlan, type LeasePolicy } from "../domain/plan-lease.ts";
import { transitionLease } from "../domain/transition-lease.ts";
import type { LeaseChange } from "../domain/lease-change.ts";
import { describeRefusal } from "../domain/describe-reason.ts";
import { runInLeaseStep, getStepName, recordDecision, buildPassSpan, TRACER } from "./lease-trace.ts";
import { requeueAfter } from "./lease-controller.ts";
import type { StoredLease } from "../holdings/records.ts";

/**
 * The outcome of one call of a workload. `isRetryable`: a repeated call may succeed. `isWaiting`: the call waits, for example in a queue, or its lease ended
 * first; a wait is never a failure.
 */
export type PassOutcome =
  /** `recreated`: objects of an existing lease that were missing. */
  | { readonly ok: true; readonly data: string; readonly recreated?: readonly string[] }
  | { readonly ok: false; readonly message: string; readonly isRetryable: boolean; readonly isWaiting?: boolean };

export type PassDeps = {
  /** The fencing token of this leader. */
  readonly fence: number;
  readonly now: () => bigint;
  readonly read: (id: string) => Promise<StoredLease | undefined>;
  /** The record as this process knows it; undefined: unknown. It may be outdated, in which case any write based on it is refused. */
  readonly seen: (id: string) => StoredLease | undefined;
  /** Replaces this revision. Rejects with FaultError conflict if another writer was first, or a later leader has written. */
  readonly write: (stored: StoredLease, next: LeaseRecord) => Promise<StoredLease>;
  readonly remove: (stored: StoredLease) => Promise<void>;
  /** The present inputs of the next step. */
  readonly snapshotOf: (record: LeaseRecord) => LeaseSnapshot;
  /** Increases with each change of the facts that snapshots read about other leases. */
  readonly holdingsRevision: () => number;
  /** Called before the first call of each plan, because a begun lease counts from then on, and not only from the following write. */
  readonly planned: (snapshot: LeaseSnapshot, plan: LeasePlan, nowNs: bigint) => void;
  /** Creates the missing objects of the lease and finds existing ones. Resolves even on failure, and within the deadline. */
  readonly provision: (record: LeaseRecord) => Promise<PassOutcome>;
  /** Removes the objects of this and earlier runs; succeeds if none exist. */
  readonly decommission: (record: LeaseRecord) => Promise<PassOutcome>;
  readonly pauses: Pick<CallPauses, "noteWait">;
  readonly sign: (result: Omit<Result, "signature">) => Result;
  /** Whether both orders have equal data. */
  readonly isSame: (a: Order, b: Order) => boolean;
  readonly digest: ComputeDigest;
};

/** The dependencies of a change of a record. */
export type WriteDeps = Pick<PassDeps, "fence" | "now" | "read" | "write">;

export type PassPolicy = LeasePolicy & {
  readonly retry: RetryPolicy;
  /** After this many failures a retryable order fails. */
  readonly maxProvisionAttempts: number;
};

/** The observed state from which the next step is planned. `holdingsRevision` belongs to the snapshot. */
type Seen = {
  readonly stored: StoredLease;
  readonly snapshot: LeaseSnapshot;
  readonly nowNs: bigint;
  readonly holdingsRevision: number;
};

/** The next step of a lease's pass: one at most, because the following step is planned from the record that this step writes. */
type NextStep = { readonly next: LeasePlan; readonly steps: readonly PlannedStep[] };

/**
 * Passes over leases: each executes the steps of its lease until it has to wait. Each step is planned from the stored record, so that the next pass continues
 * an interrupted one. A deposed leader cannot change the record once its successor has written it.
 */
export function makeLeasePasses(deps: PassDeps, policy: PassPolicy): Reconcile {
  return (id, signal) => {
    /** The record as the previous step of this pass has left it. */
    let known: StoredLease | undefined;
    const pass = makeReconciler<Seen, NextStep>({
      tracer: TRACER,
      observe: async (): Promise<ObservedInput<Seen>> => {
        const stored = known ?? deps.seen(id) ?? (await deps.read(id));
        if (stored === undefined || signal.aborted || stored.record.fence > deps.fence) return {};
        const snapshot = deps.snapshotOf(stored.record);
        return { seen: { stored, snapshot, nowNs: deps.now(), holdingsRevision: deps.holdingsRevision() } };
      },
      plan: ({ snapshot, nowNs }) => planNext(snapshot, policy, nowNs),
      act: async ({ stored, snapshot, nowNs, holdingsRevision }, { next }) => {
        // A lease that has begun since the observation must be counted, and the end of an awaited lease must be noticed.
        if (dependsOnOthers(next) && deps.holdingsRevision() !== holdingsRevision) return "again";
        deps.planned(snapshot, next, nowNs);
        if (next.kind === "wait") return requeueAfter(next.untilNs, deps.now());
        known = await runInLeaseStep(stored.record, next, () => takeStep(deps, policy, stored, next));
        return known === undefined ? {} : "again";
      },
      span: ({ stored }, { steps }) => (steps.length === 0 ? undefined : buildPassSpan(stored.record)),
    });
    return pass(id, signal);
  };
}

type Step = Exclude<LeasePlan, { kind: "wait" }>;

function planNext(snapshot: LeaseSnapshot, policy: PassPolicy, nowNs: bigint): NextStep {
  const next = planLease(snapshot, policy, nowNs);
  return { next, steps: next.kind === "wait" ? [] : [{ kind: getStepName(next), because: next.because.code }] };
}

/** Whether other leases decide when or whether the lease may take this step. */
function dependsOnOthers(plan: LeasePlan): boolean {
  return plan.kind === "wait"
    ? plan.waitsFor !== undefined
    : plan.kind === "change" && plan.change.kind === "provisioning";
}

async function takeStep(
  deps: PassDeps,
  policy: PassPolicy,
  stored: StoredLease,
  plan: Step,
): Promise<StoredLease | undefined> {
  try {
    return await execute(deps, policy, stored, plan);
  } catch (error) {
    if (findFault(error)?.code !== "conflict") throw error;
    // A user's change was written first, so plan again.
    return deps.read(stored.record.order.id);
  }
}

async function execute(
  deps: PassDeps,
  policy: PassPolicy,
  stored: StoredLease,
  plan: Step,
): Promise<StoredLease | undefined> {
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

/** Executes one step of a take-over, which is one write. */
async function takeOver(deps: PassDeps, stored: StoredLease): Promise<StoredLease | undefined> {
  const { record } = stored;
  const { takesOver } = record;
  // A take-over cannot be undone, so an end by the user that this process does not know yet must win.
  const current = await deps.read(record.order.id);
  if (current?.revision !== stored.revision) return current;
  const older = takesOver === undefined ? undefined : await deps.read(takesOver);
  // Another leader has taken over, and continues.
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
      const error = describeRefusal(step.because);
      return apply(deps, stored, { kind: "provision-failed", result: signed(deps, record, { error }) });
    }
    case "leave":
      return apply(deps, stored, { kind: "decommissioned" });
    default:
      return assertNever(step);
  }
}

function changeFor(deps: PassDeps, policy: PassPolicy, record: LeaseRecord, outcome: PassOutcome): LeaseChange {
  if (outcome.ok) return { kind: "provisioned", result: signed(deps, record, { data: outcome.data }) };
  if (outcome.isWaiting === true) return { kind: "waiting", message: outcome.message };
  // An existing workload that was taken over is not removed because of a failed call.
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
 * Records the outcome of a call. The record may have changed during the call, for example by a renewal. The outcome is valid as long as the record is still in
 * the run and phase of the call.
 */
async function writeOutcome(
  deps: WriteDeps,
  called: StoredLease,
  changeOf: (current: LeaseRecord) => LeaseChange,
): Promise<StoredLease | undefined> {
  const { run, phase, order } = called.record;
  return retryOnConflict(`lease ${order.id}`, async (attempt) => {
    const stored = attempt === 1 ? called : await deps.read(order.id);
    if (stored === undefined || stored.record.fence > deps.fence) return { unchanged: stored };
    if (stored.record.run !== run || stored.record.phase !== phase) return { unchanged: stored };
    return { write: () => apply(deps, stored, changeOf(stored.record)) };
  });
}

/** Records a change during a call. If the write fails, only the outcome of the call is recorded. */
export async function writeDuringCall(
  deps: WriteDeps,
  { order, run }: LeaseRecord,
  change: Extract<LeaseChange, { kind: "waiting" | "lost" }>,
): Promise<void> {
  try {
    const stored = await deps.read(order.id);
    if (stored?.record.run === run) await writeOutcome(deps, stored, () => change);
  } catch (error) {
    if (findFault(error) === undefined) throw error;
  }
}

/** Writes a change. If the change no longer fits, returns the present record. */
async function apply(deps: WriteDeps, stored: StoredLease, change: LeaseChange): Promise<StoredLease | undefined> {
  const { next } = transitionLease(stored.record, change, deps.now());
  return next === undefined ? deps.read(stored.record.order.id) : deps.write(stored, next);
}
