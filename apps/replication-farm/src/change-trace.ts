import { context } from "@opentelemetry/api";
import { contextOfTraceparent, inSpan, traceparentOf } from "@muster/tracing";

const TRACER = "@muster/replication-farm";

export type TracedChange = {
  /** Names the span. */
  readonly doing: string;
  readonly set: string;
  readonly because: string;
  /** Traceparent of the request that the change follows from; empty: none, and a new trace begins. */
  readonly under: string;
};

/** Runs one change under a span of its own. The work gets the traceparent of the span, or that of the request where this process makes no spans. */
export function inChange<Result>(
  { doing, set, because, under }: TracedChange,
  work: (traceparent: string) => Promise<Result>,
): Promise<Result> {
  const attributes = { "muster.replica_set": set, "muster.because": because };
  return inSpan(TRACER, doing, { parent: contextOfTraceparent(under), attributes }, () =>
    work(traceparentOf() || under),
  );
}

/** Runs work in the trace of the request, without a span of its own. */
export function inTrace<Result>(under: string, work: () => Promise<Result>): Promise<Result> {
  return context.with(contextOfTraceparent(under), work);
}
