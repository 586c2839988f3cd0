import type { ComponentKind, SessionSpec } from "./session-document.ts";

export const TERMINAL_PHASES = ["DONE", "ERROR", "CANCELLED", "INTERNAL_ERROR"] as const;
export const PHASES = ["QUEUE", "ACCEPT", "PROVISION", "RUN", ...TERMINAL_PHASES] as const;
/** UNKNOWN: a service that is newer than this CLI knows more phases. */
export type Phase = (typeof PHASES)[number] | "UNKNOWN";

export type SessionEvent = {
  readonly phase: Phase;
  readonly atMs: number;
  readonly description: string;
  /** Stable word behind an ERROR; empty for the others. */
  readonly reason: string;
};

export type ComponentStatus = {
  readonly name: string;
  readonly kind: ComponentKind | "unknown";
  readonly pool: string;
  readonly node: string;
  readonly pod: string;
  readonly podIp: string;
  /** PENDING, CREATED, or a health: READY, NOT_READY, UNKNOWN, SUCCEEDED, FAILED. */
  readonly state: string;
  readonly message: string;
  readonly exitCode: number | undefined;
};

/** A session as the session controller tells it. */
export type Session = {
  readonly name: string;
  readonly uid: string;
  readonly revision: number;
  readonly spec: SessionSpec;
  readonly events: readonly SessionEvent[];
  readonly components: readonly ComponentStatus[];
  /** JSON text that the driver left; undefined when there is none. */
  readonly resultJson: string | undefined;
  readonly warnings: readonly { readonly code: string; readonly message: string }[];
  readonly createdAtMs: number;
  /** Undefined until the session is over. */
  readonly finishedAtMs: number | undefined;
  readonly cancelRequested: boolean;
  readonly traceparent: string;
  /** Why it does not go on just now, for people; empty when it does. */
  readonly waitingBecause: string;
};

/** The phase that the session is in: that of its last event. */
export function phaseOf(session: Session): Phase {
  return session.events.at(-1)?.phase ?? "UNKNOWN";
}

export function isFinished(session: Session): boolean {
  const phase = phaseOf(session);
  return TERMINAL_PHASES.some((terminal) => terminal === phase);
}

/** The event that ended the session; undefined while it goes on. */
export function endOf(session: Session): SessionEvent | undefined {
  return isFinished(session) ? session.events.at(-1) : undefined;
}

/** Milliseconds from submission until its end, or until now. */
export function ageOf(session: Session, nowMs: number): number {
  return (session.finishedAtMs ?? nowMs) - session.createdAtMs;
}
