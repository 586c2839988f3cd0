import type { Share } from "./share.ts";

/** A piece of work of any kind, which the command submits, follows and shows. */
export type Work = {
  /** Noun of its kind, as commands name it: `session`. */
  readonly kind: string;
  readonly name: string;
  readonly uid: string;
  /** Differs whenever anything else does. */
  readonly revision: number | string;
  /** The `spec` of a document that would create it. */
  readonly spec: Readonly<Record<string, unknown>>;
  /** The counts of its kind, for tables and programs; all items of a kind have the same names in the same order: `machines`. */
  readonly columns: Readonly<Record<string, string | number>>;
  /** As the ledger knows it. */
  readonly owner: { readonly kind: string; readonly id: string };
  /** The facts that only its kind has, for the detailed view: labels and values. */
  readonly facts: readonly (readonly [label: string, value: string])[];
  readonly events: readonly WorkEvent[];
  readonly components: readonly ComponentStatus[];
  /** The conditions that are reported so far. Those of finished work do not change. */
  readonly conditions: readonly WorkCondition[];
  /** Undefined until it is over. */
  readonly outcome: Outcome | undefined;
  /** Its result as JSON text; undefined: it has none. */
  readonly resultJson: string | undefined;
  readonly warnings: readonly { readonly code: string; readonly message: string }[];
  readonly createdAtMs: number;
  /** Undefined until it is over. */
  readonly finishedAtMs: number | undefined;
  /** How well its moments are known: `seconds` where they come from the API server alone, which keeps no fractions. Absent: exact. */
  readonly resolution?: "exact" | "seconds";
  readonly cancelRequested: boolean;
  readonly traceparent: string;
  /** Why it does not progress, for people; empty when it does. */
  readonly waitingBecause: string;
};

export type Outcome = "success" | "failure" | "cancelled";

export type WorkCondition = { readonly type: string; readonly isTrue: boolean };

export type WorkEvent = {
  /** Word of the kind for where it went: `RUN`. UNKNOWN: a service that is newer than this CLI knows more words. */
  readonly phase: string;
  readonly atMs: number;
  readonly description: string;
  /** Stable word behind a failure; empty for the others. */
  readonly reason: string;
};

export type ComponentStatus = {
  readonly name: string;
  /** Its part in the work: `driver`. */
  readonly kind: string;
  readonly pool: string;
  readonly node: string;
  readonly pod: string;
  readonly podIp: string;
  /** The part of a machine that it has or waits for; absent: a whole machine. */
  readonly shared?: Share;
  /** A word of its kind. PENDING: it has no pod yet; FAILED: its log shows the reason. */
  readonly state: string;
  readonly message: string;
  readonly exitCode: number | undefined;
};

/** The phase that it is in: that of its last event. */
export function phaseOf(work: Work): string {
  return work.events.at(-1)?.phase ?? "UNKNOWN";
}

export function isFinished(work: Work): boolean {
  return work.outcome !== undefined;
}

/** The event that ended it; undefined before its end. */
export function endOf(work: Work): WorkEvent | undefined {
  return isFinished(work) ? work.events.at(-1) : undefined;
}

/** Milliseconds from submission until its end, or until now. */
export function ageOf(work: Work, nowMs: number): number {
  return (work.finishedAtMs ?? nowMs) - work.createdAtMs;
}
