import { context, propagation, trace } from "@opentelemetry/api";
import { AsyncLocalStorageContextManager } from "@opentelemetry/context-async-hooks";
import { W3CTraceContextPropagator } from "@opentelemetry/core";
import { decideTelemetry } from "./decide-telemetry.ts";
import { makeUnrecordedSpans } from "./unrecorded-spans.ts";

/**
 * Starts tracing for a command, whose metrics no server scrapes. Trace ids always exist; the SDK is loaded only if the OTEL_* variables enable an export.
 * Disposal sends the remaining spans.
 */
export async function startTracing(identity: {
  readonly service: string;
  readonly version: string;
  readonly env: Readonly<Record<string, string | undefined>>;
}): Promise<AsyncDisposable> {
  if (decideTelemetry(identity.env).by === "sdk") return (await import("./telemetry.ts")).startTelemetry(identity);
  context.setGlobalContextManager(new AsyncLocalStorageContextManager().enable());
  propagation.setGlobalPropagator(new W3CTraceContextPropagator());
  trace.setGlobalTracerProvider(makeUnrecordedSpans());
  return {
    [Symbol.asyncDispose]: () => {
      for (const api of [context, propagation, trace]) api.disable();
      return Promise.resolve();
    },
  };
}
