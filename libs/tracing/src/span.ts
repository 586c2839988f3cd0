import {
  context,
  SpanStatusCode,
  trace,
  type Attributes,
  type Context,
  type Link,
  type Span,
  type SpanKind,
} from "@opentelemetry/api";

/** Runs the work in a new span; an error is recorded, marks the span as failed, and is rethrown. */
export async function inSpan<Result>(
  tracer: string,
  name: string,
  options: {
    readonly attributes?: Attributes;
    readonly kind?: SpanKind;
    readonly links?: Link[];
    readonly parent?: Context;
  },
  work: (span: Span) => Promise<Result>,
): Promise<Result> {
  const { parent = context.active(), ...spanOptions } = options;
  const span = trace.getTracer(tracer).startSpan(name, spanOptions, parent);
  try {
    return await context.with(trace.setSpan(parent, span), () => work(span));
  } catch (error) {
    span.recordException(error instanceof Error ? error : String(error));
    span.setStatus({ code: SpanStatusCode.ERROR, message: error instanceof Error ? error.message : String(error) });
    throw error;
  } finally {
    span.end();
  }
}

/** Records a span that has ended. `startMs` and `endMs` are Unix milliseconds, which may precede the start of this process. */
export function recordSpan(
  tracer: string,
  name: string,
  {
    startMs,
    endMs,
    parent,
    attributes,
  }: { readonly startMs: number; readonly endMs: number; readonly parent: Context; readonly attributes: Attributes },
): void {
  // Passed as dates, because the SDK reads numbers before the start of the process as relative times.
  const span = trace.getTracer(tracer).startSpan(name, { startTime: new Date(startMs), attributes }, parent);
  span.end(new Date(endMs));
}
