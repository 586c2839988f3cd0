import type { PassSpan } from "@muster/controller";
import { ROOT_CONTEXT, type Context } from "@opentelemetry/api";
import { buildContextOfIds, parseTraceparent, inSpan } from "@muster/tracing";
import type { JobStep } from "../domain/plan-steps.ts";
import type { JobRow } from "./read-job.ts";

const TRACER = "job-controller";

/**
 * Returns the trace context of a job, which is equal in every process: the context of its submission, or else one built from its uid. So a job from kubectl is
 * one trace too.
 */
export function buildTraceContext({ traceparent, metadata }: Pick<JobRow, "traceparent" | "metadata">): Context {
  if (traceparent !== "") return parseTraceparent(traceparent);
  const traceId = metadata.uid.replaceAll("-", "");
  if (!/^[0-9a-f]{32}$/.test(traceId) || /^0+$/.test(traceId)) return ROOT_CONTEXT;
  return buildContextOfIds({ traceId, spanId: traceId.slice(16) });
}

/** Returns the span of one round of a pass, in the job's trace. */
export function buildPassSpan(job: JobRow): PassSpan {
  const attributes = { "muster.job": job.metadata.name, "muster.job.kind": job.kind.kind };
  return { name: "job pass", parent: buildTraceContext(job), attributes };
}

/** Runs the step in a separate span below that of its pass. */
export function runInStepSpan<Result>(job: JobRow, step: JobStep, work: () => Promise<Result>): Promise<Result> {
  const attributes = { "muster.job": job.metadata.name, "muster.because": step.because };
  return inSpan(TRACER, step.kind, { attributes }, work);
}
