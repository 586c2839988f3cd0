import type { PodExits } from "./count-exits.ts";
import { acceptedUntilNs, type OrderAges } from "./decide-order.ts";
import type { Referenced, Surroundings } from "./surroundings.ts";
import { isSettled, type EndingCause, type LeaseRecord } from "./lease.ts";
import type { Claim, Read } from "./claim.ts";

/** The inputs of the next step of a lease. Plain data without what its user ordered or received, so that a log can hold it and a decision can be replayed. */
export type LeaseSnapshot = {
  readonly lease: LeaseFacts;
  /** The resources and dependencies of its order, or the problems of its data. */
  readonly claim: Read<Claim>;
  /** Whether this engine serves its type. */
  readonly isServed: boolean;
  /** The lease that its order refers to; undefined if it is unknown. */
  readonly reference: Referenced | undefined;
  readonly around: Surroundings;
  /** Exits of its pods, as observed. */
  readonly exits: readonly PodExits[];
};

/** The fields of a record that decisions depend on. */
export type LeaseFacts = Pick<
  LeaseRecord,
  "phase" | "expiresAtNs" | "notBeforeNs" | "trouble" | "endedAtNs" | "crashes" | "takesOver"
> & {
  readonly id: string;
  readonly type: string;
  readonly reference: string | undefined;
  /** Until this time its order would be accepted again if its record were removed. */
  readonly takenUntilNs: bigint;
  readonly endsBecause: EndingCause | undefined;
  /** The lease that has its workload, or handed it on. */
  readonly keptFor: string | undefined;
  /** Number of events that are not on the stream yet. */
  readonly unpublished: number;
  /** The lease is over and its end is reported, but its record still has its data. */
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
