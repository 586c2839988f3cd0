export { buildContextOfIds, parseTraceparent, extractTrace, injectTrace, getTraceparent } from "./propagation.ts";
export { inSpan, recordSpan } from "./span.ts";
export { startTracing } from "./start-tracing.ts";
export { startTelemetry } from "./telemetry.ts";
