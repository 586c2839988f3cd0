import type { PodExits } from "./count-exits.ts";
import { acceptedUntilNs, type OrderAges } from "./decide-order.ts";
import type { Referenced, Surroundings } from "./surroundings.ts";
import { isSettled, type EndingCause, type LeaseRecord } from "./lease.ts";
import type { Claim, Read } from "./claim.ts";

/** What the next step of a lease depends on: plain data without what its user ordered or was given, so that it can be written into a log and decided about again elsewhere. */
export type LeaseSnapshot = {
  readonly lease: LeaseFacts;
  /** What its order takes and needs, or what is wrong with it. */
  readonly claim: Read<Claim>;
  /** Whether this engine has what makes its type. */
  readonly isServed: boolean;
  /** The lease that its order refers to; undefined: nobody knows of one. */
  readonly reference: Referenced | undefined;
  readonly around: Surroundings;
  /** What is seen of its pods. */
  readonly exits: readonly PodExits[];
};

/** The part of a record that decides. */
export type LeaseFacts = Pick<
  LeaseRecord,
  "phase" | "expiresAtNs" | "notBeforeNs" | "trouble" | "endedAtNs" | "crashes" | "takesOver"
> & {
  readonly id: string;
  readonly type: string;
  readonly reference: string | undefined;
  /** So long its order would be taken, should it come again and nobody know of it. */
  readonly takenUntilNs: bigint;
  readonly endsBecause: EndingCause | undefined;
  /** The lease that has its workload, or handed it on. */
  readonly keptFor: string | undefined;
  /** Events that are not on their stream. */
  readonly unpublished: number;
  /** It is over, that is told, and its data are in its record still. */
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
      takenUntilNs: acceptedUntilNs(record, ages),
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
