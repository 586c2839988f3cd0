import type { muster } from "@muster/proto";
import type { Beneficiary, LedgerEvent } from "../domain/ledger/ledger.ts";
import {
  getReservationId,
  getSequence,
  type Preemption,
  type PreemptionReason,
  type Reservation,
} from "../domain/ledger/reservation.ts";

type PreemptedEvent = Extract<LedgerEvent, { kind: "preempted" }>;

export function toWirePreempted({
  sequence,
  beneficiary,
  reason,
  deadlineMs,
}: PreemptedEvent): muster.reservation.v1.LedgerPreempted.$Properties {
  return { id: getReservationId(sequence), ...toWireBeneficiary(beneficiary), reason, deadlineMs };
}

export function toPreempted({
  beneficiary,
  reason,
  deadlineMs,
}: muster.reservation.v1.LedgerPreempted): Omit<PreemptedEvent, "kind" | "sequence" | "atMs"> {
  return { ...toBeneficiary(beneficiary), reason: toReason(reason), deadlineMs };
}

/** `request`: the beneficiary; undefined if unknown. */
export function toWirePreemption(
  { beneficiary, reason, atMs, deadlineMs, isAccepted }: Preemption,
  request: Reservation | undefined,
): muster.reservation.v1.Preemption.$Properties {
  return {
    ...(request && { beneficiary: request.owner, queue: request.queue }),
    ...(beneficiary !== undefined && { beneficiaryId: getReservationId(beneficiary) }),
    ...{ reason, atMs, deadlineMs, accepted: isAccepted },
  };
}

export function toPreemption({
  beneficiaryId,
  reason,
  atMs,
  deadlineMs,
  accepted,
}: muster.reservation.v1.Preemption): Preemption {
  return { ...toBeneficiary(beneficiaryId), reason: toReason(reason), atMs, deadlineMs, isAccepted: accepted };
}

type Ending = "notPreemptible" | "beyondMinimum" | "graceMs";

/** Converts the conditions under which the work of a request may be preempted. */
export function toEnding({
  notPreemptible,
  beyondMinimum,
  graceMs,
}: Pick<muster.reservation.v1.ReserveRequest, Ending>): Pick<Reservation, Ending> {
  return {
    ...(notPreemptible && { notPreemptible: true as const }),
    ...(beyondMinimum && { beyondMinimum: true as const }),
    ...(graceMs > 0 && { graceMs }),
  };
}

export function toWireBeneficiaries(
  beneficiaries: readonly Beneficiary[],
): muster.reservation.v1.LedgerBeneficiary.$Properties[] {
  return beneficiaries.map(({ sequence, vacated }) => ({ id: getReservationId(sequence), vacated: [...vacated] }));
}

export function toLedgerBeneficiary({ id, vacated }: muster.reservation.v1.LedgerBeneficiary): Beneficiary {
  return {
    sequence: getSequence(id),
    vacated: vacated.map(({ owner, node }) => ({ owner: { kind: owner?.kind ?? "", id: owner?.id ?? "" }, node })),
  };
}

function toWireBeneficiary(beneficiary: number | undefined): { readonly beneficiary?: string } {
  return beneficiary === undefined ? {} : { beneficiary: getReservationId(beneficiary) };
}

function toBeneficiary(id: string): { readonly beneficiary?: number } {
  return id === "" ? {} : { beneficiary: getSequence(id) };
}

const REASONS: readonly string[] = ["RECLAIM", "FAIR_SHARING", "WITHIN_QUEUE", "DRAIN"] satisfies PreemptionReason[];

function toReason(reason: string): PreemptionReason {
  if (!REASONS.includes(reason)) throw new Error(`the ledger has a preemption for the unknown reason ${reason}`);
  return reason as PreemptionReason;
}
