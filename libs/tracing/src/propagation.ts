import { context, propagation, ROOT_CONTEXT, type Context } from "@opentelemetry/api";

/** Writes the active trace context into a carrier of headers. Does nothing when there is no active span. */
export function injectTrace(headers: Map<string, string>, from: Context = context.active()): void {
  propagation.inject(from, headers, { set: (carrier, key, value) => carrier.set(key, value) });
}

/** The context that a message was sent under; the root context when it carries none. */
export function extractTrace(headers: ReadonlyMap<string, string>): Context {
  return propagation.extract(ROOT_CONTEXT, headers, {
    get: (carrier, key) => carrier.get(key),
    keys: (carrier) => [...carrier.keys()],
  });
}

/** The W3C traceparent of a context; empty when there is none. */
export function traceparentOf(from: Context = context.active()): string {
  const headers = new Map<string, string>();
  injectTrace(headers, from);
  return headers.get("traceparent") ?? "";
}

/** The context that a W3C traceparent names; the root context when it is empty or none. */
export function contextOfTraceparent(traceparent: string): Context {
  return extractTrace(new Map([["traceparent", traceparent]]));
}

/** Environment variables that hand the context to a process: TRACEPARENT and, when set, TRACESTATE. */
export function envFromContext(from: Context = context.active()): Record<string, string> {
  const headers = new Map<string, string>();
  injectTrace(headers, from);
  return Object.fromEntries([...headers].map(([key, value]) => [key.toUpperCase(), value]));
}
