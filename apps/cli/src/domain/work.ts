import type { Share } from "./share.ts";

/** A piece of work of any kind, which the command submits, follows and shows. */
export type Work = {
  /** The noun of the kind, as in commands: `session`. */
  readonly kind: string;
  readonly name: string;
  /** The namespace of a job; absent for other work. */
  readonly namespace?: string;
  readonly uid: string;
  /** Differs whenever any other field does. */
  readonly revision: number | string;
  /** The `spec` of a document that would create it. */
  readonly spec: Readonly<Record<string, unknown>>;
  /** The counts of its kind, for tables and programs; all items of a kind have the same names in the same order: `machines`. */
  readonly columns: Readonly<Record<string, string | number>>;
  /** The owner by which the ledger knows the work. */
  readonly owner: { readonly kind: string; readonly id: string };
  /** The facts that only its kind has, for the detailed view: labels and values. */
  readonly facts: readonly (readonly [label: string, value: string])[];
  readonly events: readonly WorkEvent[];
  readonly components: readonly ComponentStatus[];
  /** The conditions that are reported so far. Those of finished work do not change. */
  readonly conditions: readonly WorkCondition[];
  /** Undefined until it is over. */
  readonly outcome: Outcome | undefined;
  /** The result as JSON text; undefined if the work has none. */
  readonly resultJson: string | undefined;
  readonly warnings: readonly { readonly code: string; readonly message: string }[];
  readonly createdAtMs: number;
  /** Undefined until it is over. */
  readonly finishedAtMs: number | undefined;
  /** The resolution of the work's times: `seconds` if they come only from the API server, which keeps no fractions. Absent means exact. */
  readonly resolution?: "exact" | "seconds";
  readonly cancelRequested: boolean;
  readonly traceparent: string;
  /** Why the work makes no progress, for people; empty if it does. */
  readonly waitingBecause: string;
};

export type Outcome = "success" | "failure" | "cancelled";

export type WorkCondition = { readonly type: string; readonly isTrue: boolean };

export type WorkEvent = {
  /** The phase that was entered, in a word of the kind: `RUN`. UNKNOWN: a newer service has more phases than this CLI. */
  readonly phase: string;
  readonly atMs: number;
  readonly description: string;
  /** The stable reason of a failure; empty for any other phase. */
  readonly reason: string;
};

export type ComponentStatus = {
  readonly name: string;
  /** The role of the component in the work: `driver`. */
  readonly kind: string;
  readonly pool: string;
  /** Further accepted pools, in order of preference, until the machine is granted. */
  readonly otherPools?: readonly string[];
  readonly node: string;
  readonly pod: string;
  readonly podIp: string;
  /** The part of a machine that the component has or waits for; absent for a whole machine. */
  readonly shared?: Share;
  /** A state of the kind. PENDING: the component has no pod yet; FAILED: its log shows the reason. */
  readonly state: string;
  readonly message: string;
  readonly exitCode: number | undefined;
};

/** Returns the phase of the last event. */
export function getWorkPhase(work: Work): string {
  return work.events.at(-1)?.phase ?? "UNKNOWN";
}

export function isFinished(work: Work): boolean {
  return work.outcome !== undefined;
}

/** Returns the event that ended the work; undefined before its end. */
export function getWorkEnd(work: Work): WorkEvent | undefined {
  return isFinished(work) ? work.events.at(-1) : undefined;
}

/** Returns milliseconds from submission until the end, or until now. */
export function computeAgeMs(work: Work, nowMs: number): number {
  return (work.finishedAtMs ?? nowMs) - work.createdAtMs;
}
