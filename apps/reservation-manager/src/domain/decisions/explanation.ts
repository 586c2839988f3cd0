import type { Owner } from "@muster/names";
import type { UnusableNode } from "../ledger/machines.ts";
import type { PreemptionReason, Reservation } from "../ledger/reservation.ts";
import type { RequestAhead } from "./explain-order.ts";
import type { PartDemand } from "./explain-parts.ts";
import type { WaitReason } from "./explain-waiting.ts";
import type { PreemptionLimit } from "./plan-preemptions.ts";
import type { PoolAmounts } from "./summarise-pools.ts";

/** The first entries of a list, and the number of omitted entries. */
export type TruncatedList<Entry> = { readonly listed: readonly Entry[]; readonly more: number };

/** An owner with the number of its machines, in one pool or in all. */
export type Holder = {
  readonly owner: Owner;
  readonly sequence: number;
  readonly machines: number;
  /** How many of `machines` are parts of machines. */
  readonly parts: number;
  readonly sinceMs: number;
};

/** Counts only the machines of `pool`, if given. */
export function buildHolder({ owner, sequence, grant }: Reservation, pool?: string): Holder {
  const machines = (grant?.machines ?? []).filter((machine) => pool === undefined || machine.pool === pool);
  const parts = machines.filter(({ shared }) => shared !== undefined).length;
  return { owner, sequence, machines: machines.length, parts, sinceMs: grant?.atMs ?? 0 };
}

/** Work that ends, or would have to end, for a request. */
export type Victim = Holder & { readonly reason: PreemptionReason };

export type PoolExplanation = {
  readonly pool: string;
  /** The nodes of the pool that count, as in `WaitReason`. */
  readonly nodes?: string | undefined;
  readonly requested: number;
  /** The parts among `requested`; undefined: none. */
  readonly parts: TruncatedList<PartDemand> | undefined;
  /** The amounts of the nodes that count. Undefined without parts. */
  readonly amounts: PoolAmounts | undefined;
  /** Free machines, including those kept for a hold. */
  readonly available: number;
  /** Free machines that an older request's hold keeps from this reservation. */
  readonly kept: number;
  readonly capacity: number;
  readonly held: number;
  /** The maximum size to which the pool may be scaled; undefined: it is not scaled. */
  readonly elasticMax: number | undefined;
  readonly unusable: TruncatedList<UnusableNode>;
  /** Reservations with granted machines of the pool, most machines first. */
  readonly holders: TruncatedList<Holder>;
};

/** The position of a request in the queue. `byPriority` lists the highest priorities first; `more` counts the requests of omitted priorities. */
export type QueuePlace = {
  readonly ahead: number;
  readonly byPriority: readonly { readonly priority: number; readonly requests: number }[];
  readonly more: number;
};

/** `own`: whether the hold belongs to the explained reservation. */
export type HoldInForce = { readonly reservation: Reservation; readonly own: boolean };

export type ConcurrencyUse = {
  readonly limit: number;
  readonly granted: number;
  /** Earliest first. */
  readonly holders: TruncatedList<Holder>;
};

/** The reasons for the state of a reservation, with its numbers at one time. */
export type Explanation = {
  readonly reservation: Reservation;
  /** Undefined unless the reservation waits. */
  readonly because: WaitReason | undefined;
  readonly message: string;
  readonly pools: readonly PoolExplanation[];
  /** Undefined unless the reservation waits. */
  readonly place: QueuePlace | undefined;
  readonly hold: HoldInForce | undefined;
  /** Time until which younger requests of the same priority may overtake the reservation. Undefined unless the reservation waits. */
  readonly overtakenUntilMs: number | undefined;
  readonly concurrency: ConcurrencyUse | undefined;
  /** Work that is preempted for the reservation, in the order of submission. */
  readonly preempted: TruncatedList<Victim>;
  /** Requests ahead, in the order of the rules. Undefined unless the reservation waits. */
  readonly requestsAhead: TruncatedList<RequestAhead> | undefined;
  /** Undefined unless the reservation waits and its queue preempts work. */
  readonly preemption: Outlook | undefined;
};

/** The work that the queue may preempt for a waiting request. */
export type PreemptionOutlook = {
  /** Empty: no permitted set of work is enough now. */
  readonly victims: readonly Victim[];
  /** Time at which the `minRunTime` of more work ends, which makes that work preemptible. */
  readonly againAtMs: number | undefined;
  /** The limit that prevents preemption for the request now. */
  readonly limit: PreemptionLimit | undefined;
};

type Outlook = Omit<PreemptionOutlook, "victims"> & { readonly victims: TruncatedList<Victim> };
