import { context } from "@opentelemetry/api";
import { contextOfTraceparent, inSpan, traceparentOf } from "@muster/tracing";

const TRACER = "@muster/replication-farm";

export type TracedChange = {
  /** Names the span. */
  readonly doing: string;
  readonly set: string;
  readonly because: string;
  /** Traceparent of what was asked for, which this is a part of; empty: nobody asked, and a trace begins here. */
  readonly under: string;
};

/** Runs one change under a span of its own. The work is told the span's traceparent, which is that of what was asked for where this process makes no spans. */
export function inChange<Result>(
  { doing, set, because, under }: TracedChange,
  work: (traceparent: string) => Promise<Result>,
): Promise<Result> {
  const attributes = { "muster.replica_set": set, "muster.because": because };
  return inSpan(TRACER, doing, { parent: contextOfTraceparent(under), attributes }, () =>
    work(traceparentOf() || under),
  );
}

/** Runs work in the trace of what was asked for, without a span: only what it calls has any. */
export function inTrace<Result>(under: string, work: () => Promise<Result>): Promise<Result> {
  return context.with(contextOfTraceparent(under), work);
}
