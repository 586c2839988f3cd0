import { isOver } from "@muster/leases";
import { countExits, type CrashPolicy, type PodExits } from "./count-exits.ts";
import { decideAdmission, type Admission, decideDecommission } from "./decide-admission.ts";
import { decideReference } from "./decide-take-over.ts";
import { describeReason, describeRefusal } from "./describe-reason.ts";
import type { LeaseReason } from "./lease-reason.ts";
import { describeWait } from "./transition-lease.ts";
import type { LeaseChange } from "./lease-change.ts";
import {
  describeProblems,
  type LeaseClaim,
  type ReadResult,
  type ReferencedLease,
  type ClaimSurroundings,
} from "./claim.ts";
import { computeAcceptedUntilNs, type OrderAges } from "./decide-order.ts";
import { isSettled, type EndingCause, type LeaseRecord } from "./lease.ts";

export type LeasePolicy = {
  /** How long a record is kept after the lease has ended and its order would no longer be accepted. */
  readonly tombstoneNs: bigint;
  readonly crash: CrashPolicy;
};

export type LeasePlan =
  | { readonly kind: "change"; readonly change: LeaseChange; readonly because: LeaseReason }
  /** The order can never be served; the lease fails with this result. */
  | { readonly kind: "fail"; readonly message: string; readonly because: LeaseReason }
  /** Checks the lease whose workload this lease takes over, and acts on it (`decide-take-over.ts`). */
  | { readonly kind: "take-over"; readonly because: LeaseReason }
  | { readonly kind: "provision"; readonly because: LeaseReason }
  /** The workload cannot recover: the lease ends with this result. */
  | { readonly kind: "give-up"; readonly message: string; readonly because: LeaseReason }
  | { readonly kind: "decommission"; readonly because: LeaseReason }
  /** Removes the data of the lease from the record. */
  | { readonly kind: "compact"; readonly because: LeaseReason }
  /** Removes the record. */
  | { readonly kind: "remove"; readonly because: LeaseReason }
  /** Waits until strictly after this time, or until a change of the lease or of a lease that it waits for. */
  | {
      readonly kind: "wait";
      readonly untilNs: bigint | undefined;
      readonly waitsFor: LeaseWait | undefined;
      readonly because: LeaseReason;
    };

/** A wait for one of these leases to change, or to be over. */
export type LeaseWait = { readonly leases: readonly string[]; readonly until: "changed" | "over" };

/** Plans the next step of a lease from stored and observed facts alone, so that interrupted work continues. A lease that is over begins no step. */
export function planLease(snapshot: LeaseSnapshot, policy: LeasePolicy, nowNs: bigint): LeasePlan {
  const { lease } = snapshot;
  switch (lease.phase) {
    case "ORDERED": {
      const plan = planOrdered(snapshot, nowNs);
      return isOver(lease.expiresAtNs, nowNs) ? expire(plan) : plan;
    }
    case "PROVISIONING":
      if (isOver(lease.expiresAtNs, nowNs)) return expire();
      return (
        planPause(lease, nowNs) ??
        takeOver(lease, "takes-over") ?? { kind: "provision", because: { code: "not-active-yet" } }
      );
    case "ACTIVE":
      return isOver(lease.expiresAtNs, nowNs) ? expire() : planActive(snapshot, policy);
    case "DECOMMISSIONING":
      return planPause(lease, nowNs) ?? takeOver(lease, "may-have-workload") ?? planDecommission(snapshot);
    case "ENDED":
    case "FAILED":
      return planTombstone(lease, policy, nowNs);
  }
}

/** The end of an order that expires while it waits records the reason of the wait. */
function expire(otherwise?: LeasePlan): LeasePlan {
  const message = otherwise?.kind === "wait" ? describeWait(describeReason(otherwise.because)) : "";
  const ending = { cause: "EXPIRED", message, request: undefined } as const;
  return { kind: "change", change: { kind: "ending", ending }, because: { code: "expired" } };
}

function takeOver({ takesOver }: LeaseFacts, code: "takes-over" | "may-have-workload"): LeasePlan | undefined {
  return takesOver === undefined ? undefined : { kind: "take-over", because: { code, lease: takesOver } };
}

function planOrdered(snapshot: LeaseSnapshot, nowNs: bigint): LeasePlan {
  const { lease, claim, isServed, around } = snapshot;
  if (!claim.ok) return { kind: "fail", message: describeProblems(claim.problems), because: { code: "order-invalid" } };
  // Refuse before any resource can exist that this engine could not remove.
  const reference = decideReference(lease, snapshot.reference, nowNs);
  const admission = isServed ? (reference ?? decideAdmission(claim.value, around)) : notServed(lease);
  switch (admission.kind) {
    case "yes": {
      const takesOver = snapshot.reference && { takesOver: snapshot.reference.id };
      return { kind: "change", change: { kind: "provisioning", ...takesOver }, because: admission.because };
    }
    case "later": {
      const { leases, because } = admission;
      return { kind: "wait", untilNs: lease.expiresAtNs, waitsFor: { leases, until: "changed" }, because };
    }
    case "no":
      return { kind: "fail", message: describeRefusal(admission.because), because: admission.because };
  }
}

function notServed({ type }: LeaseFacts): Admission {
  return { kind: "no", because: { code: "type-not-served", type } };
}

function planActive({ lease, exits }: LeaseSnapshot, { crash }: LeasePolicy): LeasePlan {
  const verdict = countExits(lease.crashes, exits, crash);
  switch (verdict.kind) {
    case "nothing":
      return waitUntil(lease.expiresAtNs, { code: "healthy" });
    case "count":
      return { kind: "change", change: { kind: "exited", crashes: verdict.crashes }, because: verdict.because };
    case "give-up":
      return { kind: "give-up", message: describeReason(verdict.because), because: verdict.because };
  }
}

function planDecommission({ lease, around }: LeaseSnapshot): LeasePlan {
  const verdict = decideDecommission(around);
  if (verdict.kind === "yes") return { kind: "decommission", because: { code: "ends", cause: lease.endsBecause } };
  const waitsFor = { leases: [verdict.lease], until: "over" } as const;
  return { kind: "wait", untilNs: undefined, waitsFor, because: verdict.because };
}

function planPause({ notBeforeNs, expiresAtNs, phase, trouble }: LeaseFacts, nowNs: bigint): LeasePlan | undefined {
  if (isOver(notBeforeNs, nowNs)) return undefined;
  const endsFirst = phase === "PROVISIONING" && expiresAtNs < notBeforeNs;
  return waitUntil(endsFirst ? expiresAtNs : notBeforeNs, { code: "retry-pause", trouble });
}

/** A record must state that its lease has ended for as long as its order would be accepted again. */
function planTombstone(
  { takenUntilNs, endedAtNs, unpublished, isCompactable, keptFor }: LeaseFacts,
  policy: LeasePolicy,
  nowNs: bigint,
): LeasePlan {
  const overNs = endedAtNs !== undefined && endedAtNs > takenUntilNs ? endedAtNs : takenUntilNs;
  const goesAfterNs = overNs + policy.tombstoneNs;
  const isKept = keptFor !== undefined || !isOver(goesAfterNs, nowNs);
  if (isKept && isCompactable) return { kind: "compact", because: { code: "data-not-needed" } };
  // While the workload exists, the id of the lease must not be reused and the objects must have an owner.
  if (keptFor !== undefined) {
    const waitsFor = { leases: [keptFor], until: "over" } as const;
    return { kind: "wait", untilNs: undefined, waitsFor, because: { code: "heir-has-workload", lease: keptFor } };
  }
  if (isKept) return waitUntil(goesAfterNs, { code: "order-may-return" });
  if (unpublished > 0) return waitUntil(undefined, { code: "history-not-published" });
  return { kind: "remove", because: { code: "order-is-too-old" } };
}

function waitUntil(untilNs: bigint | undefined, because: LeaseReason): LeasePlan {
  return { kind: "wait", untilNs, waitsFor: undefined, because };
}

/** The inputs of the next step of a lease. Plain data without the user's order and result, so that a log can hold it and a decision can be replayed. */
export type LeaseSnapshot = {
  readonly lease: LeaseFacts;
  /** The resources and dependencies of the order, or the problems of its data. */
  readonly claim: ReadResult<LeaseClaim>;
  /** Whether this engine serves the type of the lease. */
  readonly isServed: boolean;
  /** The lease to which the order refers; undefined if it is unknown. */
  readonly reference: ReferencedLease | undefined;
  readonly around: ClaimSurroundings;
  /** Exits of the pods of the lease, as observed. */
  readonly exits: readonly PodExits[];
};

/** The fields of a record that decisions depend on. */
type LeaseFacts = Pick<
  LeaseRecord,
  "phase" | "expiresAtNs" | "notBeforeNs" | "trouble" | "endedAtNs" | "crashes" | "takesOver"
> & {
  readonly id: string;
  readonly type: string;
  readonly reference: string | undefined;
  /** Until this time the order would be accepted again if its record were removed. */
  readonly takenUntilNs: bigint;
  readonly endsBecause: EndingCause | undefined;
  /** The lease that has the workload of this one, or handed it on. */
  readonly keptFor: string | undefined;
  /** Number of events that are not on the stream yet. */
  readonly unpublished: number;
  /** The lease is over and its end is reported, but its record still has the data. */
  readonly isCompactable: boolean;
};

export function takeSnapshot(
  record: LeaseRecord,
  { keptFor, ...seen }: Omit<LeaseSnapshot, "lease"> & Pick<LeaseFacts, "keptFor">,
  ages: OrderAges,
): LeaseSnapshot {
  const { order, phase, expiresAtNs, notBeforeNs, trouble, endedAtNs, crashes, ending, outbox, takesOver } = record;
  const { id, type, reference } = order;
  return {
    lease: {
      id,
      type,
      reference,
      phase,
      takenUntilNs: computeAcceptedUntilNs(record, ages),
      expiresAtNs,
      notBeforeNs,
      trouble,
      endedAtNs,
      endsBecause: ending?.cause,
      unpublished: outbox.length,
      isCompactable: record.orderHash === undefined && isSettled(record),
      crashes,
      takesOver,
      keptFor,
    },
    ...seen,
  };
}
