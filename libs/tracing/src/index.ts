export { contextOfIds, contextOfTraceparent, extractTrace, injectTrace, traceparentOf } from "./propagation.ts";
export { inSpan, recordSpan } from "./span.ts";
export { startTracing } from "./start-tracing.ts";
export { startTelemetry } from "./telemetry.ts";
