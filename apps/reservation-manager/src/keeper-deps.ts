import type { Context } from "@opentelemetry/api";
import type { Log } from "@muster/store";
import type { DecisionOutcome } from "./decision-spans.ts";
import type { WaitReason } from "./domain/decisions/explain-waiting.ts";
import type { PoolAmounts } from "./domain/decisions/summarise-pools.ts";
import type { PreemptionNews } from "./domain/follow-preemptions.ts";
import type { Ledger, LedgerEvent } from "./domain/ledger/ledger.ts";
import type { NodeFacts, PoolScaling, PoolState } from "./domain/ledger/machines.ts";
import type { Queue } from "./domain/ledger/queue.ts";
import type { Reservation } from "./domain/ledger/reservation.ts";

/** The dependencies of the ledger's keeper. */
export type LedgerDeps = {
  readonly log: Pick<Log<Ledger, LedgerEvent>, "state" | "transact" | "onCommit">;
  /** The known live nodes. */
  readonly nodes: () => readonly NodeFacts[];
  /** All scaled pools. */
  readonly scalings: () => readonly PoolScaling[];
  /** All configured queues; a new list when one of them changes. */
  readonly queues: () => readonly Queue[];
  /** Returns whether every node is known. */
  readonly allNodesKnown: (nowMs: number) => boolean;
  readonly now: () => number;
  /** Announces stored changes, under the trace of the request that caused them where that is known. Must not throw. */
  readonly announce: (news: ReservationChange, caller: Context | undefined) => void;
  /** Called with each decision, for metrics. */
  readonly decided: (outcome: DecisionOutcome) => void;
  /** Called with stored outcomes of preemptions and with each limit that a pass reached, for metrics and the log. */
  readonly preemption: (news: PreemptionNews) => void;
  /** Waits for `ms`, by default the delay before a failed pass is retried; returns early when the signal is aborted. */
  readonly pause: (signal: AbortSignal, ms?: number) => Promise<void>;
};

/** A reservation now, or when it ended. `preempted`: its preemption began, or was withdrawn. */
export type ReservationChange = {
  readonly kind: "granted" | "preempted" | "released";
  readonly reservation: Reservation;
} & Pick<ReservationReport, "beneficiary">;

export type ReservationReport = {
  readonly reservation: Reservation;
  readonly because: WaitReason | undefined;
  /** The request that it is preempted for. */
  readonly beneficiary?: Reservation | undefined;
};

export type PoolReport = { readonly state: PoolState; readonly amounts: PoolAmounts; readonly waiting: number };
