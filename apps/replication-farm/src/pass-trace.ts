import type { PassSpan } from "@muster/controller";
import { parseTraceparent, inSpan, getTraceparent } from "@muster/tracing";
import { context } from "@opentelemetry/api";

export const TRACER = "@muster/replication-farm";

/** Starts the span of one round of a pass, in the trace of the request `under`; empty: a new trace begins. */
export function buildPassSpan(set: string, under: string): PassSpan {
  return { name: "replica set pass", parent: parseTraceparent(under), attributes: { "muster.replica_set": set } };
}

type TracedStep = { readonly name: string; readonly set: string; readonly because: string };

/** Runs one step under its own span, inside the pass. The work gets the traceparent of the span; empty if this process records no spans. */
export function runInStepSpan<Result>(
  { name, set, because }: TracedStep,
  work: (traceparent: string) => Promise<Result>,
): Promise<Result> {
  const attributes = { "muster.replica_set": set, "muster.because": because };
  return inSpan(TRACER, name, { attributes }, () => work(getTraceparent()));
}

/** Runs work in the trace of the request, without its own span. */
export function runInTrace<Result>(under: string, work: () => Promise<Result>): Promise<Result> {
  return context.with(parseTraceparent(under), work);
}
