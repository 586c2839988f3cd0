import { context, propagation, ROOT_CONTEXT, trace, TraceFlags, type Context } from "@opentelemetry/api";
import { W3CTraceContextPropagator } from "@opentelemetry/core";

/** The propagator of stored contexts and of pods: its format is independent of OTEL_PROPAGATORS, which concerns messages. */
const w3c = new W3CTraceContextPropagator();

/** Writes the active trace context into a carrier of headers. Does nothing without an active span. */
export function injectTrace(headers: Map<string, string>, from: Context = context.active()): void {
  propagation.inject(from, headers, setter);
}

/** The context that a message was sent under; the root context when it carries none. */
export function extractTrace(headers: ReadonlyMap<string, string>): Context {
  return propagation.extract(ROOT_CONTEXT, headers, getter);
}

/** The W3C traceparent of a context; empty without one. */
export function getTraceparent(from: Context = context.active()): string {
  return w3cHeaders(from).get("traceparent") ?? "";
}

/** The context that a W3C traceparent names; the root context if the text is empty or no traceparent. */
export function parseTraceparent(traceparent: string): Context {
  return w3c.extract(ROOT_CONTEXT, new Map([["traceparent", traceparent]]), getter);
}

/** Builds the context of a span that no process has recorded, for example with ids derived from a name. Every process then adds to one trace. */
export function buildContextOfIds(ids: { readonly traceId: string; readonly spanId: string }): Context {
  return trace.setSpanContext(ROOT_CONTEXT, { ...ids, traceFlags: TraceFlags.SAMPLED, isRemote: true });
}

const setter = {
  set: (carrier: Map<string, string>, key: string, value: string) => void carrier.set(key, value),
};
const getter = {
  get: (carrier: ReadonlyMap<string, string>, key: string) => carrier.get(key),
  keys: (carrier: ReadonlyMap<string, string>) => [...carrier.keys()],
};

function w3cHeaders(from: Context): ReadonlyMap<string, string> {
  const headers = new Map<string, string>();
  w3c.inject(from, headers, setter);
  return headers;
}
