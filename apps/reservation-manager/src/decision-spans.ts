import { SpanStatusCode, trace, type Span } from "@opentelemetry/api";
import { findFault, getReason, type Fault } from "@muster/faults";
import { inSpan } from "@muster/tracing";
import type { AcceptVerdict, RequeueVerdict } from "./domain/decisions/decide-preemption.ts";
import type { LimitVerdict } from "./domain/decisions/decide-limit.ts";
import type { ReleaseVerdict } from "./domain/decisions/decide-reservation-release.ts";
import type { Verdict } from "./domain/decisions/decide-reservation.ts";
import type { WaitReason } from "./domain/decisions/explain-waiting.ts";
import type { Settlement } from "./domain/decisions/plan-settlement.ts";
import type { Owner } from "@muster/names";
import { getReservationId, type Reservation } from "./domain/ledger/reservation.ts";

const TRACER = "@muster/reservation-manager";

/**
 * Traces one decision. A refusal is an answer, not an error: the span has its code as an attribute. The span has no children, so it does not become the active
 * span, which would cost as much as a small decision.
 */
export async function runInDecisionSpan<Result>(
  name: string,
  attributes: Record<string, string | number | boolean>,
  refused: (code: Fault["code"]) => void,
  work: (span: Span) => Promise<Result>,
): Promise<Result> {
  const span = trace.getTracer(TRACER).startSpan(name, { attributes });
  try {
    return await work(span);
  } catch (error) {
    const fault = findFault(error);
    if (fault === undefined) {
      span.recordException(error instanceof Error ? error : String(error));
      span.setStatus({ code: SpanStatusCode.ERROR });
    } else {
      span.setAttributes({ "muster.outcome": "refuse", "muster.because": getReason(fault) });
      refused(fault.code);
    }
    throw error;
  } finally {
    span.end();
  }
}

/** Traces a decision that no request caused. */
export async function showPlan(steps: Steps): Promise<void> {
  await inSpan(TRACER, "plan grants", {}, (span) => {
    showSteps(span, steps);
    return Promise.resolve();
  });
}

/** A refused decision carries the code of its fault. */
export type DecisionOutcome =
  | Exclude<Verdict["kind"], "refuse">
  | ReleaseVerdict["kind"]
  | LimitVerdict["kind"]
  | AcceptVerdict["kind"]
  | RequeueVerdict["kind"]
  | Fault["code"];

type Steps = Settlement["steps"];

export function showSteps(span: Span, steps: Steps): void {
  for (const step of steps)
    span.addEvent(step.kind, {
      "muster.reservation": getReservationId(step.sequence),
      "muster.because": step.because.code,
      "muster.ahead": step.because.ahead,
    });
}

export function buildOwnerAttributes({ kind, id }: Owner): Record<string, string> {
  return { "muster.owner.kind": kind, "muster.owner.id": id };
}

export function reportAttributes(
  reservation: Reservation,
  because: WaitReason | undefined,
): Record<string, string | number> {
  return {
    "muster.reservation": getReservationId(reservation.sequence),
    ...(because !== undefined && {
      "muster.wait.pool": because.pool,
      "muster.wait.requested": because.requested,
      "muster.wait.available": because.available,
      "muster.wait.ahead": because.ahead,
    }),
  };
}
