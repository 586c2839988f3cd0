import { ROOT_CONTEXT, trace, TraceFlags, type Context } from "@opentelemetry/api";
import { contextOfTraceparent, inSpan } from "@muster/tracing";
import type { JobPlan, JobStep } from "../domain/plan-steps.ts";
import type { JobRow } from "./read-job.ts";

const TRACER = "job-controller";

/**
 * The context under which everything that happens to a job is told, whichever process does it: that of its submission, or one that is made of its uid, so that a job that
 * kubectl made is one trace, too.
 */
export function contextOf({ traceparent, metadata }: Pick<JobRow, "traceparent" | "metadata">): Context {
  if (traceparent !== "") return contextOfTraceparent(traceparent);
  const traceId = metadata.uid.replaceAll("-", "");
  if (!/^[0-9a-f]{32}$/.test(traceId) || /^0+$/.test(traceId)) return ROOT_CONTEXT;
  const spanId = traceId.slice(16);
  return trace.setSpanContext(ROOT_CONTEXT, { traceId, spanId, traceFlags: TraceFlags.SAMPLED, isRemote: true });
}

/** Steps of a plan that its span names; a gang that ends has one for each pod. */
const STEPS_MOST = 50;

/** Runs one pass under a span of the job's trace, which has the plan: what is done, and because of what. */
export function inPass<Result>(job: JobRow, { steps }: JobPlan, work: () => Promise<Result>): Promise<Result> {
  const attributes = {
    "muster.job": job.metadata.name,
    "muster.job.kind": job.kind.kind,
    "muster.plan": steps.slice(0, STEPS_MOST).map((step) => `${step.do}: ${step.because}`),
    "muster.plan.steps": steps.length,
  };
  return inSpan(TRACER, "job pass", { parent: contextOf(job), attributes }, work);
}

/** Runs one step under a span of its own, inside the pass. */
export function inStep<Result>(job: JobRow, step: JobStep, work: () => Promise<Result>): Promise<Result> {
  const attributes = { "muster.job": job.metadata.name, "muster.because": step.because };
  return inSpan(TRACER, step.do, { attributes }, work);
}
