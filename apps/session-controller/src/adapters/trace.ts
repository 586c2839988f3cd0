import type { PassSpan } from "@muster/controller";
import type { Attributes, Context } from "@opentelemetry/api";
import { parseTraceparent, inSpan, recordSpan } from "@muster/tracing";
import type { ActStep } from "../domain/session-steps.ts";
import { findEvent, type EventKind, type SessionRecord } from "../domain/session.ts";

const TRACER = "session-controller";

/** Returns the context of the submission, which is the parent of all spans of a session in every process. */
function contextOf(record: SessionRecord): Context {
  return parseTraceparent(record.traceparent);
}

export function buildPassSpan(record: SessionRecord, phase: string): PassSpan {
  const attributes = {
    "muster.session": record.name,
    "muster.epoch": record.epoch,
    "muster.executor": record.executor,
  };
  return { name: `session ${phase}`, parent: contextOf(record), attributes };
}

export function runInStepSpan<Result>(
  record: SessionRecord,
  step: ActStep,
  work: () => Promise<Result>,
): Promise<Result> {
  const attributes = { "muster.session": record.name, "muster.because": step.because, ...detailsOf(step) };
  return inSpan(TRACER, nameOf(step), { attributes }, work);
}

/** Records a phase as one span from its first to its last event. The record contains all events, so the span is complete even after a change of executor. */
export function recordPhase(record: SessionRecord, name: "queue" | "run", from: EventKind, endMs: number): void {
  const start = findEvent(record, from);
  if (start === undefined) return;
  const attributes = { "muster.session": record.name };
  recordSpan(TRACER, name, { startMs: start.atMs, endMs, parent: contextOf(record), attributes });
}

function nameOf(step: ActStep): string {
  switch (step.kind) {
    case "create-pod":
      return "create pod";
    case "collect-logs":
      return "collect logs";
    case "delete-pod":
      return "delete pods";
    case "reserve":
    case "release":
    case "reserve-replacement":
    case "release-replacement":
      return step.kind;
  }
}

function detailsOf(step: ActStep): Attributes {
  switch (step.kind) {
    case "create-pod":
      return { "muster.component": step.component.name, "muster.node": step.node, "muster.pool": step.pool };
    case "delete-pod":
      return { "muster.pod": step.pod };
    case "collect-logs":
      return { "muster.pods": step.pods.length };
    case "reserve-replacement":
    case "release-replacement":
      return { "muster.component": step.component };
    case "reserve":
    case "release":
      return {};
  }
}
